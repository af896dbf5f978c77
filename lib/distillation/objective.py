"""What a student minimises: the structural loss, the contextual loss through two projections, and their weighting."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from lib import losses
from lib.distillation import projection, variants
from lib.distillation.variants import CONTEXTUAL_LOSSES, Variant

Rows = Tensor | None  # (rows, dim)
Functions = dict[str, Callable[..., Any]]  # of `lib.losses`, by name


class Objective(nn.Module):
    """The loss of one variant, (batch,) values from student and teacher embeddings.

    loss = lam * S + (1 - lam) * C on unmasked rows, C on masked ones; without `lam` the plain sum S + C. S is the
    structural loss of Section 4.4; C is SoftCCA of the projected embeddings (Equation 4.16) or a draft's ablation.
    The projections are initialised from torch's global generator and train with the student. soft_cca: `SoftCCA`'s.
    """

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
        self.losses: Functions = {name: getattr(losses, name) for name in variant.losses}
        self.max_structural_len = max_structural_len if variant.masked else None
        self.structural_loss = (
            structural_loss(variant.structural, self.losses) if variant.structural else None
        )
        self.contextual_loss: Callable[[Tensor, Tensor], Tensor] | None = None
        if variant.structural is None and variant.contextual is None:
            raise ValueError(
                "a student needs a structural loss, a contextual teacher, or both; got neither"
            )
        if variant.contextual is not None:
            if contextual_dim is None:
                raise ValueError(
                    "contextual_dim, the width of the contextual teacher's embeddings, is missing"
                )
            student_label = projection.scale(variant.student_projection or "-", width)
            contextual_label = projection.scale(variant.contextual_projection or "-", width)
            self.student_projection = projection.build(student_label, dim)
            self.contextual_projection = projection.build(contextual_label, contextual_dim)
            out = projection.out_features(student_label, dim)
            loss = self.losses[CONTEXTUAL_LOSSES[variant.contextual_loss]]
            self.contextual_loss = (
                loss(out, **soft_cca) if variant.contextual_loss == "soft_cca" else loss
            )

    def forward(
        self,
        student: Tensor,
        structural: Rows,
        contextual: Rows,
        lengths: Tensor,
        negatives: Rows = None,
    ) -> Tensor:
        return self.combined(
            *self.terms(student, structural, contextual, lengths, negatives), lengths
        )

    def terms(
        self,
        student: Tensor,
        structural: Rows,
        contextual: Rows,
        lengths: Tensor,
        negatives: Rows = None,
    ) -> tuple[Rows, Rows]:
        """S and C of a batch, (batch,) each; None for a teacher that the student does not have. negatives: of a
        max-margin loss, (negatives, dim), instead of the batch's own."""
        s = c = None
        if self.structural_loss is not None:
            limit = self.max_structural_len
            mask = None if limit is None else self.losses["structural_mask"](lengths, limit)
            bank = {} if negatives is None else {"negatives": negatives}
            s = self.structural_loss(student, structural, mask=mask, **bank)
        if self.contextual_loss is not None:
            c = self.contextual_loss(
                self.student_projection(student), self.contextual_projection(contextual)
            )
        return s, c

    def combined(self, structural: Rows, contextual: Rows, lengths: Tensor) -> Tensor:
        """The loss from its two terms, (batch,)."""
        if structural is None or contextual is None:
            (only,) = (term for term in (structural, contextual) if term is not None)
            return only
        limit = self.max_structural_len
        return self.losses["weighted"](
            structural, contextual, lengths, lam=self.lam, max_structural_len=limit
        )


def structural_loss(label: str, functions: Functions) -> Callable[..., Tensor]:
    """The structural loss of a label, of the given functions, as `loss(student, teacher, mask=mask) -> (batch,)`."""
    name, values = variants.structural_loss(label)
    loss = functions[name]
    arguments = {
        key: functions[value] if isinstance(value, str) else value for key, value in values.items()
    }
    if "mask" in inspect.signature(loss).parameters:
        return partial(loss, **arguments)
    # Rows are independent: masking the input is masking the row.
    return lambda student, teacher, mask: (
        loss(student, teacher, **arguments) * (1 if mask is None else mask)
    )
