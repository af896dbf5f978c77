"""What the thesis printed and drew, and where its text and its code disagree."""

from lib.published.grids import figure_models, grid_models, model_names, table_models
from lib.published.numbers import CHAPTER_4, FOLDER, identities, labels, load, models
