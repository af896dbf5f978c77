"""The thesis' block diagrams, redrawn: Figure 3.1 (training) and Figure 4.6 (contextual loss)."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lib.figures.style import panels, settings, style


@style()
def block_diagram(label: str) -> tuple[Figure, pd.DataFrame]:
    """Draw Figure 3.1 (fig3_1) or 4.6, as laid out in `params/figures.yaml`.

    Returns the figure, and its arrows as a table for the CSV: from, to, label.
    """
    parts = settings()["diagram_parts"]
    boxes = settings()["diagrams"][label]
    figure, ((axes,),) = panels(1, 4.2)
    axes.set(xlim=(0.1, 7.1), ylim=(0.1, 4.9))
    axes.axis("off")
    drawn = {}
    for name, box in boxes.items():
        look = parts["box"] | {"facecolor": parts["colours"][box["role"]]}
        text = axes.text(*box["at"], box["text"], bbox=look, **parts["centred"], fontsize=9.5)
        drawn[name] = text.get_bbox_patch()
    arrows = [
        (start, end, text) for end, box in boxes.items() for start, text in box["inputs"].items()
    ]
    for start, end, text in arrows:
        places = [boxes[start]["at"], boxes[end]["at"]]
        ends = {"patchA": drawn[start], "patchB": drawn[end]}
        axes.annotate("", xytext=places[0], xy=places[1], arrowprops=parts["arrow"] | ends)
        middle = np.mean(places, axis=0)
        axes.text(*middle, text, **parts["centred"], fontsize=8.5, bbox=parts["behind"])
    roles = dict.fromkeys(box["role"] for box in boxes.values())
    handles = [
        Patch(facecolor=parts["colours"][role], label=role, **parts["edge"]) for role in roles
    ]
    axes.legend(handles=handles, loc="upper left", ncols=4, fontsize=8.5, frameon=False)
    rows = [(boxes[start]["text"], boxes[end]["text"], text) for start, end, text in arrows]
    table = pd.DataFrame(rows, columns=["from", "to", "label"])
    return figure, table.replace({"\n": " ", r"\$": ""}, regex=True)
