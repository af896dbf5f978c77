"""Figures in three steps: `boxplot_frame` puts our values next to the published ones, `boxplot`
draws them, and `save` writes the files."""

from lib.figures.boxplots import boxplot, boxplot_frame
from lib.figures.comparisons import (
    ledger,
    losses,
    setting_effects,
    settings_frame,
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
from lib.figures.estimates import READOUTS, differences
from lib.figures.lessons import (
    draw_origins,
    heat_map,
    histories,
    nearest,
    pulls,
    show_reading,
    walks,
    word_pulls,
)
from lib.figures.scores import (
    curves,
    dots,
    gradient_shares,
    heavier_context,
    length_of_training,
    readouts,
    score_frame,
)
from lib.figures.style import (
    COLORS,
    labelled,
    panels,
    rows_from_top,
    save,
    settings,
    style,
)
