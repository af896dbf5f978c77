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
    parts, boxes = settings()["diagram_parts"], settings()["diagrams"][label]
    figure, ((axes,),) = panels(1, 4.2)
    axes.set(xlim=(0.1, 7.1), ylim=(0.1, 4.9))
    axes.axis("off")
    drawn, rows = {}, []
    for name, box in boxes.items():
        look = parts["box"] | {"facecolor": parts["colours"][box["role"]]}
        text = axes.text(*box["at"], box["text"], bbox=look, **parts["centred"], fontsize=9.5)
        drawn[name] = text.get_bbox_patch()
    for end, box in boxes.items():
        for start, text in box["inputs"].items():
            other = boxes[start]
            look = parts["arrow"] | {"patchA": drawn[start], "patchB": drawn[end]}
            axes.annotate("", xytext=other["at"], xy=box["at"], arrowprops=look)
            middle = np.mean([other["at"], box["at"]], axis=0)
            axes.text(*middle, text, **parts["centred"], fontsize=8.5, bbox=parts["behind"])
            rows.append((other["text"], box["text"], text))
    colours = {box["role"]: parts["colours"][box["role"]] for box in boxes.values()}
    handles = [Patch(fc=fill, label=role, **parts["edge"]) for role, fill in colours.items()]
    axes.legend(handles=handles, loc="upper left", ncols=4, fontsize=8.5, frameon=False)
    table = pd.DataFrame(rows, columns=["from", "to", "label"])
    return figure, table.replace({"\n": " ", r"\$": ""}, regex=True)
