"""Figures in three steps: `boxplot_frame` puts our values next to the published ones, `boxplot`
draws them, and `save` writes the files."""

from lib.figures.boxplots import boxplot, boxplot_frame
from lib.figures.comparisons import ledger, verdict_changes
from lib.figures.distributions import ecdf, ecdf_frame, histogram, histogram_frame, violins
from lib.figures.estimates import READOUTS, differences
from lib.figures.lessons import histories, nearest
from lib.figures.scores import curves, dots, score_frame
from lib.figures.style import COLORS, INK, labelled, panels, rows_from_top, save, settings, style
