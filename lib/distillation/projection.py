"""Projections between embeddings, built from the thesis' labels (Section 4.5.2, Tables 4.6-4.8).

A label names fully connected layers by their width, with an optional ReLU: `768(ReLU)x1024` is Linear(in, 768), ReLU,
Linear(768, 1024). `-` is no layer at all. The thesis' `×` reads as `x`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from torch import nn

_WIDTH = re.compile(r"[0-9]+")
_RELU = "(ReLU)"


class Layer(NamedTuple):
    """One fully connected layer: its width and whether a ReLU follows."""

    features: int
    relu: bool


def parse(label: str) -> list[Layer]:
    """The layers a label names; an empty list for `-`.

    Raises:
        ValueError: the label does not parse; says what was expected, at which character (from 1), and what is there.
    """
    if not isinstance(label, str):
        raise ValueError(f"projection label must be text such as '768(ReLU)x1024' or '-', got {label!r}")
    if label == "-":
        return []
    layers, at = [], 0
    while True:
        number = _WIDTH.match(label, at)
        if number is None or int(number[0]) == 0:
            raise _error(label, at, "a width such as 768" if at else "a width such as 768, or '-' alone for no layers")
        at = number.end()
        relu = label.startswith(_RELU, at)
        at += len(_RELU) * relu
        layers.append(Layer(int(number[0]), relu))
        if at == len(label):
            return layers
        if label[at] not in "x×":
            raise _error(label, at, "'x' or the end" if relu else "'(ReLU)', 'x' or the end")
        at += 1


def build(label: str, in_features: int) -> nn.Module:
    """The projection as a module: `nn.Sequential` of Linear and ReLU, or `nn.Identity` for `-`.

    Args:
        label: for example `768(ReLU)x1024`.
        in_features: dimensions of the embedding that goes in.

    Returns:
        A module (rows, in_features) -> (rows, out_features(label, in_features)). Weights come from PyTorch's global
        generator; seed it first.

    Raises:
        ValueError: the label does not parse, or in_features is not an integer >= 1.
    """
    _positive(in_features)
    layers = parse(label)
    if not layers:
        return nn.Identity()
    modules: list[nn.Module] = []
    for features, relu in layers:
        modules.append(nn.Linear(in_features, features))
        if relu:
            modules.append(nn.ReLU())
        in_features = features
    return nn.Sequential(*modules)


def scale(label: str, width: float) -> str:
    """The label with every width multiplied by `width`, rounded, and at least 1; `-` stays `-`.

    A profile's width shrinks the thesis' dimensions to a laptop's: scale("768(ReLU)x1024", .5) is "384(ReLU)x512".
    """
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 < width < float("inf"):
        raise ValueError(f"width must be a finite number above 0, got {width!r}")
    layers = parse(label)
    return "x".join(f"{max(1, round(n * width))}{_RELU * relu}" for n, relu in layers) if layers else "-"


def out_features(label: str, in_features: int) -> int:
    """Dimensions that come out of `build(label, in_features)`."""
    _positive(in_features)
    layers = parse(label)
    return layers[-1].features if layers else in_features


def parameter_count(label: str, in_features: int) -> int:
    """Weights and biases of `build(label, in_features)`, without building it."""
    _positive(in_features)
    count = 0
    for features, _ in parse(label):
        count += (in_features + 1) * features
        in_features = features
    return count


def _error(label: str, at: int, expected: str) -> ValueError:
    rest = repr(label[at:]) if at < len(label) else "the end"
    return ValueError(f"projection label {label!r}: expected {expected} at character {at + 1}, found {rest}")


def _positive(in_features: int) -> None:
    if isinstance(in_features, bool) or not isinstance(in_features, int) or in_features < 1:
        raise ValueError(f"in_features must be an integer >= 1, got {in_features!r}")
