"""Weighting of the structural and the contextual loss (thesis Section 4.5.3, Listing 4.1)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from lib.losses import _checks


def structural_mask(
    lengths: Int[Tensor, " batch"] | Sequence[int], max_structural_len: int | None
) -> Bool[Tensor, " batch"]:
    """True for the rows whose input the structural teacher encodes whole: `lengths <= max_structural_len`.

    lengths: (batch,), tokens of each input by the structural teacher's tokenizer, without special tokens and before
    truncation; the limit counts the same, None masks nothing. Returns (batch,) bool, the structural losses' `mask`.
    Raises `ValueError` for lengths that are no integers and a limit below 1. Source: Listing 4.1 and the author's code.
    The limit is inclusive; the text also says 385 and 386 in places.
    """
    lengths = torch.as_tensor(lengths)
    empty = lengths.numel() == 0  # an empty list arrives as float
    if lengths.ndim != 1 or not empty and (lengths.is_floating_point() or lengths.dtype is torch.bool):
        raise ValueError(f"lengths must be integers of shape (batch,), got {lengths.dtype} {tuple(lengths.shape)}")
    if max_structural_len is None:
        return torch.ones_like(lengths, dtype=torch.bool)
    if isinstance(max_structural_len, bool) or not isinstance(max_structural_len, int) or max_structural_len < 1:
        raise ValueError(f"max_structural_len must be an integer >= 1 or None, got {max_structural_len!r}")
    return lengths <= max_structural_len


def weighted(
    structural: Float[Tensor, " batch"],
    contextual: Float[Tensor, " batch"],
    lengths: Int[Tensor, " batch"] | Sequence[int],
    *,
    lam: float | None,
    max_structural_len: int | None,
) -> Float[Tensor, " batch"]:
    """Joins the two losses row by row (Listing 4.1, before its mean over the batch).

        unmasked rows:  lam * S + (1 - lam) * C
        masked rows:    C                              the listing's lam is 0 there

    lam: in [0, 1]; None is the thesis' `no-weighting`, S + C on unmasked rows and still C alone on masked ones, a
    combination with a limit that the thesis never has. structural, contextual: S and C, (batch,); S comes from masked
    inputs: pass `structural_mask(lengths, max_structural_len)` as its `mask`, or masked rows still serve as negatives.
    Returns (batch,); the training loop takes the mean over the whole batch, masked rows included. Raises `ValueError`
    for shapes that differ, a wrong dtype, and lam or a limit out of range. Source: thesis Listing 4.1 and Table 4.9.
    """
    for name, loss in (("structural", structural), ("contextual", contextual)):
        if not isinstance(loss, Tensor) or loss.ndim != 1 or not loss.is_floating_point():
            came = f"{loss.dtype} {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f"{name} must be a floating point loss of shape (batch,), got {came}")
    mask = structural_mask(lengths, max_structural_len).to(structural.device)
    if not structural.shape == contextual.shape == mask.shape:
        shapes = f"{tuple(structural.shape)}, {tuple(contextual.shape)} and {tuple(mask.shape)}"
        raise ValueError(f"structural, contextual and lengths must have the same shape (batch,), got {shapes}")
    if lam is None:
        return torch.where(mask, structural + contextual, contextual)
    _checks.non_negative(lam, "lam")
    if lam > 1:
        raise ValueError(f"lam must be from 0 to 1, or None for no weighting, got {lam!r}")
    return torch.where(mask, lam * structural + (1 - lam) * contextual, contextual)
