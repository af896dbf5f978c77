"""Students of the paper's tables by identity, such as `BiGRU(2)+1 linear;attentive;64d;MSE`."""

import re
from dataclasses import dataclass
from typing import Any

TOKEN_DIM = 128  # of token embeddings, as the paper prints it
RECURRENT = ("LSTM", "GRU", "RNN")
_IDENTITY = re.compile(
    r"(?P<bidirectional>Bi(?=LSTM|GRU|RNN))?"
    r"(?P<architecture>LSTM|GRU|RNN|Transformer(?=\(\dx)|FFN|CNN-[12]|bag)"
    r"(\((?P<layers>[1-9])(x(?P<heads>\d+))?\))?(\+(?P<linear_layers>[12]) linear)?"
    r"(?P<dropout>\+dropout)?(?P<relu>\+ReLU)?(;(?P<aggregation>attentive|CLS))?"
    r"(;(?P<token_dim>64)d)?(;(?P<tokens>teacher|random) tokens)?"
    r";(?P<loss>MSE|cosine|triplet|complex(?=;α))(;α=(?P<alpha>0(\.\d+)?|1(\.0+)?))?"
    r"(;(?P<annotated>annotated)|;(?P<schedule>plateau))?"
)
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("layers", "heads", "linear_layers", "token_dim"), int),
    **dict.fromkeys(("bidirectional", "dropout", "relu", "annotated"), bool),
    "alpha": float,
}


@dataclass(frozen=True)
class Design:
    """A student's structure and how it is trained.

    `tokens` are "new" (token embeddings start from principal components of the teacher's, or at
    random if the profile says so), "random", or "teacher" (the teacher's own, not trained). `alpha`
    is the weight of the triplet loss in the complex loss.
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
    """The design of an identity. It may combine what no student of the tables does."""
    match = _IDENTITY.fullmatch(identity)
    if not match:
        raise ValueError(f"{identity!r} is no student; BiGRU(2)+1 linear;attentive;64d;MSE is one")
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    return Design(identity, **{name: _TYPES.get(name, str)(parts[name]) for name in parts})
