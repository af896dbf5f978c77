"""What a student minimises: a structural loss, a contextual loss of projections, or both."""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from lib import losses
from lib.distillation import projection, variants


class Objective(nn.Module):
    """The loss of one variant: (batch,) values from student and teacher embeddings.

        loss = lam * S + (1 - lam) * C on unmasked rows, C on masked ones; S + C without `lam`

    S is the structural loss of Section 4.4, C SoftCCA of the projected embeddings (Equation 4.16),
    or a loss of the drafts. `width` scales the widths in the labels of projections. Masked variants
    mask documents of more than `max_structural_len` tokens. PyTorch's global generator initialises
    the projections, which train with the student.
    """

    def __init__(
        self,
        variant: variants.Variant,
        dim: int,
        contextual_dim: int | None = None,
        *,
        width: float = 1.0,
        max_structural_len: float = math.inf,
    ):
        super().__init__()
        self.lam = variant.lam
        self.max_structural_len = max_structural_len if variant.masked else math.inf
        self.structural_loss: Callable[..., Tensor] | None = None
        self.contextual_loss: Callable[[Tensor, Tensor], Tensor] | None = None
        if variant.structural is not None:
            names, arguments = variants.structural_loss(variant.structural)
            loss, *distances = (getattr(losses, name) for name in names)
            self.takes_mask = "mask" in inspect.signature(loss).parameters
            if distances:
                loss = partial(loss, distance=distances[0])
            self.structural_loss = partial(loss, **arguments)
        if variant.contextual is not None:
            assert contextual_dim is not None
            labels = variant.student_projection, variant.contextual_projection
            ours, theirs = (projection.scale(str(label), width) for label in labels)
            self.student_projection = projection.build(ours, dim)
            self.contextual_projection = projection.build(theirs, contextual_dim)
            loss = getattr(losses, variants.CONTEXTUAL_LOSSES[variant.contextual_loss])
            if variant.contextual_loss == "soft_cca":
                loss = loss(self.student_projection(torch.zeros(1, dim)).shape[1])
            self.contextual_loss = loss

    def forward(
        self, student: Tensor, structural: Any, contextual: Any, lengths: Any, projected: Any = None
    ) -> Tensor:
        """The loss of each document, (batch,), from (batch, dim) embeddings or None.

        Structural rows are (batch, 1 + n, dim) if each is followed by n negatives. `projected` is a
        copy of `student` that C takes in its place, so that their gradients can be distinguished.
        """
        s: Any = None
        c: Any = None
        mask: Any = None
        if self.structural_loss is not None and structural is not None:
            if self.contextual_loss is not None:
                mask = losses.structural_mask(lengths, self.max_structural_len)
            # Where rows are independent, `weighted` leaves the masked ones out.
            options = {"mask": mask} if self.takes_mask else {}
            if structural.ndim == 3:
                structural, options["negatives"] = structural[:, 0], structural[:, 1:]
            s = self.structural_loss(student, structural, **options)
        if self.contextual_loss is not None:
            z = self.student_projection(student if projected is None else projected)
            c = self.contextual_loss(z, self.contextual_projection(contextual))
        if s is None or c is None:
            return c if s is None else s
        return losses.weighted(s, c, mask, lam=self.lam)
