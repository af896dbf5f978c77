"""What the thesis printed and drew, and where its text and its code disagree."""

from lib.published.numbers import FOLDER, labels, load
