"""Students of the paper's tables by identity, such as `BiGRU(2)+1 linear;attentive;64d;MSE`."""

import re
from dataclasses import dataclass
from typing import Any

TOKEN_DIM = 128  # of token embeddings, as the paper prints it
RECURRENT = ("LSTM", "GRU", "RNN")
_STRUCTURES = (
    r"(?P<bidirectional>Bi)?(?P<architecture>LSTM|GRU|RNN)(\((?P<layers>[2-9])\))?"
    r"(\+(?P<linear_layers>[12]) linear)?(?P<dropout>\+dropout)?",
    r"(?P<architecture>Transformer)\((?P<layers>[1-9])x(?P<heads>[1-9]\d?)\)(?P<relu>\+ReLU)?",
    r"(?P<architecture>FFN)\((?P<layers>[23])\)",
    r"(?P<architecture>CNN-[12]|bag)",
)
_EXPECTED = (
    "[Bi]LSTM, GRU or RNN with (layers), +1 or +2 linear, +dropout; Transformer(1x4), +ReLU; "
    "FFN(2); CNN-1; bag"
)
# The parts of an identity in their order; at most one from each group.
_PARTS: tuple[dict[str, dict[str, Any]], ...] = (
    {"attentive": {"aggregation": "attentive"}, "CLS": {"aggregation": "CLS"}},
    {"64d": {"token_dim": 64}},
    {"teacher tokens": {"tokens": "teacher"}, "random tokens": {"tokens": "random"}},
    {loss: {"loss": loss} for loss in ("MSE", "cosine", "triplet", "complex")},
    {"annotated": {"annotated": True}, "plateau": {"schedule": "plateau"}},
)


@dataclass(frozen=True)
class Design:
    """A student's structure and how it is trained.

    Attributes
    ----------
    tokens : str
        "new": token embeddings start from principal components of the teacher's, or at random if
        the profile says so; "random": they start at random; "teacher": they are the teacher's own.
    alpha : float
        Weight of the triplet loss in the complex loss.
    annotated : bool
        Whether training reads only the documents of training pairs. The triplet and the complex
        loss always do.
    """

    identity: str
    architecture: str
    loss: str
    bidirectional: bool = False
    layers: int = 1
    heads: int = 0
    linear_layers: int = 0
    dropout: bool = False
    relu: bool = False
    aggregation: str = "average"
    token_dim: int = TOKEN_DIM
    tokens: str = "new"
    alpha: float = 0.0
    schedule: str = "fixed"
    annotated: bool = False

    @property
    def takes_triplets(self) -> bool:
        return self.loss in ("triplet", "complex")


def scale_width(number: int, width: float) -> int:
    """A width of the paper times a profile's `width`, rounded to a multiple of 8, at least 8."""
    return max(8, 8 * round(number * width / 8))


def parse(identity: str) -> Design:
    """The design of an identity.

    Raises
    ------
    ValueError
        Names the part that is unknown, repeated or out of order.
    """
    structure, *parts = identity.split(";")
    matches = (re.fullmatch(pattern, structure) for pattern in _STRUCTURES)
    match = next(filter(None, matches), None)
    if match is None:
        raise ValueError(f"unknown part {structure!r} of {identity!r}: expected {_EXPECTED}")
    fields: dict[str, Any] = {}
    for name, value in match.groupdict().items():
        if value is not None:
            fields[name] = _read_field(name, value)
    fields |= _parse_parts(identity, parts)
    if "loss" not in fields or (fields["loss"] == "complex" and "alpha" not in fields):
        raise ValueError(
            f"{identity!r} ends too soon: expected MSE, cosine, triplet, or complex and α=<0 to 1>"
        )
    design = Design(identity, **fields)
    _check(design)
    return design


def _read_field(name: str, value: str) -> Any:
    if name in ("layers", "heads", "linear_layers"):
        return int(value)
    return value if name == "architecture" else True


def _parse_parts(identity: str, parts: list[str]) -> dict[str, Any]:
    """The fields of the parts after the structure."""
    fields: dict[str, Any] = {}
    left = list(_PARTS)
    for part in parts:
        if fields.get("loss") == "complex" and "alpha" not in fields:
            match = re.fullmatch(r"α=(0(\.\d+)?|1(\.0+)?)", part)
            if not match:
                raise ValueError(
                    f"unknown part {part!r} of {identity!r}: complex needs α=<0 to 1>, as in α=0.5"
                )
            fields["alpha"] = float(match[1])
            continue
        place = next((number for number, group in enumerate(left) if part in group), None)
        if place is None:
            valid = ", ".join(name for group in left for name in group) or "nothing more"
            raise ValueError(f"unknown part {part!r} of {identity!r}: expected {valid}")
        fields |= left[place][part]
        del left[: place + 1]
    return fields


def _check(design: Design) -> None:
    identity, architecture = design.identity, design.architecture
    if design.aggregation == "CLS" and architecture != "Transformer":
        raise ValueError(
            f"{identity!r}: CLS is the first state of a Transformer; valid here: attentive, "
            "or no part"
        )
    if design.aggregation == "attentive" and architecture not in (*RECURRENT, "Transformer"):
        raise ValueError(
            f"{identity!r}: attentive aggregation is for recurrent students and Transformers"
        )
    if design.annotated and design.takes_triplets:
        raise ValueError(
            f"{identity!r}: {design.loss} always has annotated documents; leave the part out"
        )
    if design.dropout and design.linear_layers != 2:
        raise ValueError(f"{identity!r}: +dropout goes between the two layers of +2 linear")
