"""Students of the paper's tables by identity, such as `BiGRU(2)+1 linear;attentive;64d;MSE`."""

import re
from dataclasses import dataclass
from typing import Any

TOKEN_DIM = 128  # of token embeddings, as the paper prints it
RECURRENT = ("LSTM", "GRU", "RNN")
_STRUCTURES = (
    r"(?P<bidirectional>Bi)?(?P<architecture>LSTM|GRU|RNN)(\((?P<layers>[2-9])\))?"
    r"(\+(?P<linear_layers>[12]) linear)?((?<=2 linear)(?P<dropout>\+dropout))?"
    r"(;(?P<aggregation>attentive))?",
    r"(?P<architecture>Transformer)\((?P<layers>[1-9])x(?P<heads>[1-9]\d?)\)(?P<relu>\+ReLU)?"
    r"(;(?P<aggregation>attentive|CLS))?",
    r"(?P<architecture>FFN)\((?P<layers>[23])\)",
    r"(?P<architecture>CNN-[12]|bag)",
)
_TRAINING = (
    r"(;(?P<token_dim>64)d)?(;(?P<tokens>teacher|random) tokens)?"
    r";(?P<loss>MSE|cosine|triplet|complex(?=;α))((?<=complex);α=(?P<alpha>0(\.\d+)?|1(\.0+)?))?"
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

    @property
    def reads_annotated(self) -> bool:
        """Whether it learns from the documents of training pairs alone."""
        return self.annotated or self.takes_triplets


def scale_width(number: int, width: float) -> int:
    """A width of the paper times a profile's `width`, rounded to a multiple of 8, at least 8."""
    return max(8, 8 * round(number * width / 8))


def parse(identity: str) -> Design:
    """The design of an identity; `ValueError` if no student of the tables could have it."""
    for structure in _STRUCTURES:
        if match := re.fullmatch(structure + _TRAINING, identity):
            parts = {name: value for name, value in match.groupdict().items() if value is not None}
            return Design(identity, **{k: _TYPES.get(k, str)(parts[k]) for k in parts})
    raise ValueError(f"{identity!r} is no student; BiGRU(2)+1 linear;attentive;64d;MSE is one")
