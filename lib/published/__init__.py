"""What the thesis printed and drew, and where its text and its code disagree."""

from lib.published.numbers import BOXPLOTS, CHAPTER_4, CHAPTER_5, FOLDER, labels, load
