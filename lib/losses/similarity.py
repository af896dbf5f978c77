"""Similarities inside a batch: the student's cosines between rows held to the teacher's."""

import torch
from jaxtyping import Float
from torch import Tensor

from lib.losses.cosine import unit_rows


def similarity(
    student: Float[Tensor, "batch dim"], teacher: Float[Tensor, "batch other"]
) -> Float[Tensor, " batch"]:
    """Squared errors of the batch's cosine matrix, off its diagonal.

        similarity_i = mean over j != i of (cos(s_i, s_j) - cos(t_i, t_j))^2

    s and t are the rows of student and teacher. The widths may differ, as only cosines within each
    side count; so the loss is blind to a rotation of either side.

    Parameters
    ----------
    student : (batch, dim)
    teacher : (batch, other)

    Returns
    -------
    (batch,), from 0 to 4. A single row has no other and gives 0; a zero vector has cosine 0.

    Notes
    -----
    Jasper and Stella (Zhang et al., arXiv 2412.19048) weight the mean of the whole matrix twenty
    times as much as the cosine distance; Dewey (arXiv 2503.20376) has it, too. Theirs includes the
    diagonal, which is 0.

    Examples
    --------
    >>> import torch
    >>> from lib.losses.similarity import similarity
    >>> student = torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    >>> teacher = torch.tensor([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    >>> similarity(student, teacher)
    tensor([0.5000, 1.0000, 0.5000])
    """
    if student.ndim != 2 or teacher.ndim != 2 or len(student) != len(teacher):
        got = f"{tuple(student.shape)} and {tuple(teacher.shape)}"
        raise ValueError(f"expected student (batch, dim) and teacher (batch, other), got {got}")
    n = len(student)
    if n < 2:
        return 0 * student.sum(dim=1)
    student, teacher = unit_rows(student), unit_rows(teacher)
    errors = (student @ student.T - teacher @ teacher.T).square()
    others = ~torch.eye(n, dtype=torch.bool, device=student.device)
    return errors[others].view(n, n - 1).mean(dim=1)
