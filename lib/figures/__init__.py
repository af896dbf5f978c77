"""Figures in three steps: `boxplot_frame` puts our values next to the published ones, `boxplot`
draws them, and `save` writes the files."""

from lib.figures.boxplots import block_diagram, boxplot, boxplot_frame
from lib.figures.distributions import ecdf, ecdf_frame, histogram, histogram_frame, violins
from lib.figures.scores import READOUT_WORDS, differences, dots, score_frame
from lib.figures.style import COLORS, INK, labelled, panels, rows_from_top, save, settings, style
