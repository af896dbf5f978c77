"""Linear layers by oneDNN on a CPU with AVX2 or AVX-512, with the bits that both share: PyTorch leaves them to MKL.

MKL uses half of an AMD processor with AVX-512; with AVX2 alone it trains faster (`tests/benchmarks/bench_linear.py`).
The oneDNN of torch 2.13 gives the same bits with both if no sum has 513 to 1,024 terms (`tests/student/
test_processors.py`).
"""

import torch
from torch import Tensor, nn

ONEDNN = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() in (
    "AVX2",
    "AVX512",
)
ROWS = 64  # rows are filled up to a multiple: a kernel kept for every number of tokens would triple a process' memory
TERMS = 512  # sums of up to twice as many are cut here: with AVX-512 oneDNN does not cut them, with AVX2 it does


class Linear(nn.Linear):
    """`torch.nn.Linear` of (tokens, features); by oneDNN in float32 on a CPU with AVX2, outside of autocast.

    There are no second derivatives.
    """

    def forward(self, input: Tensor) -> Tensor:
        possible = (
            input.device.type == "cpu"
            and input.dtype == self.weight.dtype == torch.float32
            and input.dim() == 2
        )
        if ONEDNN and possible and len(input) and not torch.is_autocast_enabled("cpu"):
            return _OneDNN.apply(input, self.weight, self.bias)
        return super().forward(input)


class _OneDNN(torch.autograd.Function):
    """x W^T + b; its gradients are two more products, g W and g^T x, and the sum of g."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.rows, x = len(x), _filled(x)
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)[: ctx.rows]

    @staticmethod
    def backward(ctx, grad):
        (x, weight), filled = ctx.saved_tensors, _filled(grad)
        to_x = _product(filled, weight.t())[: ctx.rows] if ctx.needs_input_grad[0] else None
        to_weight = _product(filled.t(), x.t()) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _filled(x: Tensor) -> Tensor:
    """With rows of zeros up to a multiple of ROWS."""
    return nn.functional.pad(x, (0, 0, 0, -len(x) % ROWS))


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b: what `torch.compile` emits for a linear layer on a CPU, without compiling."""
    if TERMS < x.shape[1] <= 2 * TERMS:
        (x, more), (weight, more_weight) = _cut(x), _cut(weight)
        return _product(x, weight, bias).add_(_product(more, more_weight))
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")


def _cut(x: Tensor) -> list[Tensor]:
    """Its first TERMS columns and the others, both without gaps, with which oneDNN is a thousand times slower."""
    return [part if part.t().is_contiguous() else part.contiguous() for part in x.split(TERMS, 1)]
