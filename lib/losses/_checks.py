"""Shape and dtype checks that the losses share. Every error shows what came, and both shapes where two must agree."""

import math

import torch
from jaxtyping import Bool
from torch import Tensor


def embeddings(value: object, name: str) -> None:
    """Raises ValueError unless `value` is a floating point tensor of shape (batch, dim), dim >= 1."""
    if not isinstance(value, Tensor):
        raise ValueError(f"{name} must be a tensor of shape (batch, dim), got {type(value).__name__}")
    if value.ndim != 2 or value.shape[1] == 0:
        raise ValueError(f"{name} must have shape (batch, dim) with dim >= 1, got {tuple(value.shape)}")
    if not value.is_floating_point():
        raise ValueError(f"{name} must be floating point, got {value.dtype}; convert it with .float()")


def pair(first: Tensor, second: Tensor, names: tuple[str, str] = ("student", "teacher")) -> None:
    """Raises ValueError unless both are embeddings of one shape; PyTorch would broadcast (batch, dim) and (1, dim)."""
    for value, name in zip((first, second), names, strict=True):
        embeddings(value, name)
    if first.shape != second.shape:
        shapes = f"{tuple(first.shape)} and {tuple(second.shape)}"
        raise ValueError(f"{names[0]} and {names[1]} must have the same shape (batch, dim), got {shapes}")


def row_mask(mask: object, student: Tensor) -> Bool[Tensor, " batch"]:
    """The mask as given, or all True for None. Raises ValueError unless it is bool of shape (batch,)."""
    if mask is None:
        return torch.ones(student.shape[0], dtype=torch.bool, device=student.device)
    if not isinstance(mask, Tensor) or mask.shape != student.shape[:1] or mask.dtype is not torch.bool:
        came = f"{mask.dtype} {tuple(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"mask must be bool of shape (batch,) for student {tuple(student.shape)}, got {came}")
    return mask


def non_negative(value: object, name: str) -> None:
    """Raises ValueError unless `value` is a finite number >= 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
