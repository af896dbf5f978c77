"""Linear layers by oneDNN on an x86 CPU: PyTorch leaves them to MKL, which may use half of one with AVX-512.

With AVX2 alone both multiply equally fast, and MKL's gradients of weights are half as fast again. `python
tests/benchmarks/bench_linear.py` measures both side by side, and has three processors. But oneDNN gives the same bits
with AVX2 as with AVX-512, if no sum is over more than BLOCK rows.
"""

import torch
from torch import Tensor, nn

HERE = torch.backends.mkldnn.is_available() and torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
ROWS = 64  # rows are filled up to a multiple: a kernel kept for every number of tokens would triple a process' memory
BLOCK = 512  # oneDNN cuts sums of 513 to 1024 terms in other places with AVX2 than with AVX-512


class Linear(nn.Linear):
    """`torch.nn.Linear` of (tokens, features); by oneDNN in float32 on an x86 CPU, outside of autocast.

    There are no second derivatives.
    """

    def forward(self, input: Tensor) -> Tensor:
        possible = input.device.type == "cpu" and input.dtype == self.weight.dtype == torch.float32 and input.dim() == 2
        if HERE and possible and not torch.is_autocast_enabled("cpu"):
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
        to_weight = _summed(filled, x) if ctx.needs_input_grad[1] else None
        return to_x, to_weight, grad.sum(0) if ctx.needs_input_grad[2] else None


def _filled(x: Tensor) -> Tensor:
    """With rows of zeros up to a multiple of ROWS."""
    return nn.functional.pad(x, (0, 0, 0, -len(x) % ROWS))


def _summed(grad: Tensor, x: Tensor) -> Tensor:
    """g^T x, BLOCK rows after BLOCK rows."""
    first, *more = (_product(g.t(), rows.t()) for g, rows in zip(grad.split(BLOCK), x.split(BLOCK), strict=True))
    for part in more:
        first += part
    return first


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b: what `torch.compile` emits for a linear layer on a CPU, without compiling."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
