"""Figures: `boxplot_frame` puts values next to published ones, `boxplot` draws, `save` writes."""

from lib.figures.boxplots import block_diagram, boxplot, boxplot_frame
from lib.figures.distributions import ecdf, ecdf_frame, histogram, histogram_frame, violins
from lib.figures.scores import READOUT_WORDS, differences, dots, score_frame
from lib.figures.style import COLORS, INK, labelled, panels, rows_from_top, save, settings, style
