"""How much of what a student learns comes from its contextual teacher: shares of the gradient at its output."""

import numpy as np
import torch

from lib.distillation.objective import Objective


def contextual_share(
    objective: Objective,
    student: np.ndarray,
    structural: np.ndarray | None,
    contextual: np.ndarray,
    lengths: np.ndarray,
    *,
    batch_size: int,
) -> float:
    """|C'| / (|S'| + |C'|), in [0, 1], the mean over batches; 1 for a student without a structural loss.

    S' and C' are the gradients of the two terms of the loss, weighted and masked as in training, at the student's
    embeddings of a batch; | | is the Euclidean norm over the batch. A share of .03 says that the student moves where
    the structural teacher points, whatever the contextual one says.

    student, structural, contextual: (documents, dim) embeddings. lengths: (documents,), see `DistillationData`.
    """
    if structural is None:
        return 1.0
    device = next((parameter.device for parameter in objective.parameters()), torch.device("cpu"))
    shares = []
    for start in range(0, len(student) - batch_size + 1, batch_size):
        rows = slice(start, start + batch_size)
        output, s_teacher, c_teacher, count = (
            torch.from_numpy(np.ascontiguousarray(x[rows])).to(device)
            for x in (student, structural, contextual, lengths)
        )
        with torch.enable_grad():
            s, c = objective.terms(output.requires_grad_(), s_teacher, c_teacher, count)
            assert s is not None and c is not None
            sides = (
                objective.combined(s, c.detach(), count),
                objective.combined(s.detach(), c, count),
            )
            norms = [
                float(torch.autograd.grad(side.mean(), output, retain_graph=True)[0].norm())
                for side in sides
            ]
        shares.append(norms[1] / sum(norms))
    return float(np.mean(shares))
