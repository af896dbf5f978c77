"""Contrast between documents: pieces of one document nearer to each other than to other pieces."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lib.losses import _checks
from lib.losses.cosine import unit_rows


def same_document(
    student: Float[Tensor, "batch dim"],
    teacher: Float[Tensor, "batch dim"],
    documents: Int[Tensor, " batch"],
    *,
    temperature: float = 0.05,
) -> Float[Tensor, " batch"]:
    """Cross-entropy of finding another piece of the same document among pieces of other ones.

        same_document_i = mean over p of
            log(1 + sum over n of exp((cos(s_i, s_n) - cos(s_i, s_p)) / temperature))

    p are the other rows of the document of row i. n are rows of other documents, without those
    that the teacher finds at least as near to i as p, which may well be about the same thing.

    Parameters
    ----------
    student, teacher : (batch, dim)
    documents : (batch,) int
        Which document a row is a piece of.
    temperature : float
        By which cosines are divided.

    Returns
    -------
    (batch,). A row gives 0 if no other is of its document, or if nothing is left to tell it from.

    Notes
    -----
    Crops as positives are those of Contriever (Izacard et al., arXiv 2112.09118). Negatives are
    masked by a guide as in GISTEmbed (Solatorio, arXiv 2402.16829).

    Examples
    --------
    >>> import torch
    >>> from lib.losses.same_document import same_document
    >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> same_document(rows, rows, torch.tensor([0, 0, 1]), temperature=1.0)
    tensor([0.3133, 0.3133, 0.0000])
    """
    _checks.pair(student, teacher)
    if documents.shape != student.shape[:1]:
        shapes = f"{tuple(documents.shape)} for student {tuple(student.shape)}"
        raise ValueError(f"documents must have the shape (batch,), got {shapes}")
    student, teacher = unit_rows(student), unit_rows(teacher)
    logits, guide = student @ student.T / temperature, teacher @ teacher.T
    alike = documents[:, None] == documents
    rows, positives = (
        alike & ~torch.eye(len(alike), dtype=torch.bool, device=alike.device)
    ).nonzero(as_tuple=True)
    kept = ~alike[rows] & (guide[rows] < guide[rows, positives][:, None])
    difference = logits[rows] - logits[rows, positives][:, None]
    # The zero in front is the positive against itself; it makes "1 +" of the formula.
    terms = torch.cat([torch.zeros_like(difference[:, :1]), difference], dim=1)
    kept = torch.cat([torch.ones_like(kept[:, :1]), kept], dim=1)
    values = terms.masked_fill(~kept, -torch.inf).logsumexp(dim=1)
    total = student.new_zeros(len(student)).index_add(0, rows, values)
    return total / alike.sum(dim=1).sub(1).clamp(min=1)
