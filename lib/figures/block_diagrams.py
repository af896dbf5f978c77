"""The thesis' two block diagrams, redrawn: Figure 3.1 (training) and Figure 4.6 (contextual loss)."""

from functools import partial

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

_COLOURS = {"trained": "#cfe3f2", "frozen": "#e6e6e6", "loss": "#f8dfc4", "data": "#ffffff"}
_WIDTH, _HEIGHT = 1.9, 0.62  # of a box, in inches
_EDGE = {"edgecolor": "#444444", "linewidth": 0.8}
_CENTRED = {"ha": "center", "va": "center"}
_BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1}
_ARROW = {"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 1}
# A box by its name: text, centre in inches, what its colour says, and where its arrows come from, with their texts.
_Boxes = dict[str, tuple[str, float, float, str, dict[str, str]]]

# Figure 3.1: both teachers are frozen, so their embeddings are computed before training.
_FIG3_1: _Boxes = {
    "document": ("document", 3.6, 0.5, "data", {}),
    "sbert": ("structural teacher\nSBERT", 1.1, 1.7, "frozen", {"document": "first 384 tokens"}),
    "student": ("student\nLongformer", 3.6, 1.7, "trained", {"document": "up to 4096"}),
    "pv": ("contextual teacher\nParagraph Vector", 6.1, 1.7, "frozen", {"document": "all words"}),
    "structural": ("structural loss $L_S$\nexact", 1.9, 2.95, "loss", {"sbert": "", "student": ""}),
    "contextual": ("contextual loss $L_C$\nforgiving", 5.3, 2.95, "loss", {"student": "", "pv": ""}),
    "total": ("$\\lambda L_S + (1-\\lambda)L_C$", 3.6, 4.1, "loss", {"structural": "", "contextual": ""}),
}
# Figure 4.6: the two projections train with the student; SoftCCA compares what they put out.
_SOFT_CCA = "SoftCCA: $L_{L2}+\\delta\\,(L_{SDL}(Z_1)+L_{SDL}(Z_2))$"
_FIG4_6: _Boxes = {
    "student": ("student\nembedding", 1.9, 0.5, "trained", {}),
    "teacher": ("contextual teacher\nembedding", 5.3, 0.5, "frozen", {}),
    "f_s": ("student projection\n$f_S$", 1.9, 1.7, "trained", {"student": ""}),
    "f_c": ("contextual projection\n$f_C$", 5.3, 1.7, "trained", {"teacher": ""}),
    "sdl_s": ("decorrelation\n$L_{SDL}(Z_1)$", 1.1, 2.95, "loss", {"f_s": ""}),
    "l2": ("distance\n$L_{L2}(Z_1, Z_2)$", 3.6, 2.95, "loss", {"f_s": "$Z_1$", "f_c": "$Z_2$"}),
    "sdl_c": ("decorrelation\n$L_{SDL}(Z_2)$", 6.1, 2.95, "loss", {"f_c": ""}),
    "total": (_SOFT_CCA, 3.6, 4.1, "loss", {"sdl_s": "", "l2": "", "sdl_c": ""}),
}


def _draw(boxes: _Boxes) -> tuple[Figure, pd.DataFrame]:
    """The figure, and its arrows as a table, which is its CSV."""
    figure, axes = plt.subplots(figsize=(7.2, 4.9))
    axes.set(xlim=(0, 7.2), ylim=(0, 4.9), aspect="equal")
    axes.axis("off")
    for text, x, y, role, _ in boxes.values():
        width = max(_WIDTH, 0.105 * max(map(len, text.split("\n"))))
        corner, rounded = (x - width / 2, y - _HEIGHT / 2), "round,pad=0,rounding_size=0.08"
        axes.add_patch(FancyBboxPatch(corner, width, _HEIGHT, boxstyle=rounded, facecolor=_COLOURS[role], **_EDGE))
        axes.text(x, y, text, **_CENTRED, fontsize=9)
    arrows = [(start, end, label) for end, (*_, inputs) in boxes.items() for start, label in inputs.items()]
    for start, end, label in arrows:
        (ax, ay), (bx, by) = boxes[start][1:3], boxes[end][1:3]
        tail, head = (ax + 0.15 * (bx - ax), ay + _HEIGHT / 2), (bx + 0.15 * (ax - bx), by - _HEIGHT / 2)
        axes.annotate("", xy=head, xytext=tail, arrowprops=_ARROW)
        if label:
            axes.text((ax + bx) / 2, (ay + by) / 2, label, **_CENTRED, fontsize=8, bbox=_BEHIND)
    for number, role in enumerate(("trained", "frozen", "loss")):
        axes.add_patch(plt.Rectangle((0.1 + 1.0 * number, 4.62), 0.18, 0.18, facecolor=_COLOURS[role], **_EDGE))
        axes.text(0.36 + 1.0 * number, 4.71, role, va="center", fontsize=8)
    table = pd.DataFrame(arrows, columns=["from", "to", "label"])
    texts = {name: text for name, (text, *_) in boxes.items()}
    return figure, table.replace({"from": texts, "to": texts}).replace({"\n": " ", r"\$": ""}, regex=True)


fig3_1 = partial(_draw, _FIG3_1)
fig4_6 = partial(_draw, _FIG4_6)
