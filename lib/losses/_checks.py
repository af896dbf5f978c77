"""Checks that the losses share: shapes that PyTorch would silently broadcast."""

import torch
from jaxtyping import Bool
from torch import Tensor


def pair(student: Tensor, teacher: Tensor) -> None:
    """Raise ValueError unless both have the same shape (batch, dim)."""
    if student.ndim != 2 or student.shape != teacher.shape:
        shapes = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"student and teacher must have the same shape (batch, dim), got {shapes}")


def row_mask(mask: Tensor | None, student: Tensor) -> Bool[Tensor, " batch"]:
    """Return the mask, all True for None; raise ValueError unless it is bool of shape (batch,)."""
    if mask is None:
        return torch.ones(len(student), dtype=torch.bool, device=student.device)
    if mask.dtype is not torch.bool or mask.shape != student.shape[:1]:
        got = f"{mask.dtype} {tuple(mask.shape)}"
        raise ValueError(f"mask must be bool of shape ({len(student)},), got {got}")
    return mask
