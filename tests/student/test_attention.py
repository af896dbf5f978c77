"""lib.student.attention against the formula written out, by hand, in gradients, shapes, errors and
invariances.
"""

import math

import pytest
import torch

from lib.student import attention
from lib.student.attention import sliding_window


def written_out(q, k, v, lengths, window):
    """The formula with a full mask: the reference for every test of values and gradients."""
    document = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    position = torch.arange(len(q))
    seen = (document[:, None] == document) & ((position[:, None] - position).abs() <= window // 2)
    scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("hij,jhd->ihd", scores.masked_fill(~seen, -math.inf).softmax(-1), v)


def random_qkv(tokens, heads=2, dim=4, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(3, tokens, heads, dim, generator=generator, dtype=dtype)
    return [x.clone().requires_grad_() for x in drawn]


def test_by_hand():
    # One head of one dimension, window 2: tokens see their neighbours. Keys are 0, so the weights
    # are equal and the output is the mean of the visible values: (1+2)/2, (1+2+6)/3, (2+6)/2; the
    # second document sees itself.
    q = torch.tensor([5.0, -1.0, 2.0, 3.0]).view(4, 1, 1)
    v = torch.tensor([1.0, 2.0, 6.0, 100.0]).view(4, 1, 1)
    out = sliding_window(q, torch.zeros(4, 1, 1), v, [3, 1], 2)
    torch.testing.assert_close(out.flatten(), torch.tensor([1.5, 3.0, 4.0, 100.0]))


@pytest.mark.parametrize("window", [2, 6, 32, 128, 254, 512])
@pytest.mark.parametrize(
    "lengths",
    [[1], [700], [1, 2, 127, 128, 129, 130, 1], [300, 5, 64, 257], [40] * 3 + [9, 9, 200, 200]],
)
def test_values_and_gradients_equal_the_formula(lengths, window):
    """In blocks, in chunks, as with dropout or in bfloat16, and by torch's kernel, as with AMX."""
    q, k, v = random_qkv(sum(lengths))
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(1), dtype=q.dtype)
    expected = written_out(q, k, v, lengths, window)
    outs = [sliding_window(q, k, v, lengths, window)]
    outs.append(attention._attend_in_chunks(q, k, v, lengths, window // 2))
    documents = zip(*(x.split(lengths) for x in (q, k, v)), strict=True)
    outs.append(torch.cat([attention._attend_fused(*each, window // 2) for each in documents]))
    theirs, *grads = (torch.autograd.grad(each, (q, k, v), grad) for each in (expected, *outs))
    for out, ours in zip(outs, grads, strict=True):
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_gradcheck(monkeypatch, dropout):
    monkeypatch.setattr(attention, "CPU_BLOCK", 4)  # several blocks in few tokens

    def attend(q, k, v):
        torch.manual_seed(3)  # the same weights are dropped at every call
        return sliding_window(q, k, v, [9, 1, 2, 2, 1], 4, dropout=dropout)

    assert torch.autograd.gradcheck(attend, random_qkv(15, heads=1, dim=3))


@pytest.mark.parametrize("window", [128, 256])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_shape_and_dtype_are_those_of_q_and_rounding_is_small(dtype, window):
    """Over documents of several blocks, in which the gradients of a key are sums of blocks."""
    lengths = [300, 40, 411]
    given = random_qkv(sum(lengths), heads=3, dim=32, dtype=dtype)
    exact = [x.detach().double().requires_grad_() for x in given]
    pull = torch.randn(sum(lengths), 3, 32, generator=torch.Generator().manual_seed(1)).double()
    out, expected = sliding_window(*given, lengths, window), written_out(*exact, lengths, window)
    assert out.shape == (751, 3, 32) and out.dtype == dtype
    near = 0.02 if dtype == torch.bfloat16 else 1e-5
    assert (out - expected).abs().max() < near
    out.backward(pull.to(dtype))
    expected.backward(pull)
    for a, b in zip(given, exact, strict=True):
        assert a.grad.dtype == dtype and (a.grad - b.grad).abs().max() < near * b.grad.abs().max()
        cosine = torch.nn.functional.cosine_similarity
        assert cosine(a.grad.double().flatten(), b.grad.flatten(), dim=0) > 0.9999


def test_with_amx_torchs_kernel_embeds_in_bfloat16(monkeypatch):
    monkeypatch.setattr(attention, "FUSES", True)
    monkeypatch.setattr(attention, "_attend_fused", lambda q, k, v, half: q)
    q, k, v = random_qkv(20, dtype=torch.bfloat16)
    with torch.no_grad():
        assert (sliding_window(q, k, v, [20], 4) == q).all()
    assert (sliding_window(q, k, v, [20], 4) != q).any()  # gradients take longer there


def test_dropout_drops_the_share_and_keeps_the_mean():
    # Equal scores and the identity as values: the output shows the weights, 1/101 before dropout.
    tokens = 101
    q = k = torch.zeros(tokens, 8, tokens)
    v = torch.eye(tokens)[:, None].expand(-1, 8, -1)
    torch.manual_seed(0)
    weights = sliding_window(q, k, v, [tokens], 2 * tokens, dropout=0.25) * tokens
    share = (weights == 0).double().mean().item()
    assert share == pytest.approx(0.25, abs=0.006)  # four standard deviations of 81,608 draws
    torch.testing.assert_close(weights[weights > 0].unique(), torch.tensor([4 / 3]))


def test_memory_of_the_weights_does_not_grow_with_the_document():
    q, k, v = random_qkv(4096, heads=1, dtype=torch.float32)
    blocks = list(attention._weights(q.detach(), k.detach(), (4096,), 64))
    assert max(weights.numel() for *_, weights in blocks) <= 128 * (128 + 2 * 64)
    assert sum(rows.stop - rows.start for rows, *_ in blocks) == 4096
    kept: list[int] = []
    hooks = (lambda x: kept.append(x.numel()) or x, lambda x: x)
    for dropout in (0.0, 0.3):  # for the backward pass q, k and v alone
        with torch.autograd.graph.saved_tensors_hooks(*hooks):
            sliding_window(q, k, v, [4096], 64, dropout=dropout)
    assert kept == [q.numel()] * 6


@pytest.mark.gpu
@pytest.mark.parametrize("window", [32, 128, 512])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
def test_cuda_equals_cpu(dtype, tolerance, window):
    lengths = [1, 700, 130, 64]
    q, k, v = (x.detach().to(dtype).requires_grad_() for x in random_qkv(sum(lengths), dim=32))
    grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = written_out(*(x.double() for x in (q, k, v)), lengths, window)
    expected_grads = torch.autograd.grad(expected, (q, k, v), grad.double())
    on_gpu = [x.detach().cuda().requires_grad_() for x in (q, k, v)]
    out = sliding_window(*on_gpu, lengths, window)
    torch.testing.assert_close(out.double().cpu(), expected, rtol=0, atol=tolerance)
    grads = torch.autograd.grad(out, on_gpu, grad.cuda())
    for ours, theirs in zip(grads, expected_grads, strict=True):
        near = {"rtol": tolerance, "atol": tolerance}
        torch.testing.assert_close(ours.double().cpu(), theirs.double(), **near)
