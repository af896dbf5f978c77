"""What a student minimises: a structural loss, a contextual loss of projections, or both."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from lib import losses
from lib.distillation import projection, variants
from lib.distillation.variants import CONTEXTUAL_LOSSES, Variant

Rows = Tensor | None  # (rows, dim)


class Objective(nn.Module):
    """The loss of one variant: (batch,) values from student and teacher embeddings.

        loss = lam * S + (1 - lam) * C on unmasked rows, C on masked ones; S + C without `lam`

    S is the structural loss of Section 4.4, C SoftCCA of the projected embeddings (Equation 4.16),
    or a loss of the drafts. `width` scales the widths in the labels of projections, `soft_cca` are
    arguments of `losses.SoftCCA`. Masked variants mask documents of more than `max_structural_len`
    tokens. PyTorch's global generator initialises the projections, which train with the student.
    """

    student_projection: nn.Module
    contextual_projection: nn.Module

    def __init__(
        self,
        variant: Variant,
        dim: int,
        contextual_dim: int | None = None,
        *,
        width: float = 1.0,
        max_structural_len: int | None = None,
        **soft_cca: Any,
    ):
        super().__init__()
        self.lam = variant.lam
        self.max_structural_len = max_structural_len if variant.masked else None
        self.structural_loss: Callable[..., Tensor] | None = None
        self.contextual_loss: Callable[[Tensor, Tensor], Tensor] | None = None
        if variant.structural is not None:
            self.structural_loss = structural_loss(variant.structural)
        if variant.contextual is not None:
            assert contextual_dim is not None
            student_label = projection.scale(variant.student_projection or "-", width)
            contextual_label = projection.scale(variant.contextual_projection or "-", width)
            self.student_projection = projection.build(student_label, dim)
            self.contextual_projection = projection.build(contextual_label, contextual_dim)
            loss = getattr(losses, CONTEXTUAL_LOSSES[variant.contextual_loss])
            if variant.contextual_loss == "soft_cca":
                loss = loss(projection.out_features(student_label, dim), **soft_cca)
            self.contextual_loss = loss

    def forward(
        self, student: Tensor, structural: Rows, contextual: Rows, lengths: Tensor
    ) -> Tensor:
        """The loss of each document, (batch,), from (batch, dim) embeddings or None.

        Structural rows are (batch, 1 + n, dim) if each is followed by n negatives.
        """
        return self.combined(*self.terms(student, structural, contextual, lengths), lengths)

    def terms(
        self, student: Tensor, structural: Rows, contextual: Rows, lengths: Tensor
    ) -> tuple[Rows, Rows]:
        """S and C, (batch,) each; None for a teacher that the student does not have."""
        s = c = None
        if self.structural_loss is not None and structural is not None:
            options = {}
            if self.max_structural_len is not None:
                options["mask"] = losses.structural_mask(lengths, self.max_structural_len)
            if structural.ndim == 3:
                structural, options["negatives"] = structural[:, 0], structural[:, 1:]
            s = self.structural_loss(student, structural, **options)
        if self.contextual_loss is not None:
            c = self.contextual_loss(
                self.student_projection(student), self.contextual_projection(contextual)
            )
        return s, c

    def combined(self, structural: Rows, contextual: Rows, lengths: Tensor) -> Tensor:
        """Combine S and C of `terms` into the loss, (batch,)."""
        if structural is None:
            assert contextual is not None
            return contextual
        if contextual is None:
            return structural
        limit = self.max_structural_len
        return losses.weighted(
            structural, contextual, lengths, lam=self.lam, max_structural_len=limit
        )


def structural_loss(label: str) -> Callable[..., Tensor]:
    """The structural loss of a label, as `loss(student, teacher, mask=..., negatives=...)`."""
    name, arguments = variants.structural_loss(label)
    if "distance" in arguments:
        arguments = arguments | {"distance": getattr(losses, str(arguments["distance"]))}
    loss = partial(getattr(losses, name), **arguments)
    if "mask" in inspect.signature(loss).parameters:
        return loss
    # Where rows are independent, `weighted` leaves the masked ones out.
    return lambda student, teacher, mask=None: loss(student, teacher)
