"""The contextual teacher's share of the gradient at a student's output."""

import numpy as np
import torch
from torch import Tensor

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
    """Compute |C'| / (|S'| + |C'|), averaged over batches; from 0 to 1.

    S' and C' are the gradients of the structural and contextual terms of the loss with respect to
    the student's embeddings of a batch, weighted and masked as in training. | | is the Euclidean
    norm over the batch; an incomplete last batch is left out. With a share of .03, for example, the
    contextual teacher hardly changes the direction in which the structural teacher moves the
    student. `objective` must be in evaluation mode, or its running statistics change. Embeddings
    are (documents, dim); without a structural teacher (None), the share is 1.
    """
    if structural is None:
        return 1.0
    device = next((parameter.device for parameter in objective.parameters()), torch.device("cpu"))
    shares = []
    for start in range(0, len(student) - batch_size + 1, batch_size):
        output, first, second, count = (
            torch.from_numpy(np.ascontiguousarray(values[start : start + batch_size])).to(device)
            for values in (student, structural, contextual, lengths)
        )
        with torch.enable_grad():
            s, c = objective.terms(output.requires_grad_(), first, second, count)
            assert s is not None and c is not None
            s_side = objective.combined(s, c.detach(), count).mean()
            c_side = objective.combined(s.detach(), c, count).mean()
        s_norm, c_norm = (_find_norm(side, output) for side in (s_side, c_side))
        shares.append(c_norm / (s_norm + c_norm))
    return float(np.mean(shares))


def _find_norm(loss: Tensor, output: Tensor) -> float:
    return float(torch.autograd.grad(loss, output, retain_graph=True)[0].norm())
