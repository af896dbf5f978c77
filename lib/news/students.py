"""The students of the news paper, by identities such as `BiGRU(2)+1 linear;attentive;64d;MSE`.

They follow the paper's tables and printed sizes, which do not say the convolutions (but how many
weights they have), what is between two linear layers, and tanh after CLS. Transformers have no
positions: they are blind to word order.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

TOKEN_DIM, HIDDEN, FEED_FORWARD = 128, 128, 1024  # as printed; a profile's `width` scales them
FILTERS = 30  # of CNN-1; with a kernel of 3 it has 19,486 weights without embeddings, paper: 20,000
DROPOUT = 0.1  # the paper does not say; PyTorch's default for its Transformer
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


@dataclass(frozen=True)
class Design:
    """A student's structure and training. `tokens`, its token embeddings, are "new" (they start as
    the profile says), "random", or "teacher" (its own, not trained). `alpha` weighs the triplet
    loss in the complex loss.
    """

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


def parse(identity: str) -> Design:
    """The design of an identity. It may combine what no student of the tables does."""
    match = _IDENTITY.fullmatch(identity)
    if not match:
        raise ValueError(f"{identity!r} is no student; BiGRU(2)+1 linear;attentive;64d;MSE is one")
    types = get_type_hints(Design)
    parts = {name: value for name, value in match.groupdict().items() if value is not None}
    return Design(**{name: types[name](value) for name, value in parts.items()})


def scale_width(number: int, width: float) -> int:
    """A width of the paper times a profile's `width`, rounded to a multiple of 8, at least 8."""
    return max(8, 8 * round(number * width / 8))


class NewsStudent(nn.Module):
    """(batch, tokens) ids -> (batch, output) embeddings; padding never changes them. `table` is the
    shape of the teacher's token embeddings, `output` the width of its embeddings of texts. All
    other widths are the paper's times `width`.
    """

    def __init__(self, identity: str, table: tuple[int, int], output: int, width: float = 1.0):
        super().__init__()
        self.design = design = parse(identity)
        vocabulary, token = table
        if design.tokens != "teacher":
            token = scale_width(TOKEN_DIM, width) * design.token_dim // TOKEN_DIM
        self.embedding = nn.Embedding(vocabulary, token)
        self.embedding.weight.requires_grad_(design.tokens != "teacher")
        self.body, states = _make_body(design, token, output, width)
        self.per_token, self.after = _make_linear(design, states, output)
        self.scorer = None
        if design.aggregation == "attentive":
            # Recurrent states are weighted before the linear layer, a Transformer's after it.
            size = states if design.architecture in RECURRENT else output
            layers = nn.Linear(size, size // 2), nn.ReLU(), nn.Linear(size // 2, 1)
            self.scorer = nn.Sequential(*layers)

    def forward(
        self, ids: Int[Tensor, "batch tokens"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch output"]:
        """Embed documents given on the CPU, because reading lengths would stall a GPU."""
        ids, counts = (given.to(self.embedding.weight.device) for given in (ids, lengths[:, None]))
        inside = torch.arange(ids.shape[1], device=ids.device) < counts
        states = self.per_token(self._read(self.embedding(ids * inside), inside, lengths))
        if self.design.aggregation == "CLS":
            return self.after(states[:, 0])
        weights = inside / counts
        if self.scorer is not None:
            weights = self.scorer(states).squeeze(2).masked_fill(~inside, -torch.inf).softmax(1)
        return self.after((states * weights[:, :, None]).sum(1))

    def _read(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        """The body's states of all tokens, which do not depend on padding."""
        body = self.body
        if isinstance(body, nn.TransformerEncoder):
            return body(vectors, src_key_padding_mask=~inside)
        if isinstance(body, nn.ModuleList):  # convolutions: beyond a document everything is 0
            for layer in body:
                vectors = layer((vectors * inside[:, :, None]).mT).mT.relu()
            return vectors
        if not isinstance(body, nn.RNNBase):
            return body(vectors)
        # A single direction meets padding only after a document, and packing is far slower.
        if not body.bidirectional or bool((lengths == vectors.shape[1]).all()):
            return body(vectors)[0]
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states = body(packed)[0]
        return pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])[0]

    @torch.inference_mode()
    def encode(self, rows: Sequence[Any], batch_size: int = 32) -> np.ndarray:
        """(documents, output) float32 embeddings of rows of token ids, in evaluation mode."""
        self.eval()
        order = np.argsort([len(row) for row in rows], kind="stable")
        batches = np.split(order, range(batch_size, len(rows), batch_size))
        vectors = [self(*self.pad([rows[row] for row in batch])).cpu() for batch in batches]
        return torch.cat(vectors).numpy()[np.argsort(order)]

    def pad(self, rows: Any) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, " batch"]]:
        """Token ids, padded with 0, and lengths; a bag leaves out the special tokens."""
        cut = slice(1, -1) if self.design.architecture == "bag" else slice(None)
        ids = [torch.tensor(row[cut], dtype=torch.long) for row in rows]
        return pad_sequence(ids, batch_first=True), torch.tensor([len(row) for row in ids])


def count_megabytes(module: nn.Module) -> float:
    """The size of the weights as in the paper: 4 bytes a weight, 2^20 bytes a megabyte."""
    return 4 * sum(weights.numel() for weights in module.parameters()) / 2**20


def _make_body(design: Design, token: int, output: int, width: float) -> tuple[nn.Module, int]:
    """The module that turns token vectors into states, and the width of these."""
    kind, hidden = design.architecture, scale_width(HIDDEN, width)
    if kind == "Transformer":
        widths = (token, design.heads, scale_width(FEED_FORWARD, width))
        layer = nn.TransformerEncoderLayer(*widths, DROPOUT, batch_first=True)
        return nn.TransformerEncoder(layer, design.layers, enable_nested_tensor=False), token
    if kind in RECURRENT:
        directions = 1 + design.bidirectional
        if not design.linear_layers:  # the states are the embedding, as wide as the teacher's
            hidden = output // directions
        options = {"bidirectional": design.bidirectional, "batch_first": True}
        return getattr(nn, kind)(token, hidden, design.layers, **options), directions * hidden
    if kind.startswith("CNN"):
        shapes = {"CNN-1": [(token, FILTERS, 3)]}
        shapes["CNN-2"] = [(token, hidden, 3), (hidden, 2 * hidden, 2)]
        layers = [nn.Conv1d(*shape, padding="same") for shape in shapes[kind]]
        return nn.ModuleList(layers), layers[-1].out_channels
    layers = nn.Sequential()  # stays empty for a bag
    for number in range(design.layers if kind == "FFN" else 0):
        layers.extend([nn.Linear(token, 2 * hidden * 2**number), nn.ReLU()])
        token = 2 * hidden * 2**number
    return layers, token


def _make_linear(design: Design, states: int, output: int) -> tuple[nn.Module, nn.Module]:
    """The linear layers before and after an aggregation; with an average, one fits either side."""
    if design.architecture in RECURRENT and not design.linear_layers:
        return nn.Identity(), nn.Identity()
    linear = nn.Linear(states, output)
    if design.aggregation == "CLS":
        return nn.Identity(), nn.Sequential(linear, nn.Tanh(), nn.Linear(output, output))
    if design.architecture == "Transformer":
        return nn.Sequential(nn.ReLU(), linear) if design.relu else linear, nn.Identity()
    if design.linear_layers == 2:
        between = nn.ReLU(), nn.Dropout(DROPOUT if design.dropout else 0.0)
        return nn.Sequential(linear, *between), nn.Linear(output, output)
    return nn.Identity(), linear
