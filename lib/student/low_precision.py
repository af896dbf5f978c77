"""Token states of a student in bfloat16 or int8 on a CPU, for encoding: no gradients, no dropout.

The weights of `lib.student.encoder`'s layers are converted once. Between two attentions, a few
hundred rows at a time pass through all dense layers, so that they stay in the processor's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear, pad
from transformers.activations import GELUActivation

from lib.student.attention import CPU_BLOCK, _cut_blocks, _join, _split
from lib.student.linear import ROWS as FILLED
from lib.student.packing import Packed

ROWS = 256  # rows that pass the dense layers at once; 256 rows of 1,536 float32 are 1.5 MB
LEAST = 1e-30  # smallest scale, so that an output whose weights are all zero does not divide by 0

Activation = Callable[[Tensor], Tensor]


def has(*features: str) -> bool:
    """Whether this processor has at least one of these instruction sets, under torch's names."""
    found = torch.cpu.get_capabilities()
    return any(found.get(feature) for feature in features)


BFLOAT16 = torch.backends.mkldnn.is_available() and has("avx512_bf16", "amx_bf16")
VNNI = torch.backends.mkldnn.is_available() and has("avx512_vnni", "amx_int8")


class Bfloat16Linear:
    """x W^T + b, computed by oneDNN in bfloat16 with sums in float32."""

    def __init__(self, weight: Tensor, bias: Tensor):
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.bfloat16(), ROWS)
        self.bias = bias.bfloat16()

    def __call__(self, x: Tensor) -> Tensor:
        return self._product(x, "none")

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.weight, self.bias, "add")

    def activate(self, x: Tensor, activation: Activation) -> Tensor:
        """The activation of the product; GELU takes no pass of its own."""
        if isinstance(activation, GELUActivation):
            return self._product(x, "gelu")
        return activation(self(x))

    def _product(self, x: Tensor, behind: str) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, behind, [], "none")


class Int8Linear:
    """x W^T + b, with W in int8 (one scale per output) and x in 8 bits (one scale per row).

    A row x_i is s_i q_i + m_i, with integers q_i from 0 to 255. m_i is the row's smallest value and
    s_i its range divided by 255, so no other row or document influences them. Then x_i W^T is
    s_i (q_i W^T) + m_i (sum of W's columns), and q_i W^T is a sum of integers, unsigned because
    oneDNN has fast kernels for no others. Results are float32.
    """

    def __init__(self, weight: Tensor, bias: Tensor):
        scales = weight.abs().amax(1).clamp_min(LEAST) / 127
        codes = (weight / scales[:, None]).round()  # -127 to 127
        self.inputs, self.bias, self.scales = weight.shape[1], bias, scales
        self.sums, self.zeros = codes.sum(1) * scales, torch.zeros(len(codes), dtype=torch.int32)
        self.weight = codes * scales[:, None]
        if VNNI:
            shape = [ROWS, self.inputs]
            self.weight = torch.ops.onednn.qlinear_prepack(codes.to(torch.int8), shape)

    def __call__(self, x: Tensor) -> Tensor:
        # One pass instead of five. A row's codes are followed by the bytes of its s_i and m_i.
        rows = torch.ops.quantized.embedding_bag_byte_prepack(x.float())
        codes, numbers = rows[:, : self.inputs], rows[:, self.inputs :].contiguous()
        steps, least = numbers.view(torch.float32).split(1, dim=1)
        if not VNNI:
            return linear(codes * steps + least, self.weight, self.bias)
        product = torch.ops.onednn.qlinear_pointwise(
            codes, 1.0, 0, self.weight, self.scales, self.zeros, None,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return torch.addcmul(self.bias, self.sums, least).addcmul_(product, steps)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self(x).add_(residual)

    def activate(self, x: Tensor, activation: Activation) -> Tensor:
        return activation(self(x))


class Layer:
    """The part of a layer after attention: output projection, feed-forward part and both norms."""

    def __init__(self, layer: Any, convert: type[Bfloat16Linear] | type[Int8Linear]):
        output, intermediate = layer.attention["output"], layer.intermediate["dense"]
        self.norms = output.LayerNorm, layer.output.LayerNorm
        self.output, self.wide, self.narrow = (
            convert(dense.weight, dense.bias)
            for dense in (output.dense, intermediate, layer.output.dense)
        )
        self.activation = layer.activation

    def __call__(self, attended: Tensor, x: Tensor) -> Tensor:
        first, second = self.norms
        x = normalise(self.output.add_to(x, attended), first)
        return normalise(self.narrow.add_to(x, self.wide.activate(x, self.activation)), second)


class LowPrecision:
    """The layers of a student on the CPU, converted: packed documents in, token states out.

    Precision "bf16" computes in bfloat16. "int8" has linear layers in int8, attention in bfloat16
    where the processor supports it, and the rest in float32.
    """

    @torch.no_grad()
    def __init__(self, student: Any, precision: str):
        convert: type[Bfloat16Linear] | type[Int8Linear]
        convert = Bfloat16Linear if precision == "bf16" else Int8Linear
        layers = list(student.encoder["layer"].children())
        self.embeddings = student.embeddings
        self.layers = [Layer(layer, convert) for layer in layers]
        attentions = [layer.attention["self"] for layer in layers]
        self.windows = [attention.window for attention in attentions]
        self.heads = attentions[0].heads
        self.projections = [convert(*stack_projections(attention)) for attention in attentions]
        self.residual = torch.bfloat16 if precision == "bf16" else torch.float32
        self.attention = torch.bfloat16 if precision == "bf16" or BFLOAT16 else torch.float32

    def token_states(self, packed: Packed) -> Tensor:
        """States (tokens, dim) of the last layer, float32."""
        tokens = len(packed.ids)
        x = self.embeddings(packed.ids, packed.positions)
        # Few different numbers of rows, because oneDNN keeps a kernel for each.
        x = pad(x, (0, 0, 0, -tokens % FILLED)).to(self.residual)
        width = x.shape[1] // self.heads
        q, v = (torch.empty((self.heads, len(x), width), dtype=self.attention) for _ in range(2))
        k = torch.empty((self.heads, width, len(x)), dtype=self.attention)
        attended = torch.zeros_like(x, dtype=self.attention)
        for project, window, layer in zip(self.projections, self.windows, self.layers, strict=True):
            for start in range(0, len(x), ROWS):
                rows = slice(start, start + ROWS)
                projected = project(x[rows]).unflatten(1, (3, self.heads, width))
                q[:, rows], v[:, rows] = (projected[:, i].transpose(0, 1) for i in (0, 2))
                k[:, :, rows] = projected[:, 1].permute(1, 2, 0)
            attend(q, k, v, packed.lengths, window // 2, attended)
            for start in range(0, len(x), ROWS):
                rows = slice(start, start + ROWS)
                x[rows] = layer(attended[rows], x[rows])
        return x[:tokens].float()


def stack_projections(attention: Any) -> tuple[Tensor, Tensor]:
    """Weights (3 * dim, dim) and biases of queries, divided by sqrt(head_dim), keys and values."""
    names = ("query", "key", "value")
    weights, biases = (
        [getattr(getattr(attention, name), what) for name in names] for what in ("weight", "bias")
    )
    scale = math.sqrt(len(weights[0]) // attention.heads)
    return (
        torch.cat([weights[0] / scale, *weights[1:]]),
        torch.cat([biases[0] / scale, *biases[1:]]),
    )


def normalise(x: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm in the dtype of x, with float32 weights."""
    return layer_norm(x, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Sequence[int], half: int, out: Tensor) -> None:
    """Attend as `lib.student.attention` does, with attention weights in the dtype of q, k and v.

    There, softmax reads and writes a float32 copy of the scores, which were rounded to bfloat16.
    Here it reads and writes bfloat16. It computes in float32 in both cases.

    Queries, divided by sqrt(head_dim), and values are (heads, tokens, head_dim), keys (heads,
    head_dim, tokens); tokens after the last document's are ignored. `half` is half of the window.
    The result is written to `out`, (tokens, heads * head_dim).
    """
    result = out.unflatten(1, (len(q), -1)).transpose(0, 1)
    full = torch.full((CPU_BLOCK, CPU_BLOCK), -math.inf, dtype=q.dtype)
    left, right = full.tril(-1), full.triu(1)  # keys of a block that are outside a row's window
    for start, stop, first, last, documents in _cut_blocks(lengths, half, CPU_BLOCK):
        rows, reach, count = slice(start, stop), slice(first, last), (stop - start) // documents
        keys = k[:, :, reach]
        if documents > 1:
            keys = keys.unflatten(2, (documents, -1)).permute(2, 0, 1, 3).flatten(0, 1)
        weights = torch.bmm(_split(q[:, rows], documents), keys)
        # Each triangle includes one column that all rows see, because adding 128 columns takes a
        # fifth of the time of adding 127.
        skipped = half - (start - first)
        if count > skipped:
            weights[:, :, : count - skipped] += left[:count, skipped:count]
        beyond = weights.shape[2] - (start - first + half)
        if beyond > 0:
            weights[:, :, -beyond:] += right[:count, :beyond]
        torch.softmax(weights, -1, out=weights)
        result[:, rows] = _join(torch.bmm(weights, _split(v[:, reach], documents)), documents)
