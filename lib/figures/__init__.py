"""Figures in three steps: `boxplot_frame` puts our values next to the published ones, `boxplot`
draws them, and `save` writes the files."""

from lib.figures.boxplots import boxplot, boxplot_frame
from lib.figures.comparisons import (
    ledger,
    losses,
    verdict_changes,
)
from lib.figures.distributions import (
    ecdf,
    ecdf_frame,
    histogram,
    histogram_frame,
    violin_frame,
    violins,
)
from lib.figures.estimates import costs, differences
from lib.figures.lessons import (
    draw_origins,
    histories,
    nearest,
    pulls,
    show_reading,
    walks,
)
from lib.figures.scores import (
    curves,
    dots,
    readouts,
    score_frame,
)
from lib.figures.style import COLORS, INK, labelled, panels, save, settings, style
