"""Sliding-window attention over documents packed without padding, in O(tokens x window).

This is Longformer's local attention (Beltagy, Peters and Cohan 2020, section 3), with the same
results as in `transformers.LongformerModel`.
"""

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

# Rows of queries per block. On a CPU, a block's weights have to fit in the cache. CUDA is faster
# with fewer, larger products (docs/log/README.md).
CPU_BLOCK, CUDA_BLOCK = 128, 512
HALF_PRECISION = (torch.float16, torch.bfloat16)
# With AMX, torch's fused attention takes half to three quarters of the time of two products and a
# softmax in bfloat16, but its gradients take several times as long (docs/log/README.md).
FUSES = torch.cpu.get_capabilities().get("amx_bf16", False)
LEAST_FUSED = 64  # rows of queries per block

Heads = Float[Tensor, "tokens heads head_dim"]


def sliding_window(
    q: Heads, k: Heads, v: Heads, lengths: Sequence[int], window: int, *, dropout: float = 0.0
) -> Heads:
    """Attend from every token to the tokens of its document at most window / 2 positions away.

        out_i = sum_j softmax_j(q_i . k_j / sqrt(head_dim)) v_j
        over the j in the document of i with |i - j| <= window / 2

    q, k and v hold the documents one after another, `lengths` their numbers of tokens. `window` is
    Hugging Face's `attention_window`, the even two-sided total: 512 means 256 on each side.
    `dropout` is the probability with which a weight is dropped. The result has the dtype of q.
    There are no second derivatives. `ValueError` if shapes or dtypes differ, or the lengths do not
    sum to the number of tokens.
    """
    if q.dim() != 3 or not q.shape == k.shape == v.shape or not q.dtype == k.dtype == v.dtype:
        raise ValueError("q, k and v must have one shape (tokens, heads, head_dim) and one dtype")
    if sum(lengths) != len(q) or min(lengths, default=1) < 1:
        raise ValueError(f"lengths must be positive and sum to {len(q)} tokens, got {lengths}")
    half, dtype = window // 2, q.dtype
    if q.is_cuda and dtype in HALF_PRECISION and dropout == 0:
        from torch.nn.attention.varlen import varlen_attn

        edges, longest = _edges(tuple(lengths), q.device), max(lengths)
        out = varlen_attn(q, k, v, edges, edges, longest, longest, window_size=(half, half))
        return out if isinstance(out, Tensor) else out[0]
    if dtype == torch.float16 or (q.is_cuda and dtype == torch.bfloat16):  # and with dropout
        q, k, v = q.float(), k.float(), v.float()
    documents = [*zip(*(x.split([*lengths]) for x in (q, k, v)), strict=True)]
    fuses = FUSES and not (q.is_cuda or dropout or torch.is_grad_enabled())
    with torch.autocast(q.device.type, enabled=False):
        if fuses and dtype == torch.bfloat16:
            return torch.cat([_attend_fused(a, b, c, half) for a, b, c in documents])
        if dropout:  # weights anew in the backward pass, for memory
            attend = partial(checkpoint, _attend_in_chunks, use_reentrant=False)
            return torch.cat([attend(*x, [len(x[0])], half, dropout) for x in documents]).to(dtype)
        if dtype == torch.bfloat16 and 2 <= window <= CPU_BLOCK:  # for which blocks are too small
            return _attend_in_chunks(q, k, v, lengths, half)
        return _Blocks.apply(q, k, v, tuple(lengths), half).to(dtype)


def _attend_fused(q, k, v, half):
    """Attend to one document by torch's kernel, in overlapping blocks if that is less work."""
    length, block = len(q), max(half, LEAST_FUSED)
    count = math.ceil(length / block) if length > block + 2 * half else 1
    size, beside = math.ceil(length / count), half if count > 1 else 0
    mask = None if length <= half + 1 else _make_mask((length,), size, beside, half, q.dtype)
    cut = _cut(q, size, 0), _cut(k, size, beside), _cut(v, size, beside)
    out = scaled_dot_product_attention(*cut, attn_mask=mask)
    return out.transpose(1, 2).flatten(0, 1)[:length]


def _attend_in_chunks(q, k, v, lengths, half, dropout=0.0):
    """Attend in two products over chunks of `half` tokens, each with the chunks beside it."""
    half, count = min(half, max(lengths)), len(q)  # a wider window reaches as far
    mask = _make_mask(tuple(lengths), half, half, half, q.dtype).to(q.device)

    def cut(x: Tensor) -> Tensor:  # (chunks, heads, half, dim); the gradients of `_cut` are slow
        return pad(x, (0, 0, 0, 0, 0, -count % half)).unflatten(0, (-1, half)).transpose(1, 2)

    def reach(x: Tensor) -> Tensor:  # (chunks, heads, 3 half, dim)
        around = pad(cut(x), (0, 0, 0, 0, 0, 0, 1, 1))
        return torch.cat([around[:-2], around[1:-1], around[2:]], 2)

    scores = cut(q * q.shape[-1] ** -0.5) @ reach(k).mT
    weights = nn.functional.dropout(scores.add_(mask).softmax(-1), dropout)
    return (weights @ reach(v)).transpose(1, 2).flatten(0, 1)[:count]


def _cut(x: Tensor, size: int, beside: int) -> Tensor:
    """Cut rows into blocks of `size`, each with `beside` more rows at either end, filled with 0:
    (blocks, heads, size + 2 beside, dim).
    """
    around = pad(x, (0, 0, 0, 0, beside, beside + -len(x) % size))
    return around.unfold(0, size + 2 * beside, size).mT


@lru_cache(maxsize=32)
@torch.inference_mode(False)  # as for `_edges`
def _make_mask(lengths, size, beside, half, dtype):
    """0 where a row of a block sees a key, else -inf: (blocks, 1, size, size + 2 beside)."""
    documents = torch.arange(1, len(lengths) + 1).repeat_interleave(torch.tensor(lengths))
    keys = _cut(documents[:, None, None], size, beside).mT
    rows, places = keys[..., beside : beside + size].mT, torch.arange(-beside, size + beside)
    hidden = (rows != keys) | ((places[beside : beside + size, None] - places).abs() > half)
    return torch.zeros(hidden.shape, dtype=dtype).masked_fill(hidden, -math.inf)


@lru_cache(maxsize=4)
@torch.inference_mode(False)  # because a backward pass may need a tensor that encoding cached
def _edges(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """Start of every document and end of the last, (documents + 1,); shared by all layers."""
    return torch.tensor([0, *lengths], dtype=torch.int32).cumsum(0, dtype=torch.int32).to(device)


class _Blocks(torch.autograd.Function):
    """Block-wise attention; the backward pass computes the weights again from q, k and v."""

    @staticmethod
    def forward(ctx, q, k, v, lengths, half):
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        values, result = _by_head(v), out.transpose(0, 1)
        for rows, reach, weights in _weights(q, k, lengths, half):
            result[:, rows] = torch.bmm(weights, values[:, reach])
        ctx.save_for_backward(q, k, v)
        ctx.settings = lengths, half
        return out

    @staticmethod
    def backward(ctx, grad):
        """For weights P, the gradients of the scores are P (dP - sum_j P dP)."""
        q, k, v = ctx.saved_tensors
        scale, wide = q.shape[-1] ** -0.5, torch.promote_types(q.dtype, torch.float32)
        grad_q = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        grad_k, grad_v = (torch.zeros(q.shape, dtype=wide, device=q.device) for _ in range(2))
        to_q, to_k, to_v = (x.transpose(0, 1) for x in (grad_q, grad_k, grad_v))
        with torch.autocast(q.device.type, enabled=False):
            queries, keys, values, grads = (_by_head(x) for x in (q, k, v, grad))
            for rows, reach, weights in _weights(q, k, *ctx.settings):
                d_weights = torch.bmm(grads[:, rows], values[:, reach].mT)
                to_v[:, reach] += torch.bmm(weights.mT, grads[:, rows])
                # The derivative of softmax in one pass. Autograd would keep every block in memory.
                scores = torch._softmax_backward_data(d_weights, weights, -1, weights.dtype)
                to_q[:, rows] = torch.bmm(scores, keys[:, reach])
                to_k[:, reach] += torch.bmm(scores.mT, queries[:, rows])
            grads = grad_q.mul_(scale), grad_k.mul_(scale), grad_v
        return *(x.to(q.dtype) for x in grads), None, None


def _by_head(x: Tensor) -> Tensor:
    """(heads, tokens, head_dim); in half precision a copy, whose products are twice as fast."""
    return x.transpose(0, 1).contiguous() if x.dtype in HALF_PRECISION else x.transpose(0, 1)


def _weights(q, k, lengths, half):
    """Yield (rows, reach, weights) of equally long blocks: (heads, rows, keys in reach)."""
    size = CUDA_BLOCK if q.is_cuda else CPU_BLOCK
    full = q.new_full((size, size + 2 * half), -math.inf)  # keys from `half` before row 0
    mask = full.tril(-1) + full.triu(2 * half + 1)
    queries, keys = _by_head(q * q.shape[-1] ** -0.5), _by_head(k)
    for length, end in zip(lengths, accumulate(lengths), strict=True):
        begin, count = end - length, math.ceil(length / size)
        borders = [begin + part * length // count for part in range(count + 1)]
        for start, stop in pairwise(borders):
            first, last = max(begin, start - half), min(end, stop + half)
            rows, reach = slice(start, stop), slice(first, last)
            skipped = half - (start - first)  # keys that the document's start takes away
            seen = mask[: stop - start, skipped : skipped + last - first]
            weights = torch.baddbmm(seen, queries[:, rows], keys[:, reach].transpose(1, 2))
            torch.softmax(weights, -1, out=weights)
            yield rows, reach, weights
