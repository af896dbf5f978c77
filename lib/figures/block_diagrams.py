"""The thesis' two block diagrams, redrawn: Figure 3.1 (training) and Figure 4.6 (contextual loss)."""

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from lib.figures.style import LOOK

_PARTS = LOOK["diagram_parts"]
_WIDTH, _HEIGHT = 1.9, 0.62  # of a box, in inches


def draw(label: str) -> tuple[Figure, pd.DataFrame]:
    """Figure 3.1 (fig3_1) or 4.6, as `params/figures.yaml` lays it out, and its arrows as a table, which is its CSV."""
    boxes = LOOK["diagrams"][label]
    figure, axes = plt.subplots(figsize=(7.2, 4.9))
    axes.set(xlim=(0, 7.2), ylim=(0, 4.9), aspect="equal")
    axes.axis("off")
    for box in boxes.values():
        text, (x, y), colour = box["text"], box["at"], _PARTS["colours"][box["role"]]
        width = max(_WIDTH, 0.105 * max(map(len, text.split("\n"))))
        corner, rounded = (x - width / 2, y - _HEIGHT / 2), "round,pad=0,rounding_size=0.08"
        axes.add_patch(FancyBboxPatch(corner, width, _HEIGHT, boxstyle=rounded, facecolor=colour, **_PARTS["edge"]))
        axes.text(x, y, text, **_PARTS["centred"], fontsize=9)
    arrows = [(start, end, label) for end, box in boxes.items() for start, label in box["inputs"].items()]
    for start, end, label in arrows:
        (ax, ay), (bx, by) = boxes[start]["at"], boxes[end]["at"]
        tail, head = (ax + 0.15 * (bx - ax), ay + _HEIGHT / 2), (bx + 0.15 * (ax - bx), by - _HEIGHT / 2)
        axes.annotate("", xy=head, xytext=tail, arrowprops=_PARTS["arrow"])
        if label:
            axes.text((ax + bx) / 2, (ay + by) / 2, label, **_PARTS["centred"], fontsize=8, bbox=_PARTS["behind"])
    for number, role in enumerate(("trained", "frozen", "loss")):
        colour = _PARTS["colours"][role]
        axes.add_patch(plt.Rectangle((0.1 + 1.0 * number, 4.62), 0.18, 0.18, facecolor=colour, **_PARTS["edge"]))
        axes.text(0.36 + 1.0 * number, 4.71, role, va="center", fontsize=8)
    table = pd.DataFrame(arrows, columns=["from", "to", "label"])
    texts = {name: box["text"] for name, box in boxes.items()}
    return figure, table.replace({"from": texts, "to": texts}).replace({"\n": " ", r"\$": ""}, regex=True)
