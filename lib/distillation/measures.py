"""Measures of a student of a contextual teacher (thesis Section 4.5.2): held-out CCA, gradients."""

import copy

import numpy as np
import torch
from sklearn.decomposition import PCA

from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData
from lib.evaluation.metrics import cca


def held_out_cca(student: np.ndarray, teacher: np.ndarray, components: int = 10) -> float:
    """Average the first canonical correlations of two embeddings, (documents, dim) each; 0 to 1.

    Both sides are first reduced to their largest principal components, at most a third as many as
    documents: with fewer documents than dimensions, CCA finds perfect correlations in any data.
    Even so, unrelated embeddings score above 0; compare with `chance_cca`.
    """
    ours, theirs = _reduce(student, teacher, components)
    return cca(ours, theirs) / ours.shape[1]


def chance_cca(student: np.ndarray, teacher: np.ndarray) -> float:
    """Average `held_out_cca` over 20 random pairings of documents: the score of unrelated ones."""
    ours, theirs = _reduce(student, teacher)
    generator = np.random.default_rng(0)
    scores = [cca(ours, generator.permutation(theirs)) for _ in range(20)]
    return float(np.mean(scores)) / ours.shape[1]


def _reduce(student: np.ndarray, teacher: np.ndarray, components: int = 10) -> list[np.ndarray]:
    most = min(components, student.shape[1], teacher.shape[1], len(student) // 3)
    pca = PCA(most, svd_solver="full")
    return [pca.fit_transform(side.astype(np.float64)) for side in (student, teacher)]


def contextual_share(
    objective: Objective, student: np.ndarray, data: DistillationData, batch_size: int
) -> float:
    """Compute |C'| / (|S'| + |C'|), averaged over whole batches; 1 without a structural teacher.

    S' and C' are the gradients of the two terms of the loss with respect to the student's
    embeddings of a batch of `data`, weighted and masked as in training; | | is the norm.
    `objective` is on the CPU, and in evaluation mode, or its running statistics change.
    """
    if data.structural is None:
        return 1.0
    shares = []
    for start in range(0, len(student) - batch_size + 1, batch_size):
        rows = slice(start, start + batch_size)
        copies = [torch.tensor(student[rows], requires_grad=True) for _ in range(2)]
        loss = objective(copies[0], *data.teachers(rows, "cpu"), projected=copies[1]).mean()
        s, c = (float(each.norm()) for each in torch.autograd.grad(loss, copies))
        shares.append(c / (s + c))
    return float(np.mean(shares))


def measure(
    objective: Objective, student: np.ndarray, data: DistillationData, batch_size: int
) -> tuple[float, float, float]:
    """Measure a student's embeddings of held-out documents, (documents, dim).

    Returns held-out CCA of the embeddings with those of the contextual teacher, the same of both
    sides after the objective's projections, and the contextual share of the gradient.
    """
    objective = copy.deepcopy(objective).cpu().eval()
    teacher = data.contextual[:]
    with torch.no_grad():
        ours = objective.student_projection(torch.from_numpy(student)).numpy()
        theirs = objective.contextual_projection(torch.from_numpy(teacher)).numpy()
    share = contextual_share(objective, student, data, batch_size)
    return held_out_cca(student, teacher), held_out_cca(ours, theirs), share
