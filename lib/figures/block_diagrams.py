"""The thesis' two block diagrams, redrawn: Figure 3.1 (training) and Figure 4.6 (contextual loss).

A drawing is a table of boxes and a table of arrows; the arrows are what `save` writes as the figure's CSV.
"""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

TRAINED, FROZEN, LOSS, DATA = "trained", "frozen", "loss", "data"
_COLOURS = {TRAINED: "#cfe3f2", FROZEN: "#e6e6e6", LOSS: "#f8dfc4", DATA: "#ffffff"}
_BOX = (1.9, 0.62)  # inches


@dataclass(frozen=True)
class Box:
    """A labelled box: centre in inches, and what its colour says (trained, frozen, loss or data)."""

    text: str
    x: float
    y: float
    role: str


# Figure 3.1: both teachers are frozen, so their embeddings are computed before training.
FIG3_1_BOXES = {
    "document": Box("document", 3.6, 0.5, DATA),
    "sbert": Box("structural teacher\nSBERT", 1.1, 1.7, FROZEN),
    "student": Box("student\nLongformer", 3.6, 1.7, TRAINED),
    "pv": Box("contextual teacher\nParagraph Vector", 6.1, 1.7, FROZEN),
    "structural": Box("structural loss $L_S$\nexact", 1.9, 2.95, LOSS),
    "contextual": Box("contextual loss $L_C$\nforgiving", 5.3, 2.95, LOSS),
    "total": Box("$\\lambda L_S + (1-\\lambda)L_C$", 3.6, 4.1, LOSS),
}
FIG3_1_ARROWS = [
    ("document", "sbert", "first 384 tokens"),
    ("document", "student", "up to 4096"),
    ("document", "pv", "all words"),
    ("sbert", "structural", ""),
    ("student", "structural", ""),
    ("student", "contextual", ""),
    ("pv", "contextual", ""),
    ("structural", "total", ""),
    ("contextual", "total", ""),
]

# Figure 4.6: the two projections train with the student; SoftCCA compares what they put out.
FIG4_6_BOXES = {
    "student": Box("student\nembedding", 1.9, 0.5, TRAINED),
    "teacher": Box("contextual teacher\nembedding", 5.3, 0.5, FROZEN),
    "f_s": Box("student projection\n$f_S$", 1.9, 1.7, TRAINED),
    "f_c": Box("contextual projection\n$f_C$", 5.3, 1.7, TRAINED),
    "sdl_s": Box("decorrelation\n$L_{SDL}(Z_1)$", 1.1, 2.95, LOSS),
    "l2": Box("distance\n$L_{L2}(Z_1, Z_2)$", 3.6, 2.95, LOSS),
    "sdl_c": Box("decorrelation\n$L_{SDL}(Z_2)$", 6.1, 2.95, LOSS),
    "total": Box("SoftCCA: $L_{L2}+\\delta\\,(L_{SDL}(Z_1)+L_{SDL}(Z_2))$", 3.6, 4.1, LOSS),
}
FIG4_6_ARROWS = [
    ("student", "f_s", ""),
    ("teacher", "f_c", ""),
    ("f_s", "sdl_s", ""),
    ("f_s", "l2", "$Z_1$"),
    ("f_c", "l2", "$Z_2$"),
    ("f_c", "sdl_c", ""),
    ("sdl_s", "total", ""),
    ("l2", "total", ""),
    ("sdl_c", "total", ""),
]


def fig3_1() -> tuple[Figure, pd.DataFrame]:
    """The architecture of the teacher-student training: (figure, its arrows as a table)."""
    return _draw(FIG3_1_BOXES, FIG3_1_ARROWS)


def fig4_6() -> tuple[Figure, pd.DataFrame]:
    """The architecture of the contextual loss: (figure, its arrows as a table)."""
    return _draw(FIG4_6_BOXES, FIG4_6_ARROWS)


def _draw(boxes: dict[str, Box], arrows: list[tuple[str, str, str]]) -> tuple[Figure, pd.DataFrame]:
    figure, axes = plt.subplots(figsize=(7.2, 4.9))
    axes.set(xlim=(0, 7.2), ylim=(0, 4.9), aspect="equal")
    axes.axis("off")
    width, height = _BOX
    for box in boxes.values():
        wide = max(width, 0.105 * max(map(len, box.text.split("\n"))))
        patch = FancyBboxPatch(
            (box.x - wide / 2, box.y - height / 2),
            wide,
            height,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=_COLOURS[box.role],
            edgecolor="#444444",
            linewidth=0.8,
        )
        axes.add_patch(patch)
        axes.text(box.x, box.y, box.text, ha="center", va="center", fontsize=9)
    for start, end, label in arrows:
        a, b = boxes[start], boxes[end]
        axes.annotate(
            "",
            xy=(b.x + 0.15 * (a.x - b.x), b.y - height / 2),
            xytext=(a.x + 0.15 * (b.x - a.x), a.y + height / 2),
            arrowprops={"arrowstyle": "-|>", "color": "#444444", "linewidth": 0.9, "shrinkA": 0, "shrinkB": 1},
        )
        if label:
            axes.text(
                (a.x + b.x) / 2,
                (a.y + b.y) / 2,
                label,
                ha="center",
                va="center",
                fontsize=8,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
    for number, (role, text) in enumerate([(TRAINED, "trained"), (FROZEN, "frozen"), (LOSS, "loss")]):
        axes.add_patch(
            plt.Rectangle(
                (0.1 + 1.0 * number, 4.62), 0.18, 0.18, facecolor=_COLOURS[role], edgecolor="#444444", linewidth=0.8
            )
        )
        axes.text(0.36 + 1.0 * number, 4.71, text, va="center", fontsize=8)
    table = pd.DataFrame(
        [{"from": _plain(boxes[a].text), "to": _plain(boxes[b].text), "label": _plain(label)} for a, b, label in arrows]
    )
    return figure, table


def _plain(text: str) -> str:
    return text.replace("\n", " ").replace("$", "")
