"""Projections between embeddings, built from the thesis' labels (Section 4.5.2, Tables 4.6-4.8).

A label names fully connected layers by their width, with an optional ReLU: `768(ReLU)x1024` is Linear(in, 768), ReLU,
Linear(768, 1024). `-` is no layer at all. The thesis' `×` reads as `x`.
"""

import re
from itertools import pairwise

from torch import nn

_RELU = "(ReLU)"
_LAYER = re.compile(rf"([0-9]+)({re.escape(_RELU)})?")


def parse(label: str) -> list[tuple[int, bool]]:
    """The layers a label names, each its width and whether a ReLU follows; an empty list for `-`.

    Raises `ValueError` that says what was expected, at which character (from 1), and what is there.
    """
    if not isinstance(label, str):
        raise ValueError(f"projection label must be text such as '768(ReLU)x1024' or '-', got {label!r}")
    if label == "-":
        return []
    layers, at = [], 0
    while True:
        layer = _LAYER.match(label, at)
        if layer is None or int(layer[1]) == 0:
            raise _error(label, at, "a width such as 768" if at else "a width such as 768, or '-' alone for no layers")
        relu, at = layer[2] is not None, layer.end()
        layers.append((int(layer[1]), relu))
        if at == len(label):
            return layers
        if label[at] not in "x×":
            raise _error(label, at, "'x' or the end" if relu else "'(ReLU)', 'x' or the end")
        at += 1


def build(label: str, in_features: int) -> nn.Module:
    """The projection of `in_features` dimensions as a module: `nn.Sequential` of Linear and ReLU, or `nn.Identity`.

    Its weights come from PyTorch's global generator, so seed it first.
    """
    modules: list[nn.Module] = []
    for features, relu in parse(label):
        modules += [nn.Linear(in_features, features), *([nn.ReLU()] if relu else [])]
        in_features = features
    return nn.Sequential(*modules) if modules else nn.Identity()


def scale(label: str, width: float) -> str:
    """The label with every width multiplied by `width`: scale("768(ReLU)x1024", .5) is "384(ReLU)x512"."""
    if not 0 < width < float("inf"):
        raise ValueError(f"width must be a finite number above 0, got {width!r}")
    layers = parse(label)
    return "x".join(f"{max(1, round(n * width))}{_RELU * relu}" for n, relu in layers) if layers else "-"


def out_features(label: str, in_features: int) -> int:
    """Dimensions that come out of `build(label, in_features)`."""
    return [in_features, *(features for features, _ in parse(label))][-1]


def parameter_count(label: str, in_features: int) -> int:
    """Weights and biases of `build(label, in_features)`, without building it."""
    widths = [in_features, *(features for features, _ in parse(label))]
    return sum((before + 1) * after for before, after in pairwise(widths))


def _error(label: str, at: int, expected: str) -> ValueError:
    rest = repr(label[at:]) if at < len(label) else "the end"
    return ValueError(f"projection label {label!r}: expected {expected} at character {at + 1}, found {rest}")
