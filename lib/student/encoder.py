"""The student: a Longformer without global attention, that is, RoBERTa with a sliding window.

Documents are packed without padding. Parameter names, outputs and gradients are the same as those
of `transformers.LongformerModel`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import LongformerConfig
from transformers.activations import ACT2FN

from lib.config.environment import one_line_errors
from lib.student import checkpoint as files
from lib.student.attention import sliding_window
from lib.texts import check_texts, refuse_whole, show_value, tokenize_texts

# Token ids of several documents: lists or integer arrays.
TokenIds = Sequence[Sequence[int] | np.ndarray | Tensor]
# Tokens at once: an H200 encodes 1.2 million a second in batches of 4,096, 4.1 in those of 16,384.
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 4096, 16_384
# On a CPU a batch has a multiple of this many rows. For a few rows, MKL sums in another order;
# oneDNN keeps a kernel for every number of rows, which would triple the memory of a process.
ROWS = 64
# Products in float32 take .6 of MKL's time with oneDNN on AMD's AVX-512, but 1.2 on Intel's AMX and
# with AVX2 alone (benchmarks/bench_linear.py of commit b1efdf5b).
_FOUND = torch.cpu.get_capabilities()
ONEDNN = torch.backends.mkldnn.is_available() and bool(
    _FOUND.get("avx512_f") and not _FOUND.get("amx_tile")
)
_ENCODING = threading.RLock()


class Packed(NamedTuple):
    """Documents one after another: ids and positions (tokens,), and the length of each document."""

    ids: Tensor
    positions: Tensor
    lengths: list[int]


class Linear(nn.Linear):
    """`torch.nn.Linear` in the dtype of its input. On a CPU it has no second derivatives."""

    def forward(self, input: Tensor) -> Tensor:
        exact = input.dtype == self.weight.dtype == torch.float32 and input.device.type == "cpu"
        if ONEDNN and exact and input.dim() == 2 and not torch.is_autocast_enabled("cpu"):
            return _OneDnnLinear.apply(input, self.weight, self.bias)
        dtype = input.dtype
        return nn.functional.linear(input, self.weight.to(dtype), self.bias.to(dtype))


class _OneDnnLinear(torch.autograd.Function):
    """x W^T + b. For a gradient g, those of x, W and b are g W, g^T x and the column sums of g."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return _multiply(x, weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        to_x = _multiply(grad, weight.t()) if ctx.needs_input_grad[0] else None
        to_weight = _multiply(grad.t(), x.t()) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _multiply(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b by the call that `torch.compile` emits for a linear layer on a CPU."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


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
        return self.feed_forward(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.output(self.activation(self.intermediate["dense"](x)), x)


class Student(nn.Module):
    """Encoder of long documents. An embedding is the mean of a document's token states.

    `student(ids)` embeds a list of token id lists, with gradients; `encode` also takes texts.
    Weights stay in float32. Under autocast without gradients, a CPU computes all in bfloat16.

    `max_positions` is the longest document in tokens, special ones included. `unused` are weights
    of the checkpoint (global attention, pooler) that are kept for `save`. `gradient_checkpointing`
    computes layers again in the backward pass, to save memory.
    """

    def __init__(self, config: LongformerConfig, tokenizer: Any = None):
        super().__init__()
        windows = config.attention_window
        if isinstance(windows, int):
            windows = [windows] * config.num_hidden_layers
        # Hugging Face's Longformer, which has to read exports, fails with a window of 2 tokens.
        fit = all(window >= 4 and window % 2 == 0 for window in windows)
        if len(windows) != config.num_hidden_layers or not fit:
            raise ValueError(
                "attention_window must be an even number of at least 4, for all "
                f"{config.num_hidden_layers} layers or one per layer, got {config.attention_window}"
            )
        if config.pad_token_id is None:
            raise ValueError("the config has no pad_token_id, after which positions are counted")
        config.attention_window = list(windows)
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
    def load(cls, folder: str | Path) -> Self:
        """Load what `save` or `export` wrote; errors as in `from_longformer`."""
        return cls.from_longformer(Path(folder).expanduser())

    @classmethod
    def from_longformer(
        cls,
        source: files.Source,
        revision: str | None = None,
        *,
        dropout: float | None = None,
    ) -> Self:
        """Load a Hugging Face Longformer checkpoint, in float32.

        `source` is a folder or a model id of the hub, whose commit, tag or branch is `revision`.
        `dropout` replaces hidden and attention dropout: with 0, training can use the fast CUDA
        kernel, which has none. `ValueError` in one line for a source that is missing, damaged or
        not a Longformer.
        """
        return cls._build(source, files.read_longformer(source, revision), dropout)

    @classmethod
    def from_encoder(
        cls,
        source: files.Source,
        layers: Sequence[int] | None,
        window: int | Sequence[int],
        max_positions: int,
        revision: str | None = None,
        *,
        dropout: float | None = None,
    ) -> Self:
        """Turn an encoder of short texts into a Longformer, as the authors of Longformer did.

        The chosen `layers` (indices in their new order, None for all) of one of
        `checkpoint.SHORT_ENCODERS` are copied unchanged, and the position embeddings are tiled up
        to `max_positions`, special tokens included. `window` is in tokens, both sides together, for
        all layers or one per layer. The rest is as in `from_longformer`.
        """
        read = files.read_encoder(source, layers, window, max_positions, revision)
        return cls._build(source, read, dropout)

    @classmethod
    def _build(cls, source: files.Source, read: files.Checkpoint, dropout: float | None) -> Self:
        config, tensors, tokenizer = read
        if dropout is not None:
            config.hidden_dropout_prob = config.attention_probs_dropout_prob = dropout
        with one_line_errors(f"read {source}"), torch.device("meta"):
            student = cls(config, tokenizer)
        names = student.state_dict().keys()
        student.load_state_dict({name: tensors.pop(name) for name in names}, assign=True)
        student.unused = tensors
        return student.requires_grad_(True).eval()

    def save(self, folder: str | Path) -> None:
        """Write a standard Hugging Face Longformer: see `checkpoint.save_longformer`."""
        files.save_longformer(self, folder)

    def export(self, folder: str | Path, card: Mapping[str, Any] | None = None) -> None:
        """Write a SentenceTransformer: see `checkpoint.save_sentence_transformer`."""
        files.save_sentence_transformer(self, folder, card)

    def freeze_token_embeddings(self) -> None:
        """Exclude the token embeddings from training: their step costs more than all layers'."""
        self.embeddings.word_embeddings.weight.requires_grad_(False)

    def tokenize(self, texts: Iterable[str], longest: int | None = None) -> list[list[int]]:
        """Token ids of texts, special ones included, cut to `longest`, or else `max_positions`.

        `ValueError` for what is no text, and for a text whose only tokens are special ones.
        """
        if self.tokenizer is None:
            raise ValueError("it has no tokenizer; pass token ids, or set student.tokenizer")
        texts = [*check_texts(texts)]
        options = {"truncation": True, "max_length": longest or self.max_positions}
        ids = [*tokenize_texts(self.tokenizer, texts, return_attention_mask=False, **options)]
        least = self.tokenizer.num_special_tokens_to_add() + 1
        for index, row in enumerate(ids):
            if len(row) < least:
                raise ValueError(f"document {index} has only special tokens: {texts[index][:60]!r}")
        return ids

    def pack(self, documents: TokenIds) -> Packed:
        """Pack token id lists; `ValueError` for a document that the student cannot read.

        Positions count from the padding id + 1 in every document, as in RoBERTa. A token with the
        padding id has it as its position and is not counted, as in `transformers.LongformerModel`.
        """
        arrays = [*self._check_ids(documents)]
        positions = []
        for ids in arrays:
            counted = ids != self.padding
            positions.append(np.cumsum(counted) * counted + self.padding)
        return Packed(
            torch.from_numpy(np.concatenate(arrays)),
            torch.from_numpy(np.concatenate(positions)),
            [len(ids) for ids in arrays],
        )

    def _check_ids(self, documents: TokenIds) -> Iterator[np.ndarray]:
        for index, document in enumerate(documents):
            ids = np.asarray(document)
            if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
                raise ValueError(f"expected token ids, document {index} is {show_value(document)}")
            most = self.config.vocab_size - 1
            if len(ids) > self.max_positions or ids.min() < 0 or ids.max() > most:
                raise ValueError(
                    f"document {index} has {len(ids)} tokens with ids from {ids.min()} to "
                    f"{ids.max()}; expected at most {self.max_positions}, all ids from 0 to {most}"
                )
            yield ids.astype(np.int64)

    def forward(self, ids: TokenIds) -> Float[Tensor, "documents dim"]:
        """Embed token id lists, with gradients; errors as in `pack`."""
        packed = self.pack(ids)
        states = self.token_states(packed)
        return torch.stack([document.mean(0) for document in states.split(packed.lengths)])

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        device, lengths = self.embeddings.LayerNorm.weight.device, packed.lengths
        x = self.embeddings(packed.ids.to(device), packed.positions.to(device))
        # All in bfloat16 would train no faster, and norms' gradients would lose digits.
        pure = device.type == "cpu" and torch.is_autocast_enabled("cpu")
        pure &= not torch.is_grad_enabled()
        if device.type == "cpu" and (filled := -len(x) % ROWS):
            x = nn.functional.pad(x, (0, 0, 0, filled))
            lengths = [*lengths, filled]
        if pure:
            x = x.bfloat16()
        with torch.autocast("cpu", enabled=False) if pure else contextlib.nullcontext():
            for layer in self.encoder["layer"].children():
                if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
                    x = checkpoint(layer, x, lengths, use_reentrant=False)
                else:
                    x = layer(x, lengths)
        return x[: len(packed.ids)].to(torch.promote_types(x.dtype, torch.float32))

    def encode(
        self, inputs: Iterable[Any], *, batch_tokens: int | None = None, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists as float32; `precision` is "fp32" or "bf16" (autocast).

        Texts are cut to `max_positions`, token ids never. Documents are grouped by length, with
        `batch_tokens` at once. On a CPU batches are shared among torch's threads, and a document's
        embedding has the same bits in any batch. Meanwhile the student is in evaluation mode, for
        all threads. `ValueError` for other inputs, and for embeddings that are not finite.
        """
        documents = [*refuse_whole(inputs)]
        if any(isinstance(document, str) for document in documents):
            documents = self.tokenize(documents)
        lengths = [len(ids) for ids in self._check_ids(documents)]  # before any work is done
        if precision not in ("fp32", "bf16"):
            raise ValueError(f'precision must be "fp32" or "bf16", got {precision!r}')
        on_cpu = self.embeddings.LayerNorm.weight.device.type == "cpu"
        batches = _group_by_length(
            lengths, batch_tokens or (BATCH_TOKENS if on_cpu else BATCH_TOKENS_ON_GPU)
        )
        result = np.empty((len(documents), self.dim), dtype=np.float32)

        def embed(rows: list[int]) -> None:
            kind, mixed = "cpu" if on_cpu else "cuda", precision == "bf16"
            with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=mixed):
                result[rows] = self([documents[row] for row in rows]).float().cpu().numpy()

        with _evaluation_mode(self):
            _share(embed, batches, on_cpu)
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"the embedding of document {finite.argmin()} holds NaN or infinity; "
                "either the student's weights do too, or bf16 is too narrow for them"
            )
        return result


def _share(embed: Any, batches: list[list[int]], on_cpu: bool) -> None:
    """Run `embed` for all batches. Each thread takes whole ones: none waits within an operation."""
    threads = torch.get_num_threads()
    workers = min(threads, len(batches)) if on_cpu else 1
    if workers < 2:
        for rows in batches:
            embed(rows)
        return
    each = threads // workers
    try:
        with ThreadPoolExecutor(workers, "encode", torch.set_num_threads, (each,)) as pool:
            [*pool.map(embed, batches)]
    finally:
        torch.set_num_threads(threads)  # of threads that start later


@contextlib.contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Keep a model in evaluation mode. Threads take turns, so that none ends it for another."""
    with _ENCODING:
        training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(training)


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
