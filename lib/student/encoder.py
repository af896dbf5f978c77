"""The student: a Longformer without global attention, that is, RoBERTa with a sliding window.

Documents are packed without padding. Parameter names, outputs and gradients are the same as those
of `transformers.LongformerModel`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import LongformerConfig
from transformers.activations import ACT2FN

from lib.config.console import one_line_errors
from lib.student import weights
from lib.student.attention import sliding_window
from lib.student.linear import Linear
from lib.student.packing import Packed, TokenIds, check_ids, embed_batches, pack, tokenize
from lib.texts import list_items

FEED_FORWARD_ROWS = 1024  # at once, without gradients on a CPU: wide activations reuse memory
# Tokens at once: an H200 encodes 1.2 million a second in batches of 4,096, 4.1 in those of 16,384.
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 4096, 16_384


class Embeddings(nn.Module):
    """Sum of word, position and (constant) token type embeddings, normalised."""

    def __init__(self, config: LongformerConfig):
        super().__init__()
        width, padding = config.hidden_size, config.pad_token_id
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=padding)
        self.position_embeddings = nn.Embedding(
            config.max_position_embeddings, width, padding_idx=padding
        )
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        summed = (
            self.word_embeddings(ids)
            + self.position_embeddings(positions)
            + self.token_type_embeddings.weight[0]
        )
        return self.dropout(self.LayerNorm(summed))


class SelfAttention(nn.Module):
    """Queries, keys and values of one layer, and the attention between them."""

    def __init__(self, config: LongformerConfig, window: int):
        super().__init__()
        width = config.hidden_size
        self.heads, self.window = config.num_attention_heads, window
        self.dropout = config.attention_probs_dropout_prob
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1))
            for project in (self.query, self.key, self.value)
        )
        dropout = self.dropout if self.training else 0.0
        return sliding_window(q, k, v, lengths, self.window, dropout=dropout).flatten(1)


class Output(nn.Module):
    """Linear map back to the width of the model, dropout, residual connection, LayerNorm."""

    def __init__(self, config: LongformerConfig, inputs: int):
        super().__init__()
        self.dense = Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Layer(nn.Module):
    """One transformer layer: attention and feed-forward, each with its residual connection."""

    def __init__(self, config: LongformerConfig, window: int):
        super().__init__()
        width = config.hidden_size
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(config, window), "output": Output(config, width)}
        )
        self.intermediate = nn.ModuleDict({"dense": Linear(width, config.intermediate_size)})
        self.output = Output(config, config.intermediate_size)
        self.activation = ACT2FN[config.hidden_act]

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, lengths), x)
        if torch.is_grad_enabled() or x.is_cuda:
            return self.feed_forward(x)
        parts = x.tensor_split(math.ceil(len(x) / FEED_FORWARD_ROWS))
        return torch.cat([self.feed_forward(rows) for rows in parts])

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.intermediate["dense"](x)), x)


class Student(nn.Module):
    """Encoder of long documents. An embedding is the mean of a document's token states.

    `student(ids)` embeds a list of token id lists, with gradients; `encode` also takes texts.

    Its attributes are `tokenizer` (None if the checkpoint had none: only token ids are accepted),
    `dim`, `max_positions` (the longest document in tokens, special ones included),
    `gradient_checkpointing` (recompute layers in the backward pass, to save memory) and `unused`,
    weights of the checkpoint (global attention, pooler) that are kept for `save`.
    """

    def __init__(self, config: LongformerConfig, tokenizer=None):
        super().__init__()
        windows = config.attention_window
        windows = (
            [windows] * config.num_hidden_layers if isinstance(windows, int) else list(windows)
        )
        # Hugging Face's Longformer, which has to read exports, fails with a window of 2 tokens.
        if len(windows) != config.num_hidden_layers or any(
            window < 4 or window % 2 for window in windows
        ):
            raise ValueError(
                "attention_window must be an even number of at least 4, for all "
                f"{config.num_hidden_layers} layers or one per layer, got {config.attention_window}"
            )
        if config.pad_token_id is None:
            raise ValueError("the config has no pad_token_id, after which positions are counted")
        config.attention_window = windows
        self.config, self.tokenizer = config, tokenizer
        self.dim: int = config.hidden_size
        self.padding: int = config.pad_token_id
        self.max_positions: int = config.max_position_embeddings - self.padding - 1
        self.gradient_checkpointing = False
        self.unused: dict[str, Tensor] = {}
        self.embeddings = Embeddings(config)
        self.encoder = nn.ModuleDict(
            {"layer": nn.ModuleList(Layer(config, window) for window in windows)}
        )

    @classmethod
    def from_longformer(
        cls,
        source: weights.Source,
        revision: str | None = None,
        *,
        dropout: float | None = None,
        attention_dropout: float | None = None,
    ) -> Self:
        """Load a Hugging Face Longformer checkpoint, in float32.

        `source` is a folder or a model id of the hub, whose commit, tag or branch is `revision`.
        `dropout` replaces hidden and attention dropout, `attention_dropout` the latter alone: with
        0, training can use the fast CUDA kernel, which has no dropout. `ValueError` in one line for
        a source that is missing, damaged or not a Longformer.
        """
        return cls._build(
            source, weights.from_longformer(source, revision), dropout, attention_dropout
        )

    @classmethod
    def from_encoder(
        cls,
        source: weights.Source,
        layers: Sequence[int] | None,
        window: int | Sequence[int],
        max_positions: int,
        revision: str | None = None,
        *,
        dropout: float | None = None,
        attention_dropout: float | None = None,
    ) -> Self:
        """Turn an encoder of short texts into a Longformer, as the authors of Longformer did.

        The chosen `layers` (indices in their new order, None for all) of one of
        `weights.SHORT_ENCODERS` are copied unchanged, and the position embeddings are tiled up to
        `max_positions`, special tokens included. `window` is in tokens, both sides together, for
        all layers or one per layer. Other arguments are those of `from_longformer`. `ValueError` in
        one line if the source is missing or damaged, or if model, `layers` or `window` do not fit.
        """
        checkpoint = weights.from_encoder(source, layers, window, max_positions, revision)
        return cls._build(source, checkpoint, dropout, attention_dropout)

    @classmethod
    def _build(
        cls,
        source: weights.Source,
        checkpoint: weights.Checkpoint,
        dropout: float | None,
        attention_dropout: float | None,
    ) -> Self:
        config, tensors, tokenizer = checkpoint
        if dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        if attention_dropout is not None:
            config.attention_probs_dropout_prob = attention_dropout
        with one_line_errors(f"read {source}"), torch.device("meta"):
            student = cls(config, tokenizer)
        names = student.state_dict().keys()
        student.load_state_dict({name: tensors.pop(name) for name in names}, assign=True)
        student.unused = tensors
        return student.requires_grad_(True).eval()

    def checkpoint(self) -> weights.Checkpoint:
        """The student as a standard Longformer: config, complete weights and tokenizer."""
        tensors = weights.add_unused_weights(self.state_dict(), self.unused)
        return weights.Checkpoint(self.config, tensors, self.tokenizer)

    def freeze_token_embeddings(self) -> None:
        """Exclude the token embeddings from training: their step costs more than all layers'."""
        self.embeddings.word_embeddings.weight.requires_grad_(False)

    def tokenize(self, texts: Iterable[str]) -> list[list[int]]:
        """Return the token ids of texts, special tokens included, cut to `max_positions`."""
        return tokenize(self.tokenizer, list_items(texts), self.max_positions)

    def forward(self, ids: TokenIds) -> Float[Tensor, "documents dim"]:
        """Embed token id lists, with gradients; ValueError for a document it cannot read."""
        packed = pack(ids, self.config.vocab_size, self.padding, self.max_positions)
        states = self.token_states(packed)
        return torch.stack([document.mean(0) for document in states.split(packed.lengths)])

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        device = self.embeddings.word_embeddings.weight.device
        x = self.embeddings(packed.ids.to(device), packed.positions.to(device))
        for layer in self.encoder["layer"].children():
            if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
                x = checkpoint(layer, x, packed.lengths, use_reentrant=False)
            else:
                x = layer(x, packed.lengths)
        return x

    def encode(
        self, inputs: Iterable[Any], *, batch_tokens: int | None = None, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists as float32; `precision` is "fp32" or "bf16" (autocast).

        Texts are cut to `max_positions`, token ids never. Documents are grouped by length, with
        `batch_tokens` computed at once, by default 4,096, or 16,384 on a GPU. On a CPU, a
        document's embedding has the same bits alone and in any batch. Several threads may encode
        with one student; until they are done it is in evaluation mode, even for a thread that
        trains it.

        `ValueError` for inputs that are neither texts nor token ids, an unknown precision, and
        embeddings that are not finite.
        """
        documents = list_items(inputs)
        if any(isinstance(document, str) for document in documents):
            documents = self.tokenize(documents)
        for _ in check_ids(documents, self.config.vocab_size, self.max_positions):
            pass  # so that a bad document raises before any work is done
        if batch_tokens is None:
            on_gpu = next(self.parameters()).device.type == "cuda"
            batch_tokens = BATCH_TOKENS_ON_GPU if on_gpu else BATCH_TOKENS
        batches = _group_by_length([len(document) for document in documents], batch_tokens)
        return embed_batches(
            self,
            lambda rows: self([documents[row] for row in rows]),
            batches,
            (len(documents), self.dim),
            precision,
        )


def _group_by_length(lengths: list[int], batch_tokens: int) -> list[list[int]]:
    """Batch rows, longest first; a batch has one document or at most `batch_tokens` tokens."""
    batches: list[list[int]] = []
    room = 0
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if not batches or lengths[row] > room:
            batches.append([])
            room = batch_tokens
        batches[-1].append(row)
        room -= lengths[row]
    return batches
