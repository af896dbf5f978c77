"""Weighting of the structural and the contextual loss (thesis Section 4.5.3, Listing 4.1)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def structural_mask(
    lengths: Int[Tensor, " batch"] | Sequence[int], max_structural_len: float
) -> Bool[Tensor, " batch"]:
    """False for rows whose input the structural teacher does not encode whole (thesis Listing 4.1).

    `lengths` are numbers of the structural teacher's tokens, without special ones and before
    truncation. `max_structural_len` is the largest that is not masked; if it is the teacher's limit
    with its special tokens, as published, the longest unmasked rows lose up to two tokens.

    >>> structural_mask([10, 384, 385], 384)
    tensor([ True,  True, False])
    """
    return torch.as_tensor(lengths) <= max_structural_len


def weighted(
    structural: Float[Tensor, " batch"],
    contextual: Float[Tensor, " batch"],
    mask: Bool[Tensor, " batch"],
    *,
    lam: float | None,
) -> Float[Tensor, " batch"]:
    """Combine the two losses row by row (thesis Listing 4.1 and Table 4.9).

        unmasked rows:          lam * S + (1 - lam) * C    with `lam` None ("no-weighting"): S + C
        masked rows (False):    C                          the listing's lam is 0 there

    `mask` is that of `structural_mask`. Pass it to the structural loss too: otherwise masked rows
    still serve as negatives. The listing averages over the whole batch, masked rows included.
    `ValueError` if the shapes differ or `lam` is not from 0 to 1.

    >>> s, c = torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0])
    >>> weighted(s, c, torch.tensor([True, False]), lam=0.8)
    tensor([ 2.8000, 20.0000])
    """
    if not structural.shape == contextual.shape == mask.shape:
        shapes = f"{tuple(structural.shape)}, {tuple(contextual.shape)} and {tuple(mask.shape)}"
        raise ValueError(f"losses and mask must have the same shape (batch,), got {shapes}")
    if lam is None:
        return torch.where(mask, structural + contextual, contextual)
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must be from 0 to 1, or None for no weighting, got {lam}")
    return torch.where(mask, lam * structural + (1 - lam) * contextual, contextual)
