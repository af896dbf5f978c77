"""Measurements on held-out documents during training (thesis Section 4.5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from lib.distillation.gradient_share import contextual_share
from lib.distillation.objective import Objective
from lib.evaluation.canonical_correlation import cca

if TYPE_CHECKING:
    from lib.distillation.training import Update


def held_out_cca(student: np.ndarray, teacher: np.ndarray, components: int = 10) -> float:
    """Average the first canonical correlations between two embeddings of held-out documents.

    Both sides are first reduced to their ten largest principal components. A few dozen documents
    support no more: with fewer documents than dimensions, CCA finds perfect correlation between
    anything. Even so, unrelated embeddings score above 0; compare with `chance_cca`.

    Parameters
    ----------
    student, teacher : (documents, dim), of any two dims
    components : at most; a third of the documents and the smaller dim are limits too

    Returns
    -------
    from 0 to 1
    """
    components = min(components, student.shape[1], teacher.shape[1], len(student) // 3)
    return cca(_principal(student, components), _principal(teacher, components)) / components


def chance_cca(student: np.ndarray, teacher: np.ndarray) -> float:
    """Average `held_out_cca` over 20 random pairings of documents: an unrelated student's score."""
    generator = np.random.default_rng(0)
    scores = [held_out_cca(student, generator.permutation(teacher)) for _ in range(20)]
    return float(np.mean(scores))


@dataclass
class Watch:
    """A callback of `distill`: measures a student of a contextual teacher on held-out documents.

    Parameters
    ----------
    token_ids : the documents
    contextual, structural : (documents, dim), their embeddings by the teachers; None without a
        structural one
    lengths : (documents,), as in `DistillationData`
    batch_size : as in training, for the share of the gradient
    precision : as in `Student.encode`
    every : updates between two measurements. The last update is left out, as whoever embeds the
        trained student can call `measure`.

    Attributes
    ----------
    measurements : (update, cca, projected cca, share), see `measure`
    """

    token_ids: Sequence[list[int]]
    contextual: np.ndarray
    structural: np.ndarray | None
    lengths: np.ndarray
    batch_size: int
    precision: str = "fp32"
    every: int = 1
    measurements: list[tuple[int, float, float, float]] = field(default_factory=list)

    def __call__(self, update: "Update") -> None:
        if update.number % self.every == 0 and update.number < update.count:
            embeddings = update.student.encode(self.token_ids, precision=self.precision)
            self.measurements.append((update.number, *self.measure(embeddings, update.objective)))

    def measure(self, embeddings: np.ndarray, objective: Objective) -> tuple[float, float, float]:
        """Measure embeddings (documents, dim) of the documents, at any time.

        Returns
        -------
        held-out CCA of the embeddings, held-out CCA of what the objective's two projections make of
        both sides, and the contextual share of the gradient (`gradient_share`)
        """
        device = next(
            (parameter.device for parameter in objective.parameters()), torch.device("cpu")
        )

        def projected(module: nn.Module, values: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return module(torch.from_numpy(values).to(device)).cpu().numpy()

        training = objective.training
        objective.eval()
        student = projected(objective.student_projection, embeddings)
        teacher = projected(objective.contextual_projection, self.contextual)
        sides = embeddings, self.structural, self.contextual, self.lengths
        share = contextual_share(objective, *sides, batch_size=self.batch_size)
        objective.train(training)
        return held_out_cca(embeddings, self.contextual), held_out_cca(student, teacher), share

    def state_dict(self) -> dict[str, Any]:
        return {"measurements": self.measurements}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.measurements[:] = [tuple(row) for row in state["measurements"]]


def _principal(x: np.ndarray, components: int) -> np.ndarray:
    """The projection of x, (documents, dim), on its largest principal components."""
    centred = x.astype(np.float64) - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
