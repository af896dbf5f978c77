"""What the losses check: shapes that PyTorch would silently broadcast."""

import torch
from jaxtyping import Bool
from torch import Tensor


def pair(student: Tensor, teacher: Tensor) -> None:
    """Raises ValueError unless both have one shape (batch, dim)."""
    if student.ndim != 2 or student.shape != teacher.shape:
        shapes = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"student and teacher must have the same shape (batch, dim), got {shapes}")


def row_mask(mask: Tensor | None, student: Tensor) -> Bool[Tensor, " batch"]:
    """The mask as given, or all True for None. Raises ValueError unless it is bool of shape (batch,)."""
    if mask is None:
        return torch.ones(len(student), dtype=torch.bool, device=student.device)
    if mask.dtype is not torch.bool or mask.shape != student.shape[:1]:
        came = f"{mask.dtype} {tuple(mask.shape)}"
        raise ValueError(
            f"mask must be bool of shape (batch,) for student {tuple(student.shape)}, got {came}"
        )
    return mask
