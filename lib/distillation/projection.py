"""Projections between embeddings, built from the thesis' labels (Section 4.5.2, Tables 4.6-4.8).

A label gives the widths of fully connected layers, each with an optional ReLU. `768(ReLU)x1024`
means Linear(in, 768), ReLU, Linear(768, 1024). `-` means no layer at all.
"""

import re

from torch import nn

_LABEL = re.compile(r"-|[1-9][0-9]*(\(ReLU\))?(x[1-9][0-9]*(\(ReLU\))?)*")


def build(label: str, in_features: int) -> nn.Module:
    """Build the projection; `ValueError` for a malformed label. PyTorch's global generator draws
    its weights, so seed it first.
    """
    modules: list[nn.Module] = []
    for width, relu in re.findall(r"([0-9]+)(\(ReLU\))?", scale(label, 1)):
        modules.append(nn.Linear(in_features, int(width)))
        if relu:
            modules.append(nn.ReLU())
        in_features = int(width)
    return nn.Sequential(*modules) if modules else nn.Identity()


def scale(label: str, width: float) -> str:
    """Multiply every width of a label: scale("768(ReLU)x1024", .5) is "384(ReLU)x512".
    `ValueError` for a malformed label.
    """
    if not _LABEL.fullmatch(label):
        raise ValueError(f"{label!r}: expected widths as in 768(ReLU)x1024, or -")
    return re.sub("[0-9]+", lambda number: str(max(1, round(int(number[0]) * width))), label)
