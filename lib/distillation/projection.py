"""Projections between embeddings, built from the thesis' labels (Section 4.5.2, Tables 4.6-4.8).

A label gives the widths of fully connected layers, each with an optional ReLU. `768(ReLU)x1024`
means Linear(in, 768), ReLU, Linear(768, 1024). `-` means no layer at all.
"""

import re

from torch import nn

_LAYER = re.compile(r"([1-9][0-9]*)(\(ReLU\))?")


def parse(label: str) -> list[tuple[int, bool]]:
    """The width of each layer and whether a ReLU follows it; `ValueError` for a malformed label."""
    if label == "-":
        return []
    layers = [_LAYER.fullmatch(part) for part in label.split("x")]
    if not all(layers):
        raise ValueError(f"{label!r}: expected widths as in 768(ReLU)x1024, or -")
    return [(int(layer[1]), layer[2] is not None) for layer in layers if layer]


def build(label: str, in_features: int) -> nn.Module:
    """Build the projection. PyTorch's global generator draws its weights, so seed it first."""
    modules: list[nn.Module] = []
    for width, relu in parse(label):
        modules.append(nn.Linear(in_features, width))
        if relu:
            modules.append(nn.ReLU())
        in_features = width
    return nn.Sequential(*modules) if modules else nn.Identity()


def scale(label: str, width: float) -> str:
    """Multiply every width of a label: scale("768(ReLU)x1024", .5) is "384(ReLU)x512"."""
    parse(label)  # `ValueError` if it is malformed
    return re.sub("[0-9]+", lambda number: str(max(1, round(int(number[0]) * width))), label)
