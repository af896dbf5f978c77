"""Max-margin loss: near the positive, far from the negatives (thesis Section 4.4.1, Equation 4.1)."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lib.losses import _checks
from lib.losses.mse import mse

Distance = Callable[[Tensor, Tensor], Tensor]


def max_margin(
    student: Float[Tensor, "batch dim"],
    teacher: Float[Tensor, "batch dim"],
    *,
    distance: Distance = mse,
    gamma: float = 1.0,
    mask: Bool[Tensor, " batch"] | None = None,
    negatives: Float[Tensor, "negatives dim"] | None = None,
) -> Float[Tensor, " batch"]:
    """Distance to the positive minus gamma times the mean distance to the negatives, one value per row.

        max_margin_i = distance(y_i, y_pos_i) - gamma * 1/|Y_neg_i| * sum_{n in Y_neg_i} distance(y_i, n)     (4.1)

    Symbols of Equation 4.1: y is a row of `student`, y_pos the same row of `teacher`, Y_neg_i the teacher embeddings of
    the *other* unmasked rows (or `negatives`), sim is `distance`, gamma is gamma. Despite the name there is no margin
    and no hinge. With `mse` and gamma = 1 the quadratic term in the student cancels, so the loss is linear in the
    student and has no lower bound; with gamma > 1 it rewards long embeddings.

    student, teacher: embeddings of the same documents, (batch, dim). distance: any function (rows, dim) x 2 -> (rows,);
    called once on all pairs, so batch^2 * dim numbers are held. gamma: weight of the negatives, >= 0; the thesis tries
    .1, .5, 1 and 1.5. mask: (batch,), False for rows that take no part: they give 0 and are nobody's negative.
    negatives: (negatives, dim), those of every row instead of the in-batch ones.

    Returns (batch,); a row without negatives keeps its positive term. Raises `ValueError` for other shapes and dtypes,
    a negative gamma, and a `distance` that returns anything but one value a row.

    Source: thesis Equation 4.1; in-batch negatives as in the author's code, where the batch is 6.
    """
    _checks.pair(student, teacher)
    _checks.non_negative(gamma, "gamma")
    mask = _checks.row_mask(mask, student)
    # Inputs are masked, not results: a masked row is gone before any distance, so not even its NaN can spread.
    y, y_pos = student[mask], teacher[mask]
    if negatives is None:
        to_all = _pairwise(distance, y, y_pos)
        positive = to_all.diagonal()
        itself = torch.eye(len(y), dtype=torch.bool, device=y.device)
        to_negatives = to_all[~itself].view(len(y), max(len(y) - 1, 0))
    else:
        _checks.embeddings(negatives, "negatives")
        if negatives.shape[1] != student.shape[1]:
            expected = f"(negatives, {student.shape[1]}) for student {tuple(student.shape)}"
            raise ValueError(f"negatives must have shape {expected}, got {tuple(negatives.shape)}")
        positive = _rowwise(distance, y, y_pos)
        to_negatives = _pairwise(distance, y, negatives)
    loss = positive
    if to_negatives.shape[1] > 0:
        loss = positive - gamma * to_negatives.mean(dim=1)
    return loss.new_zeros(mask.shape).masked_scatter(mask, loss)


def _pairwise(distance: Distance, rows: Tensor, columns: Tensor) -> Tensor:
    """Distances of every row to every column, (rows, columns), by one call on the expanded pairs."""
    n, m = len(rows), len(columns)
    return _rowwise(distance, rows.repeat_interleave(m, dim=0), columns.repeat(n, 1)).view(n, m)


def _rowwise(distance: Distance, first: Tensor, second: Tensor) -> Tensor:
    """`distance(first, second)`, checked to be one value per row."""
    values = distance(first, second)
    if not isinstance(values, Tensor) or values.shape != first.shape[:1]:
        came = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        expected = f"one value per row, shape ({len(first)},) for inputs {tuple(first.shape)}"
        raise ValueError(f"distance must return {expected}, got {came}")
    return values
