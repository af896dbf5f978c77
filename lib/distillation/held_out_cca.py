"""What is watched on held-out documents while a student learns from a contextual teacher (thesis Section 4.5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lib.distillation.gradient_share import contextual_share
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
    return float(
        np.mean([held_out_cca(student, generator.permutation(teacher)) for _ in range(20)])
    )


@dataclass
class Watch:
    """What `training.distill` calls to watch a student of a contextual teacher on held-out documents.

    token_ids: the documents. contextual, structural: (documents, dim), their embeddings by the teachers, None without a
    structural one. lengths: as in `DistillationData`. batch_size: as in training, for the share of the gradient.
    precision: as in `Student.encode`.
    """

    token_ids: Sequence[list[int]]
    contextual: np.ndarray
    structural: np.ndarray | None
    lengths: np.ndarray
    batch_size: int
    precision: str = "fp32"

    def __call__(self, student, objective) -> tuple[float, float, float]:
        return self.measure(student.encode(self.token_ids, precision=self.precision), objective)

    def measure(self, embedding: np.ndarray, objective) -> tuple[float, float, float]:
        """CCA of the embeddings as they are, CCA of what the objective's two projections make of them, and the
        contextual share of the gradient (`gradient_share`)."""
        device = next(
            (parameter.device for parameter in objective.parameters()), torch.device("cpu")
        )
        with torch.no_grad():
            student = (
                objective.student_projection(torch.from_numpy(embedding).to(device)).cpu().numpy()
            )
            teacher = (
                objective.contextual_projection(torch.from_numpy(self.contextual).to(device))
                .cpu()
                .numpy()
            )
        training = objective.training
        share = contextual_share(
            objective.eval(),
            embedding,
            self.structural,
            self.contextual,
            self.lengths,
            batch_size=self.batch_size,
        )
        objective.train(training)
        return held_out_cca(embedding, self.contextual), held_out_cca(student, teacher), share


def _principal(x: np.ndarray, components: int) -> np.ndarray:
    centred = x.astype(np.float64) - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
