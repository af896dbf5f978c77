"""The students of the news paper: token embeddings, a body, an aggregation, linear layers.

They follow the paper's tables and printed sizes. These do not say the convolutions (but how many
weights they have), what is between two linear layers, and tanh after CLS. Transformers have no
positions, so they are blind to word order.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from lib.news.designs import RECURRENT, TOKEN_DIM, Design, scale_width

DROPOUT = 0.1  # the paper does not say; PyTorch's default for its Transformer
FILTERS = 30  # of CNN-1; with a kernel of 3 it has 19,486 weights without embeddings, paper: 20,000
BATCH = 32  # documents embedded at once


@dataclass(frozen=True)
class Sizes:
    """Widths of a student."""

    vocabulary: int  # word pieces
    token: int  # of a token embedding that is labelled 128d
    hidden: int  # of a recurrent state in one direction
    output: int  # of the teacher's embeddings of texts
    teacher_token: int  # of the teacher's token embeddings
    feed_forward: int  # of the inner layer of a Transformer's

    @classmethod
    def scale(cls, width: float, vocabulary: int, teacher_token: int, output: int) -> "Sizes":
        """The paper's widths times `width`, in steps of eight, for a teacher of these sizes."""
        token, hidden, feed_forward = (scale_width(n, width) for n in (TOKEN_DIM, 128, 1024))
        return cls(vocabulary, token, hidden, output, teacher_token, feed_forward)


class NewsStudent(nn.Module):
    """(batch, tokens) ids -> (batch, output) embeddings; padding never changes them."""

    def __init__(self, design: Design, sizes: Sizes):
        super().__init__()
        scaled = sizes.token * design.token_dim // TOKEN_DIM
        token = sizes.teacher_token if design.tokens == "teacher" else scaled
        self.design = design
        self.embedding = nn.Embedding(sizes.vocabulary, token)
        self.embedding.weight.requires_grad_(design.tokens != "teacher")
        self.body, width = _make_body(design, sizes, token)
        self.per_token, self.after = _make_linear(design, sizes, width)
        # Recurrent states are weighted before the linear layer, a Transformer's after it.
        width = width if design.architecture in RECURRENT else sizes.output
        self.scorer = None
        if design.aggregation == "attentive":
            layers = [nn.Linear(width, width // 2), nn.ReLU(), nn.Linear(width // 2, 1)]
            self.scorer = nn.Sequential(*layers)

    def forward(
        self, ids: Int[Tensor, "batch tokens"], lengths: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch output"]:
        """Embed documents given on the CPU, because reading lengths would stall a GPU."""
        ids, counts = (given.to(self.embedding.weight.device) for given in (ids, lengths[:, None]))
        inside = torch.arange(ids.shape[1], device=ids.device) < counts
        states = self.per_token(self._read(self.embedding(ids * inside), inside, lengths))
        if self.design.aggregation == "CLS":
            pooled = states[:, 0]
        else:
            weights = inside / counts
            if self.scorer is not None:
                weights = self.scorer(states).squeeze(2).masked_fill(~inside, -torch.inf).softmax(1)
            pooled = (states * weights[:, :, None]).sum(1)
        return self.after(pooled)

    def _read(self, vectors: Tensor, inside: Tensor, lengths: Tensor) -> Tensor:
        """The body's states of all tokens, which do not depend on padding."""
        body = self.body
        if isinstance(body, nn.TransformerEncoder):
            return body(vectors, src_key_padding_mask=~inside)
        if isinstance(body, nn.ModuleList):  # convolutions: beyond a document everything is 0
            for layer in body:
                vectors = (
                    layer((vectors * inside[:, :, None]).transpose(1, 2)).transpose(1, 2).relu()
                )
            return vectors
        if not isinstance(body, nn.RNNBase):
            return body(vectors)
        # A single direction meets padding only after a document, and packing is far slower.
        if not body.bidirectional or bool((lengths == vectors.shape[1]).all()):
            return body(vectors)[0]
        packed = pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
        states, _ = body(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=vectors.shape[1])[0]

    @torch.inference_mode()
    def encode(self, rows: Sequence[Any], batch_size: int = BATCH) -> np.ndarray:
        """(documents, output) float32 embeddings of rows of token ids, in evaluation mode."""
        self.eval()
        order = np.argsort([len(row) for row in rows], kind="stable")
        batches = np.split(order, range(batch_size, len(rows), batch_size))
        vectors = [self(*self.pad([rows[row] for row in batch])).cpu() for batch in batches]
        return torch.cat(vectors).numpy()[np.argsort(order)]

    def pad(self, rows: Any) -> tuple[Int[Tensor, "batch tokens"], Int[Tensor, " batch"]]:
        """Token ids, padded with 0, and lengths; a bag leaves out the special tokens."""
        rows = [row[1:-1] for row in rows] if self.design.architecture == "bag" else rows
        lengths = np.array([len(row) for row in rows])
        ids = np.zeros((len(rows), lengths.max()), dtype=np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate(rows)
        return torch.from_numpy(ids), torch.from_numpy(lengths)

    @property
    def megabytes(self) -> float:
        """The size of the weights as in the paper: 4 bytes a weight, 2^20 bytes a megabyte."""
        return 4 * sum(weights.numel() for weights in self.parameters()) / 2**20


def _make_body(design: Design, sizes: Sizes, token: int) -> tuple[nn.Module, int]:
    """The module that turns token vectors into states, and the width of these."""
    kind, hidden, layers = design.architecture, sizes.hidden, design.layers
    if kind in RECURRENT:
        directions = 1 + design.bidirectional
        if not design.linear_layers:  # the states are the embedding, as wide as the teacher's
            hidden = sizes.output // directions
        options = {"bidirectional": design.bidirectional, "batch_first": True}
        return getattr(nn, kind)(token, hidden, layers, **options), directions * hidden
    if kind == "Transformer":
        widths = (token, design.heads, sizes.feed_forward)
        layer = nn.TransformerEncoderLayer(*widths, DROPOUT, batch_first=True)
        return nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), token
    if kind == "FFN":
        widths = [token, *(hidden * 2 ** (number + 1) for number in range(layers))]
        pairs = itertools.pairwise(widths)
        parts = [each for pair in pairs for each in (nn.Linear(*pair), nn.ReLU())]
        return nn.Sequential(*parts), widths[-1]
    if kind == "bag":
        return nn.Identity(), token
    shapes = {
        "CNN-1": [(token, FILTERS, 3)],
        "CNN-2": [(token, hidden, 3), (hidden, 2 * hidden, 2)],
    }
    parts = [nn.Conv1d(*shape, padding="same") for shape in shapes[kind]]
    return nn.ModuleList(parts), shapes[kind][-1][1]


def _make_linear(design: Design, sizes: Sizes, width: int) -> tuple[nn.Module, nn.Module]:
    """The linear layers before and after an aggregation; with an average, one fits either side."""
    output = sizes.output
    if design.aggregation == "CLS":
        layers = [nn.Linear(width, output), nn.Tanh(), nn.Linear(output, output)]
        return nn.Identity(), nn.Sequential(*layers)
    if design.architecture == "Transformer":
        relu = [nn.ReLU()] if design.relu else []
        return nn.Sequential(*relu, nn.Linear(width, output)), nn.Identity()
    if design.linear_layers == 2:
        between = [nn.ReLU(), nn.Dropout(DROPOUT if design.dropout else 0.0)]
        return nn.Sequential(nn.Linear(width, output), *between), nn.Linear(output, output)
    if design.architecture in RECURRENT and not design.linear_layers:
        return nn.Identity(), nn.Identity()
    return nn.Identity(), nn.Linear(width, output)
