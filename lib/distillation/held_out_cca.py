"""Held-out CCA between a student and its contextual teacher, watched during training (thesis Section 4.5.2)."""

from collections.abc import Sequence

import numpy as np
import torch

from lib.evaluation.canonical_correlation import cca


def held_out_cca(student: np.ndarray, teacher: np.ndarray, components: int = 10) -> float:
    """Mean of the first canonical correlations between two embeddings of held-out documents, in [0, 1].

    Both sides are first reduced to their largest principal components, ten of them, as a few dozen documents support no
    more: with fewer documents than dimensions, CCA finds perfect correlation between anything. Even so unrelated
    embeddings score above 0; compare with `chance_cca`.
    """
    components = min(components, student.shape[1], teacher.shape[1], len(student) // 3)
    return cca(_principal(student, components), _principal(teacher, components)) / components


def chance_cca(student: np.ndarray, teacher: np.ndarray) -> float:
    """Mean `held_out_cca` of 20 random pairings of documents: what a student unrelated to the teacher scores."""
    generator = np.random.default_rng(0)
    return float(np.mean([held_out_cca(student, generator.permutation(teacher)) for _ in range(20)]))


class CCAWatch:
    """What `training.distill` calls to watch a training: student, objective -> (embedding CCA, projected CCA).

    token_ids: held-out documents. teacher: (documents, dim), their embeddings by the contextual teacher.
    """

    def __init__(self, token_ids: Sequence[list[int]], teacher: np.ndarray):
        self.token_ids, self.teacher = token_ids, teacher

    def __call__(self, student, objective) -> tuple[float, float]:
        return self.measure(student.encode(self.token_ids), objective)

    @torch.no_grad()
    def measure(self, embedding: np.ndarray, objective) -> tuple[float, float]:
        """CCA of the embeddings as they are, and of what the objective's two projections make of them."""
        device = next((parameter.device for parameter in objective.parameters()), torch.device("cpu"))
        student = objective.student_projection(torch.from_numpy(embedding).to(device)).cpu().numpy()
        teacher = objective.contextual_projection(torch.from_numpy(self.teacher).to(device)).cpu().numpy()
        return held_out_cca(embedding, self.teacher), held_out_cca(student, teacher)


def _principal(x: np.ndarray, components: int) -> np.ndarray:
    centred = x.astype(np.float64) - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
