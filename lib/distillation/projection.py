"""Projections between embeddings, built from the thesis' labels (Section 4.5.2, Tables 4.6-4.8).

A label names fully connected layers by their width, with an optional ReLU: `768(ReLU)x1024` is Linear(in, 768), ReLU,
Linear(768, 1024). `-` is no layer at all.
"""

import re
from itertools import pairwise

from torch import nn

_RELU = "(ReLU)"
_LAYER = re.compile(rf"([1-9][0-9]*)({re.escape(_RELU)})?")


def parse(label: str) -> list[tuple[int, bool]]:
    """The layers a label names, each its width and whether a ReLU follows; an empty list for `-`."""
    layers, place = [], 1
    for part in label.split("x") if label != "-" else []:
        layer = _LAYER.fullmatch(part)
        if layer is None:
            where = f"found {part!r} at character {place}"
            raise ValueError(
                f"projection label {label!r}: expected widths as in 768(ReLU)x1024, or -, {where}"
            )
        layers.append((int(layer[1]), layer[2] is not None))
        place += len(part) + 1
    return layers


def build(label: str, in_features: int) -> nn.Module:
    """The projection of `in_features` dimensions; PyTorch's global generator draws its weights, so seed it first."""
    modules: list[nn.Module] = []
    for features, relu in parse(label):
        modules += [nn.Linear(in_features, features), *([nn.ReLU()] if relu else [])]
        in_features = features
    return nn.Sequential(*modules) if modules else nn.Identity()


def scale(label: str, width: float) -> str:
    """The label with every width multiplied by `width`: scale("768(ReLU)x1024", .5) is "384(ReLU)x512"."""
    return "x".join(f"{max(1, round(n * width))}{_RELU * relu}" for n, relu in parse(label)) or "-"


def out_features(label: str, in_features: int) -> int:
    """Dimensions that come out of `build(label, in_features)`."""
    return [in_features, *(features for features, _ in parse(label))][-1]


def parameter_count(label: str, in_features: int) -> int:
    """Weights and biases of `build(label, in_features)`, without building it."""
    widths = [in_features, *(features for features, _ in parse(label))]
    return sum((before + 1) * after for before, after in pairwise(widths))
