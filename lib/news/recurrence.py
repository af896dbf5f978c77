"""PyTorch's GRU, faster to train on a processor: the same weights, and up to rounding the same states and gradients.

PyTorch takes the directions in turn, and its gradient goes back through each operation of each token. Here both go
side by side, what no earlier state enters is computed for all tokens at once, and the gradient is written out.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def gru(
    cells: nn.GRU, vectors: Float[Tensor, "batch tokens width"], lengths: Int[Tensor, " batch"]
) -> Float[Tensor, "batch tokens states"]:
    """The states of `cells`, a GRU without dropout, on the CPU; behind a document's length they mean nothing."""
    (batch, steps, _), directions, hidden = (
        vectors.shape,
        1 + cells.bidirectional,
        cells.hidden_size,
    )
    ahead = torch.arange(steps)[:, None].expand(-1, batch)
    # Backwards from a document's last token: padding is behind it in both directions.
    order = torch.stack(
        [ahead, (lengths - 1 - ahead) % steps][:directions]
    )  # (directions, tokens, batch)
    read = torch.arange(batch) * steps + order
    places = (
        (order + 1) * directions + torch.arange(directions)[:, None, None]
    ) * batch + torch.arange(batch)
    for layer in zip(*[iter(cells.all_weights)] * directions, strict=True):
        inner, outer, inner_bias, outer_bias = (
            torch.stack(part) for part in zip(*layer, strict=True)
        )
        gates_bias, new_bias = outer_bias[:, None].split([2 * hidden, hidden], 2)
        bias = inner_bias[:, None] + nn.functional.pad(gates_bias, (0, hidden))
        rows = torch.embedding(vectors.flatten(0, 1), read).flatten(
            1, 2
        )  # picks rows; quicker back than indexing
        given = torch.baddbmm(bias, rows, inner.transpose(1, 2)).unflatten(1, (steps, batch))
        states: Any = _Recurrence.apply(given, outer, new_bias)
        vectors = torch.embedding(states.flatten(0, 2), places.permute(2, 1, 0)).flatten(2)
    return vectors


class _Recurrence(torch.autograd.Function):
    """r, z = sigmoid(given_rz + W_rz h); q = W_n h + b; n = tanh(given_n + r q); the next h = n + z (h - n)."""

    @staticmethod
    def forward(ctx: Any, given: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
        """given: (directions, tokens, batch, 3 hidden). Returns (tokens + 1, directions, batch, hidden): h."""
        hidden, shape = weights.shape[2], given.transpose(0, 1).shape[:3]
        states = given.new_zeros(len(given[0]) + 1, *shape[1:], hidden)
        gates, new, q = (given.new_empty(*shape, width) for width in (2 * hidden, hidden, hidden))
        w_rz, w_n = (
            part.transpose(1, 2).contiguous() for part in weights.split([2 * hidden, hidden], 1)
        )
        bias = bias.expand(states.shape[1:]).contiguous()
        given_rz, given_n = given.transpose(0, 1).split([2 * hidden, hidden], 3)
        over = (given_rz, given_n, gates, *gates.chunk(2, -1), q, new, states[:-1], states[1:])
        for x_rz, x_n, gate, r, z, q_t, n, state, following in zip(*over, strict=True):
            torch.baddbmm(x_rz, state, w_rz, out=gate).sigmoid_()
            torch.baddbmm(bias, state, w_n, out=q_t)
            torch.addcmul(x_n, r, q_t, out=n).tanh_()
            torch.lerp(n, state, z, out=following)
        ctx.save_for_backward(states, gates, new, q, weights)
        return states

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        states, gates, new, q, weights = ctx.saved_tensors
        (r, z), before, grad = gates.chunk(2, -1), states[:-1], grad.clone()
        slope_r, slope_z = torch.addcmul(gates, gates, gates, value=-1).chunk(2, -1)
        slope_n = (1 - z) * torch.addcmul(torch.ones_like(new), new, new, value=-1)
        inner = new.new_empty(
            *new.shape[:3], 3, new.shape[3]
        )  # gradients of W h, divided by that of the next h
        torch.mul(slope_r, slope_n * q, out=inner[..., 0, :])
        torch.mul(slope_z, before - new, out=inner[..., 1, :])
        torch.mul(slope_n, r, out=inner[..., 2, :])
        flat = inner.flatten(3)
        for t in reversed(range(len(new))):
            inner[t].mul_(grad[t + 1, :, :, None])
            grad[t].addcmul_(grad[t + 1], z[t]).baddbmm_(flat[t], weights)
        rows = flat.transpose(0, 1).flatten(1, 2)  # (directions, tokens * batch, 3 hidden)
        by_weights = rows.transpose(1, 2) @ before.transpose(0, 1).flatten(1, 2)
        by_bias = rows[..., -new.shape[3] :].sum(1, keepdim=True)
        by_given = rows.unflatten(1, (len(new), -1))
        by_given[..., -new.shape[3] :] = (grad[1:] * slope_n).transpose(0, 1)
        return by_given, by_weights, by_bias
