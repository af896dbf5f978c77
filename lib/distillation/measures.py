"""Measures of a student of a contextual teacher (thesis Section 4.5.2): held-out CCA, gradients."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.distillation.objective import Objective
from lib.evaluation.metrics import cca

if TYPE_CHECKING:
    from lib.distillation.training import DistillationData, Update


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


def contextual_share(
    objective: Objective, student: np.ndarray, data: "DistillationData", batch_size: int
) -> float:
    """Compute |C'| / (|S'| + |C'|), averaged over whole batches; 1 without a structural teacher.

    S' and C' are the gradients of the two terms of the loss with respect to the student's
    embeddings of a batch of `data`, weighted and masked as in training; | | is the norm.
    `objective` must be in evaluation mode, or its running statistics change.
    """
    if data.structural is None:
        return 1.0
    shares = []
    for start in range(0, len(student) - batch_size + 1, batch_size):
        rows = slice(start, start + batch_size)
        output = torch.from_numpy(student[rows]).to(_device(objective)).requires_grad_()
        structural, contextual, lengths = data.teachers(rows, output.device)
        with torch.enable_grad():
            s, c = objective.terms(output, structural, contextual, lengths)
            assert s is not None and c is not None
            s_side = objective.combined(s, c.detach(), lengths).mean()
            c_side = objective.combined(s.detach(), c, lengths).mean()
        s_norm, c_norm = (_gradient_norm(side, output) for side in (s_side, c_side))
        shares.append(c_norm / (s_norm + c_norm))
    return float(np.mean(shares))


@dataclass
class Watch:
    """A callback of `distill`: measures a contextual teacher's student on held-out documents.

    Nothing is measured after the last update, because code that then embeds the documents can call
    `measure`. `measurements` are (update, *result of `measure`).
    """

    data: "DistillationData"
    batch_size: int
    precision: str = "fp32"
    every: int = 1
    measurements: list[tuple[int, float, float, float]] = field(default_factory=list)

    def __call__(self, update: "Update") -> None:
        if update.number % self.every == 0 and update.number < update.count:
            embeddings = update.student.encode(self.data.token_ids[:], precision=self.precision)
            self.measurements.append((update.number, *self.measure(embeddings, update.objective)))

    def measure(self, embeddings: np.ndarray, objective: Objective) -> tuple[float, float, float]:
        """Measure a student's embeddings of the held-out documents, (documents, dim).

        Returns held-out CCA of the embeddings, the same of both sides after the objective's
        projections, and the contextual share of the gradient (`contextual_share`).
        """
        contextual, training = self.data.contextual[:], objective.training
        objective.eval()
        student = _project(objective.student_projection, embeddings, objective)
        teacher = _project(objective.contextual_projection, contextual, objective)
        share = contextual_share(objective, embeddings, self.data, self.batch_size)
        objective.train(training)
        return held_out_cca(embeddings, contextual), held_out_cca(student, teacher), share

    def state_dict(self) -> dict[str, Any]:
        return {"measurements": [tuple(map(float, row)) for row in self.measurements]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.measurements[:] = state["measurements"]


def _device(objective: Objective) -> torch.device:
    return next((weight.device for weight in objective.parameters()), torch.device("cpu"))


@torch.no_grad()
def _project(module: nn.Module, rows: np.ndarray, objective: Objective) -> np.ndarray:
    return module(torch.from_numpy(rows).to(_device(objective))).cpu().numpy()


def _gradient_norm(loss: Tensor, output: Tensor) -> float:
    return float(torch.autograd.grad(loss, output, retain_graph=True)[0].norm())


def _principal(x: np.ndarray, components: int) -> np.ndarray:
    centred = x.astype(np.float64) - x.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:components].T
