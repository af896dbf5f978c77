"""Weighting of the structural and the contextual loss (thesis Section 4.5.3, Listing 4.1)."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def structural_mask(
    lengths: Int[Tensor, " batch"] | Sequence[int], max_structural_len: int | None
) -> Bool[Tensor, " batch"]:
    """True for the rows whose input the structural teacher encodes whole; a limit of None masks nothing.

    lengths: tokens of each input by the structural teacher's tokenizer, without special tokens and before truncation.
    Source: Listing 4.1 and the author's code. The limit is inclusive; the text also says 385 and 386 in places.
    """
    lengths = torch.as_tensor(lengths)
    if max_structural_len is None:
        return torch.ones_like(lengths, dtype=torch.bool)
    return lengths <= max_structural_len


def weighted(
    structural: Float[Tensor, " batch"],
    contextual: Float[Tensor, " batch"],
    lengths: Int[Tensor, " batch"] | Sequence[int],
    *,
    lam: float | None,
    max_structural_len: int | None,
) -> Float[Tensor, " batch"]:
    """Joins the two losses row by row (Listing 4.1, before its mean over the whole batch, masked rows included).

        unmasked rows:  lam * S + (1 - lam) * C
        masked rows:    C                              the listing's lam is 0 there

    lam: in [0, 1]; None is the thesis' `no-weighting`, S + C on unmasked rows. S comes from masked inputs: pass
    `structural_mask(lengths, max_structural_len)` as its `mask`, or masked rows still serve as negatives.
    Source: thesis Listing 4.1 and Table 4.9.
    """
    mask = structural_mask(lengths, max_structural_len).to(structural.device)
    if not structural.shape == contextual.shape == mask.shape:
        shapes = f"{tuple(structural.shape)}, {tuple(contextual.shape)} and {tuple(mask.shape)}"
        raise ValueError(
            f"structural, contextual and lengths must have the same shape (batch,), got {shapes}"
        )
    if lam is None:
        return torch.where(mask, structural + contextual, contextual)
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must be from 0 to 1, or None for no weighting, got {lam}")
    return torch.where(mask, lam * structural + (1 - lam) * contextual, contextual)
