"""Measures students on held-out documents during training (thesis Section 4.5.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from lib.distillation.gradient_share import contextual_share
from lib.distillation.objective import Objective
from lib.evaluation.metrics import cca

if TYPE_CHECKING:
    from lib.distillation.training import Update


def held_out_cca(student: np.ndarray, teacher: np.ndarray, components: int = 10) -> float:
    """Average the first canonical correlations of two embeddings, (documents, dim) each; 0 to 1.

    Both sides are first reduced to their largest principal components, at most a third as many as
    documents: with fewer documents than dimensions, CCA finds perfect correlations in any data.
    Even so, unrelated embeddings score above 0; compare with `chance_cca`.
    """
    components = min(components, student.shape[1], teacher.shape[1], len(student) // 3)
    return cca(_principal(student, components), _principal(teacher, components)) / components


def chance_cca(student: np.ndarray, teacher: np.ndarray) -> float:
    """Average `held_out_cca` over 20 random pairings of documents: the score of unrelated ones."""
    generator = np.random.default_rng(0)
    scores = [held_out_cca(student, generator.permutation(teacher)) for _ in range(20)]
    return float(np.mean(scores))


@dataclass
class Watch:
    """A callback of `distill`: measures a student of a contextual teacher on held-out documents.

    `token_ids` are the student's, and embeddings (documents, dim) those of the teachers. Nothing is
    measured after the last update, because code that then embeds the documents can call `measure`.
    `measurements` are (update, *result of `measure`).
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
        """Measure a student's embeddings of the held-out documents, (documents, dim).

        Returns held-out CCA of the embeddings, the same of both sides after the objective's
        projections, and the contextual share of the gradient (`contextual_share`).
        """
        device = next((weight.device for weight in objective.parameters()), torch.device("cpu"))

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
        return {"measurements": [tuple(map(float, row)) for row in self.measurements]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.measurements[:] = state["measurements"]


def _principal(x: np.ndarray, components: int) -> np.ndarray:
    centred = x.astype(np.float64) - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
