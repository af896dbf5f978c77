"""Where the numbers of a rolled batch come from (notebook 03)."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from lib.figures.style import COLORS, DARK, WIDTH, rows_from_top, style


def draw_origins(batches: Mapping[str, np.ndarray]) -> Figure:
    """Batches as heat maps: a colour for each document, darker from its first feature to its last.

    Parameters
    ----------
    batches : mapping
        Title -> (documents, features) batch. Before it was rolled, feature `f` of document `d` was
        the number d * features + f.
    """
    with style():
        figure, axes = plt.subplots(1, len(batches), figsize=(WIDTH, 2.4), sharey=True)
    for axis, (title, batch) in zip(axes, batches.items(), strict=True):
        documents, features = batch.shape
        origin, feature = np.divmod(batch, features)
        tints = np.array([to_rgb(COLORS[document % len(COLORS)]) for document in range(documents)])
        strength = np.linspace(0.25, 0.9, features)[feature][..., None]
        axis.imshow(1 - strength * (1 - tints[origin]), aspect="auto")
        own = (origin == np.arange(documents)[:, None]).mean()
        axis.set(xticks=[], xlabel=f"{own:.0%} of the numbers are\nthe document's own")
        axis.set_title(title, family="monospace", fontsize=7.5)
        axis.grid(visible=False)
        if features <= 10:
            for row, column in np.ndindex(batch.shape):
                text = {"ha": "center", "va": "center", "fontsize": 7.5, "color": DARK}
                axis.text(column, row, batch[row, column], **text)
    rows_from_top(axes[0], [f"document {document + 1}" for document in range(documents)])
    return figure
