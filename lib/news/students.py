"""The students of the news paper: token embeddings, a body, an aggregation, linear layers.

As published where its tables and printed sizes say so. Ours, since they say nothing: the convolutions of CNN-1 and
CNN-2 (within the weights that their sizes leave), ReLU and dropout between two linear layers, tanh behind CLS, and no
positions in Transformers: these students are blind to word order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lib.news import recurrence
from lib.news.designs import RECURRENT, Design
from lib.news.widths import TOKEN_DIM

DROPOUT = 0.1  # not stated; PyTorch's own in its Transformer
FILTERS = 30  # of CNN-1: with a kernel of 3, 19,486 weights beside the embedding, published 20,000 at most
BATCH = 32  # documents embedded at once
Rows = Sequence[Sequence[int] | np.ndarray]  # token ids of documents


@dataclass(frozen=True)
class LazyRows(Sequence[Any]):
    """What `make` gives for values, which may stay on disk, each time that some are asked for."""

    values: Any
    make: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return self.make(self.values[rows])


@dataclass(frozen=True)
class Sizes:
    """vocabulary: word pieces. token: width of an embedding labelled 128d. hidden: per direction. output: the teacher's
    width. teacher_token: width of the teacher's own token embeddings. feed_forward: of a Transformer layer."""

    vocabulary: int
    token: int
    hidden: int
    output: int
    teacher_token: int
    feed_forward: int


PAPER = Sizes(
    vocabulary=119_547, token=128, hidden=128, output=256, teacher_token=768, feed_forward=1024
)


@contextmanager
def without_onednn() -> Iterator[None]:
    """PyTorch's own LSTM, and its convolution: of oneDNN's LSTM, four times as fast, the bits depend on the processor.

    A decorator, too. The switch is the process', not a thread's. PyTorch's own `flags` resets a precision as well.
    """
    before, torch.backends.mkldnn.enabled = torch.backends.mkldnn.enabled, False  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


class Student(nn.Module):
    """(batch, tokens) ids -> (batch, output) embeddings; what stands behind a document's length never counts."""

    def __init__(self, design: Design, sizes: Sizes):
        super().__init__()
        scaled = sizes.token * design.token_dim // TOKEN_DIM
        token = sizes.teacher_token if design.tokens == "teacher" else scaled
        self.design = design
        self.embedding = nn.Embedding(sizes.vocabulary, token)
        self.embedding.weight.requires_grad_(design.tokens != "teacher")
        self.body, width = _body(design, sizes, token)
        self.per_token, self.after = _linear(design, sizes, width)
        # Recurrent states are weighted before their linear layer, a Transformer's behind its mapping.
        width = width if design.architecture in RECURRENT else sizes.output
        self.scorer = None
        if design.aggregation == "attentive":
            self.scorer = nn.Sequential(
                nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1)
            )

    def forward(
        self, ids: Int[Tensor, "batch tokens"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch output"]:
        """lengths: tokens of each document, at least 1; ids behind them may be anything. Both on the CPU: ids are moved
        to the student's device, lengths are also read, for which a GPU would have to be waited for."""
        ids, counts = (given.to(self.embedding.weight.device) for given in (ids, lengths[:, None]))
        inside = torch.arange(ids.shape[1], device=ids.device) < counts
        states = self.body(self.embedding(ids * inside), inside, lengths)
        states = self.per_token(states)
        if self.design.aggregation == "CLS":
            pooled = states[:, 0]
        else:
            weights = inside / counts
            if self.scorer is not None:
                weights = self.scorer(states).squeeze(2).masked_fill(~inside, -torch.inf).softmax(1)
            pooled = (states * weights[:, :, None]).sum(1)  # of weight 0 behind a document's length
        return self.after(pooled)

    @torch.inference_mode()
    def encode(self, rows: Rows, batch_size: int = BATCH) -> np.ndarray:
        """(documents, output) float32 embeddings of token ids, special ones included, without dropout."""
        check_tokens(rows)
        training = self.training
        self.eval()
        order = np.argsort([len(row) for row in rows], kind="stable")
        batches = np.split(order, range(batch_size, len(rows), batch_size))
        vectors = [self(*padded([rows[row] for row in batch])).cpu().numpy() for batch in batches]
        self.train(training)
        return np.concatenate(vectors)[np.argsort(order)]

    @property
    def megabytes(self) -> float:
        """The size of its weights in the paper's unit: 4 bytes a weight, 2^20 a megabyte."""
        return 4 * sum(weights.numel() for weights in self.parameters()) / 2**20


def check_tokens(rows: Rows) -> None:
    """Raises `ValueError` that names the first document without a token."""
    if short := [number for number, row in enumerate(rows) if not len(row)]:
        raise ValueError(f"document {short[0]} has no token; leave it out")


def padded(rows: Rows) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, " batch"]]:
    """Token ids of documents, none empty, as one tensor, filled up with 0, and their lengths."""
    lengths = np.array([len(row) for row in rows])
    ids = np.zeros((len(rows), lengths.max()), dtype=np.int64)
    ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def static_embedding(student: Student, tokenizer: Any) -> Any:
    """A trained bag as sentence-transformers' `StaticEmbedding`, to save, load and use without this project.

    tokenizer: the teacher's, as `transformers` loads it. The mean of token vectors and the linear layer behind it are
    one table: a row for each token, taken through the layer. Raises `ValueError` for another student.
    """
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    if student.design.architecture != "bag":
        raise ValueError(
            f"{student.design.identity!r} is no bag: only averaged token vectors are a StaticEmbedding"
        )
    with torch.no_grad():
        table = student.after(student.embedding.weight).cpu().numpy()
    return StaticEmbedding(tokenizer.backend_tokenizer, embedding_weights=table)


class Recurrent(nn.Module):
    """An LSTM, GRU or RNN that reads each document to its end and no further."""

    def __init__(self, design: Design, token: int, hidden: int):
        super().__init__()
        options = {
            "num_layers": design.layers,
            "bidirectional": design.bidirectional,
            "batch_first": True,
        }
        self.cells = getattr(nn, design.architecture)(token, hidden, **options)

    def forward(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        if self.training and isinstance(self.cells, nn.GRU) and vectors.is_cpu:
            return recurrence.gru(self.cells, vectors, lengths)
        # One direction meets padding only behind a document; packed, PyTorch's LSTM and GRU are far slower.
        if not self.cells.bidirectional or bool((lengths == vectors.shape[1]).all()):
            return self.cells(vectors)[0]
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(
            self.cells(packed)[0], batch_first=True, total_length=vectors.shape[1]
        )[0]


class Transformer(nn.Module):
    """PyTorch's encoder; padding is nobody's key."""

    def __init__(self, design: Design, token: int, feed_forward: int):
        super().__init__()
        if token % design.heads:
            raise ValueError(
                f"{design.identity!r}: {design.heads} attention heads do not divide the width {token}"
            )
        layer = nn.TransformerEncoderLayer(
            token, design.heads, feed_forward, DROPOUT, batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, design.layers, enable_nested_tensor=False)

    def forward(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        return self.layers(vectors, src_key_padding_mask=~inside)


class Convolutions(nn.Module):
    """Convolutions with ReLU over the positions of a document, beyond which everything is 0."""

    def __init__(self, *shapes: tuple[int, int, int]):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(*shape, padding="same") for shape in shapes)

    def forward(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        for layer in self.layers:
            vectors = layer((vectors * inside[:, :, None]).transpose(1, 2)).transpose(1, 2).relu()
        return vectors


class PerToken(nn.Sequential):
    """Layers that see one token at a time; without any, the token vectors."""

    def forward(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        return super().forward(vectors)


def _body(design: Design, sizes: Sizes, token: int) -> tuple[nn.Module, int]:
    """What turns token vectors into states, and their width."""
    kind, hidden = design.architecture, sizes.hidden
    if kind in RECURRENT:
        directions = 1 + design.bidirectional
        # Without a linear layer the states are the embedding: as wide as the teacher's (published: 2 x 128 = 256).
        hidden = hidden if design.linear_layers else sizes.output // directions
        return Recurrent(design, token, hidden), directions * hidden
    if kind == "Transformer":
        return Transformer(design, token, sizes.feed_forward), token
    if kind == "FFN":
        widths = [token, *(hidden * 2 ** (number + 1) for number in range(design.layers))]
        pairs = zip(widths[:-1], widths[1:], strict=True)
        return PerToken(
            *(part for pair in pairs for part in (nn.Linear(*pair), nn.ReLU()))
        ), widths[-1]
    if kind == "CNN-1":
        return Convolutions((token, FILTERS, 3)), FILTERS
    if kind == "CNN-2":
        return Convolutions((token, hidden, 3), (hidden, 2 * hidden, 2)), 2 * hidden
    return PerToken(), token  # bag


def _linear(design: Design, sizes: Sizes, width: int) -> tuple[nn.Module, nn.Module]:
    """The linear layers before the aggregation and behind it; for a mean, one layer means the same on both sides."""
    output = sizes.output
    if design.aggregation == "CLS":
        return nn.Identity(), nn.Sequential(
            nn.Linear(width, output), nn.Tanh(), nn.Linear(output, output)
        )
    if design.architecture == "Transformer":
        return nn.Sequential(
            *([nn.ReLU()] if design.relu else []), nn.Linear(width, output)
        ), nn.Identity()
    if design.linear_layers == 2:
        between = [nn.ReLU(), nn.Dropout(DROPOUT if design.dropout else 0.0)]
        return nn.Sequential(nn.Linear(width, output), *between), nn.Linear(output, output)
    if design.architecture in RECURRENT and not design.linear_layers:
        return nn.Identity(), nn.Identity()
    return nn.Identity(), nn.Linear(width, output)
