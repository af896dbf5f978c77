"""The student: a Longformer without global attention, that is, RoBERTa with a sliding window.

Documents are packed without padding. Parameter names, outputs and gradients are the same as those
of `transformers.LongformerModel`.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import transformers  # whose names are imported when they are used, some for seconds
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from lib.student import folders
from lib.student.attention import sliding_window
from lib.texts import check_several, check_texts, show_value, tokenize_texts

# Token ids of several documents: lists or integer arrays, or one array if all are equally long.
TokenIds = Sequence[Sequence[int] | np.ndarray | Tensor] | np.ndarray
# Tokens that are encoded at once, on a CPU and on a GPU (benchmarks/results/gpu/README.md).
BATCH_TOKENS, BATCH_TOKENS_ON_GPU = 4096, 16_384
# On a CPU a batch has a multiple of this many rows. For a few rows, MKL sums in another order, and
# oneDNN keeps a kernel in memory for every number of rows.
ROWS = 64
# Dtypes in which oneDNN encodes linear layers, with the GELU behind them in one pass. In float32,
# MKL is faster, except on AMD's AVX-512 (docs/speed.md).
_FOUND = {name for name, found in torch.cpu.get_capabilities().items() if found}
ONEDNN = {torch.bfloat16} if _FOUND & {"avx512_bf16", "amx_bf16"} else set()
ONEDNN |= {torch.float32} if _FOUND & {"avx512_f", "amx_tile"} == {"avx512_f"} else set()


def is_bf16(precision: str) -> bool:
    """Whether a precision is "bf16"; `ValueError` unless it is that or "fp32"."""
    if precision not in ("fp32", "bf16"):
        raise ValueError(f'precision must be "fp32" or "bf16", got {precision!r}')
    return precision == "bf16"


class Packed(NamedTuple):
    """Documents one after another: ids and positions (tokens,), and the length of each document."""

    ids: Tensor
    positions: Tensor
    lengths: list[int]


class Linear(nn.Linear):
    """`torch.nn.Linear` in the dtype of its input, with GELU behind it if asked."""

    def forward(self, input: Tensor, gelu: bool = False) -> Tensor:
        weight, bias = self.weight.to(input.dtype), self.bias.to(input.dtype)
        mixed = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
        if input.dtype in ONEDNN and input.device.type == "cpu" and not mixed:
            # The call that `torch.compile` emits for a linear layer on a CPU.
            after = "gelu" if gelu else "none"
            return torch.ops.mkldnn._linear_pointwise(input, weight, bias, after, [], "none")
        x = nn.functional.linear(input, weight, bias)
        return nn.functional.gelu(x) if gelu else x


class SelfAttention(nn.Module):
    """Queries, keys and values of one layer, and the attention between them."""

    def __init__(self, config: "transformers.LongformerConfig", window: int):
        super().__init__()
        width = config.hidden_size
        self.heads, self.window = config.num_attention_heads, window
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.query, self.key, self.value = (Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        maps = self.query, self.key, self.value
        q, k, v = (project(x).unflatten(-1, (self.heads, -1)) for project in maps)
        dropout = self.dropout.p if self.training else 0.0
        return sliding_window(q, k, v, lengths, self.window, dropout=dropout).flatten(1)


class Output(nn.Module):
    """Linear map back to the width of the model, dropout, residual connection, LayerNorm."""

    def __init__(self, config: "transformers.LongformerConfig", inputs: int):
        super().__init__()
        self.dense = Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(x)) + residual)


class Layer(nn.Module):
    """One transformer layer: attention and feed-forward, each with its residual connection."""

    def __init__(self, config: "transformers.LongformerConfig", window: int):
        super().__init__()
        width = config.hidden_size
        parts = {"self": SelfAttention(config, window), "output": Output(config, width)}
        self.attention = nn.ModuleDict(parts)
        self.intermediate = nn.ModuleDict({"dense": Linear(width, config.intermediate_size)})
        self.output = Output(config, config.intermediate_size)
        self.activation = transformers.activations.ACT2FN[config.hidden_act]
        self.gelu = config.hidden_act == "gelu"

    def forward(self, x: Tensor, lengths: Sequence[int]) -> Tensor:
        x = self.attention["output"](self.attention["self"](x, lengths), x)
        return self.feed_forward(x)

    def feed_forward(self, x: Tensor) -> Tensor:
        wide = self.intermediate["dense"](x, gelu=self.gelu)
        return self.output(wide if self.gelu else self.activation(wide), x)


class Student(nn.Module):
    """Encoder of long documents. An embedding is the mean of a document's token states.

    `student(ids)` embeds a list of token id lists, with gradients; `encode` also takes texts.
    Weights stay in float32. Under autocast without gradients, a CPU computes all in bfloat16.

    `max_positions` is the longest document in tokens, special ones included. `unused` are weights
    of the checkpoint (global attention, pooler) that are kept for `save`. `gradient_checkpointing`
    computes layers again in the backward pass, to save memory.
    """

    def __init__(self, config: "transformers.LongformerConfig", tokenizer: Any = None):
        super().__init__()
        windows = config.attention_window
        if isinstance(windows, int):
            windows = [windows] * config.num_hidden_layers
        # Hugging Face's Longformer, which has to read exports, fails with a window of 2 tokens.
        fit = all(window >= 4 and window % 2 == 0 for window in windows)
        if len(windows) != config.num_hidden_layers or not fit:
            raise ValueError(f"expected an even attention_window per layer, >= 4, got {windows}")
        config.attention_window = list(windows)
        self.config, self.tokenizer = config, tokenizer
        assert config.pad_token_id is not None  # after it positions are counted
        self.dim: int = config.hidden_size
        self.padding: int = config.pad_token_id
        self.max_positions: int = config.max_position_embeddings - self.padding - 1
        self.gradient_checkpointing = False
        self.unused: dict[str, Tensor] = {}
        modules = transformers.models.longformer.modeling_longformer
        self.embeddings = modules.LongformerEmbeddings(config)
        layers = nn.ModuleList(Layer(config, window) for window in windows)
        self.encoder = nn.ModuleDict({"layer": layers})

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Load what `save` or `export` wrote; errors as in `from_longformer`."""
        return cls.from_longformer(Path(folder).expanduser())

    @classmethod
    def from_longformer(cls, source: folders.Source, revision: str | None = None) -> Self:
        """Load a Hugging Face Longformer checkpoint, in float32.

        `source` is a folder or a model id of the hub, whose commit, tag or branch is `revision`.
        `ValueError` in one line for a source that is missing, damaged or not a Longformer.
        """
        return cls._build(*folders.read_checkpoint(source, revision, ["longformer"]))

    @classmethod
    def from_encoder(
        cls,
        source: folders.Source,
        layers: Sequence[int] | None,
        window: int,
        max_positions: int,
        revision: str | None = None,
    ) -> Self:
        """Turn an encoder of short texts into a Longformer, as the authors of Longformer did.

        The chosen `layers` (indices in their new order, None for all) of one of
        `folders.SHORT_ENCODERS` are copied. Position embeddings are repeated up to `max_positions`,
        special tokens included, which preserves the local structure except at the seams (Beltagy
        et al. 2020, section 5). `window` is in tokens, both sides together. The rest is as in
        `from_longformer`.
        """
        known = folders.SHORT_ENCODERS
        config, weights, tokenizer = folders.read_checkpoint(source, revision, known, layers)
        narrow = getattr(config, "embedding_size", config.hidden_size) != config.hidden_size
        if narrow or getattr(config, "position_embedding_type", "absolute") != "absolute":
            raise ValueError(f"{source} has relative positions, or tokens narrower than its layers")
        first = config.pad_token_id + 1  # of the positions that are used
        longformer = transformers.LongformerConfig(
            attention_window=window,
            max_position_embeddings=first + max_positions,
            num_hidden_layers=config.num_hidden_layers if layers is None else len(layers),
            **{name: getattr(config, name) for name in folders.TAKEN_OVER},
        )
        name = "embeddings.position_embeddings.weight"
        table = weights[name][first:] if known[config.model_type] else weights[name]
        tiled = table.repeat(math.ceil(max_positions / len(table)), 1)[:max_positions]
        weights[name] = nn.functional.pad(tiled, (0, 0, first, 0))
        if tokenizer is not None:
            tokenizer.model_max_length = max_positions
        return cls._build(longformer, weights, tokenizer)

    @classmethod
    def _build(cls, config: Any, weights: dict[str, Tensor], tokenizer: Any) -> Self:
        with torch.device("meta"):
            student = cls(config, tokenizer)
        names = student.state_dict().keys()
        student.load_state_dict({name: weights.pop(name) for name in names}, assign=True)
        student.unused = weights
        return student.requires_grad_(True).eval()

    save = folders.save_longformer
    export = folders.save_sentence_transformer

    def set_dropout(self, share: float) -> None:
        """Replace hidden and attention dropout: the fast CUDA kernel of training wants 0."""
        self.config.hidden_dropout_prob = self.config.attention_probs_dropout_prob = share
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = share

    def freeze_token_embeddings(self) -> None:
        """Exclude the token embeddings from training: their step costs more than all layers'."""
        self.embeddings.word_embeddings.weight.requires_grad_(False)

    def tokenize(self, texts: Iterable[str], longest: int | None = None) -> list[list[int]]:
        """Token ids of texts, special ones included, cut to `longest`, or else `max_positions`."""
        if self.tokenizer is None:
            raise ValueError("it has no tokenizer; pass token ids, or set student.tokenizer")
        options = {"truncation": True, "max_length": longest or self.max_positions}
        return [*tokenize_texts(self.tokenizer, [*check_texts(texts)], **options)]

    def pack(self, documents: TokenIds) -> Packed:
        """Pack token id lists; `ValueError` for a document that the student cannot read.

        Positions count from the padding id + 1 in every document, as in RoBERTa. A token with the
        padding id has it as its position and is not counted, as in `transformers.LongformerModel`.
        """
        arrays = [*self._check_ids(documents)]
        counted = [ids != self.padding for ids in arrays]
        positions = [np.cumsum(each) * each + self.padding for each in counted]
        ids, places = (torch.from_numpy(np.concatenate(each)) for each in (arrays, positions))
        return Packed(ids, places, [len(each) for each in arrays])

    def _check_ids(self, documents: TokenIds) -> Iterator[np.ndarray]:
        vocabulary = self.config.vocab_size
        for index, document in enumerate(documents):
            ids = np.asarray(document)
            if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
                raise ValueError(f"expected token ids, document {index} is {show_value(document)}")
            if self.padding in (ids[0], ids[-1]):  # it would be embedded, too
                raise ValueError(f"document {index} has padding at an end: pass its tokens alone")
            if len(ids) > self.max_positions or not 0 <= ids.min() <= ids.max() < vocabulary:
                told = f"{len(ids)} tokens with ids from {ids.min()} to {ids.max()}"
                most = f"at most {self.max_positions} tokens with ids below {vocabulary}"
                raise ValueError(f"document {index} has {told}; expected {most}")
            yield ids.astype(np.int64)

    def forward(self, ids: TokenIds) -> Float[Tensor, "documents dim"]:
        """Embed token id lists, with gradients; errors as in `pack`."""
        packed = self.pack(ids)
        states = self.token_states(packed)
        return torch.stack([document.mean(0) for document in states.split(packed.lengths)])

    def token_states(self, packed: Packed) -> Float[Tensor, "tokens dim"]:
        """States (tokens, dim) of the last layer."""
        device, lengths = self.embeddings.LayerNorm.weight.device, packed.lengths
        x = self.embeddings(packed.ids.to(device), position_ids=packed.positions.to(device))
        # All in bfloat16 would train no faster, and norms' gradients would lose digits.
        learning, mixed = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
        pure = mixed and device.type == "cpu" and not learning
        if device.type == "cpu" and (filled := -len(x) % ROWS):
            x = nn.functional.pad(x, (0, 0, 0, filled))
            lengths = [*lengths, filled]
        if pure:
            x = x.bfloat16()
        recomputes = self.gradient_checkpointing and self.training and learning
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed and not pure):
            for layer in self.encoder["layer"].children():
                if recomputes:
                    x = checkpoint(layer, x, lengths, use_reentrant=False)
                else:
                    x = layer(x, lengths)
        return x[: len(packed.ids)].to(torch.promote_types(x.dtype, torch.float32))

    def encode(
        self, inputs: Iterable[Any], *, precision: str = "fp32"
    ) -> Float[np.ndarray, "documents dim"]:
        """Embed texts or token id lists as float32; `precision` is "fp32" or "bf16" (autocast).

        Texts are cut to `max_positions`, token ids never. Weights that are not float32, as after
        `half()`, compute in their own type. Documents are grouped by length, and torch's threads
        share the batches on a CPU. There an embedding has the same bits in any batch in fp32; in
        bf16 its last digits may depend on the others. Meanwhile the student is in evaluation mode.
        `ValueError` for other inputs, and for embeddings that are not finite.
        """
        documents = [*check_several(inputs)]
        if any(isinstance(document, str) for document in documents):
            documents = self.tokenize(documents)
        lengths = np.array([len(ids) for ids in self._check_ids(documents)], int)  # before any work
        weight = self.embeddings.LayerNorm.weight
        kind, casts = weight.device.type, is_bf16(precision) and weight.dtype == torch.float32
        most = BATCH_TOKENS if kind == "cpu" else BATCH_TOKENS_ON_GPU
        order = np.argsort(-lengths, kind="stable")
        filled = np.cumsum(lengths[order]) // most
        batches = np.split(order, np.flatnonzero(np.diff(filled)) + 1)
        result = np.empty((len(documents), self.dim), dtype=np.float32)

        def embed(rows: np.ndarray) -> None:
            with torch.inference_mode(), torch.autocast(kind, torch.bfloat16, enabled=casts):
                result[rows] = self([documents[row] for row in rows]).float().cpu().numpy()

        training, threads = self.training, torch.get_num_threads()
        # Each thread takes whole batches: none waits within an operation.
        workers = min(threads, len(batches)) if kind == "cpu" else 1
        share = (torch.set_num_threads, (threads // workers,))
        self.eval()
        try:
            with ThreadPoolExecutor(workers, "encode", *share) as pool:
                [*pool.map(embed, batches if documents else [])]
        finally:
            self.train(training)
            torch.set_num_threads(threads)  # of threads that start later
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(f"the embedding of document {finite.argmin()} holds NaN or infinity")
        return result
