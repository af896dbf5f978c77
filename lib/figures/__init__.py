"""Figures in one style, saved by one call.

`boxplot_frame` lays our values beside the published ones, `boxplot` draws that frame, `save` writes SVG, CSV and
provenance. The other figures have the same three steps: `histogram_frame`, `histogram`, `save`, and so on.
"""

from lib.figures.boxplots import boxplot, boxplot_frame
from lib.figures.curves import curves
from lib.figures.lengths import ecdf, ecdf_frame, histogram, histogram_frame
from lib.figures.scores import bars, points, score_frame, spans
from lib.figures.style import SIZES, save, style
from lib.figures.violins import violin_frame, violins
