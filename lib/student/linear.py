"""Linear layers whose rows have the same bits in any batch, computed by the faster CPU library.

On AVX-512 of AMD, oneDNN is up to 1.9 times as fast as MKL, which uses half the capacity. With AVX2
alone, MKL takes .72 to .79 of oneDNN's time (`tests/benchmarks/bench_linear.py`).
"""

import torch
from torch import Tensor, nn

_VECTORS = torch.backends.cpu.get_cpu_capability()
ONEDNN = torch.backends.mkldnn.is_available() and _VECTORS == "AVX512"
# The number of rows is padded to a multiple of this. For a few rows, MKL sums in another order.
# oneDNN keeps a kernel for every number of rows, which would triple the memory of a process.
ROWS = 64


class Linear(nn.Linear):
    """`torch.nn.Linear` for (tokens, features). On a CPU it has no second derivatives."""

    def forward(self, input: Tensor) -> Tensor:
        possible = (
            input.device.type == "cpu"
            and input.dtype == self.weight.dtype == torch.float32
            and input.dim() == 2
        )
        if possible and len(input) and not torch.is_autocast_enabled("cpu"):
            return _FilledLinear.apply(input, self.weight, self.bias)
        return super().forward(input)


class _FilledLinear(torch.autograd.Function):
    """x W^T + b. For a gradient g, those of x, W and b are g W, g^T x and the column sums of g."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.rows = len(x)
        x = _fill_rows(x)
        ctx.save_for_backward(x, weight)
        return _product(x, weight, bias)[: ctx.rows]

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        filled = _fill_rows(grad)
        to_x = _product(filled, weight.t())[: ctx.rows] if ctx.needs_input_grad[0] else None
        to_weight = _product(filled.t(), x.t()) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _fill_rows(x: Tensor) -> Tensor:
    """Append rows of zeros up to a multiple of ROWS."""
    return nn.functional.pad(x, (0, 0, 0, -len(x) % ROWS))


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b; for oneDNN, the call that `torch.compile` emits for a linear layer on a CPU."""
    if not ONEDNN:
        return nn.functional.linear(x, weight, bias)
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
