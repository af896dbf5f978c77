"""Classification on frozen embeddings: the examples, and how many answers are right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lib.config.schema import HeadSettings

# Readout -> its changes in a profile's section `heads`. "thesis" is the published protocol; the
# other two need little or no training.
READOUTS: dict[str, dict[str, Any]] = {
    "thesis": {"classifier": "head"},
    "compare": {"classifier": "compare"},
    "none": {"classifier": "similarity"},
}
HEAD_SEEDS = 1000  # heads of one model and seed: seeds 1000 * seed, 1000 * seed + 1, ...
Part = tuple[np.ndarray, np.ndarray]  # the examples to train on and those to test on


@dataclass(frozen=True)
class Examples:
    """The examples of a classification, as rows of its texts.

    `inputs` are (examples, 1 or 2) rows of `texts`, each of which is there once, and `labels`
    (examples,) int. `groups`, (examples,) int, are equal where folds must not part examples; None
    if each is by itself.
    """

    task: str
    text_ids: list[str]
    texts: list[str]
    inputs: np.ndarray
    labels: np.ndarray
    classes: int
    parts: list[Part]
    groups: np.ndarray | None = None

    @property
    def tested(self) -> np.ndarray:
        """(tested,) the examples that are scored, ascending."""
        return np.sort(np.concatenate([test for _, test in self.parts]))

    @property
    def chance(self) -> float:
        """The share of the largest class among the examples that are scored."""
        tested = self.tested
        return float(np.bincount(self.labels[tested]).max() / len(tested))

    @property
    def folds(self) -> list[Examples]:
        """The same examples, with one fold each."""
        return [replace(self, parts=[part]) for part in self.parts]


def judge(
    vectors: Any,
    examples: Examples,
    classifier: str,
    settings: HeadSettings | None = None,
    seed: int = 0,
    name: str = "",
) -> np.ndarray:
    """(tested,) for each tested example, the share of right answers; see `judge_models`."""
    record = judge_models([(name, seed, vectors)], examples, classifier, settings)[0]
    return record["scores"]


def judge_folds(
    embed: Callable[[Examples], Any],
    examples: Examples,
    classifier: str,
    settings: HeadSettings | None = None,
) -> np.ndarray:
    """`judge` with vectors of all texts that `embed` fits anew to none of a fold's tests."""
    each = np.full(len(examples.labels), np.nan)
    for fold in examples.folds:
        each[fold.tested] = judge(embed(fold), fold, classifier, settings)
    return each[examples.tested]


def judge_models(
    models: Sequence[tuple[str, int, Any]],
    examples: Examples,
    classifier: str,
    settings: HeadSettings | None = None,
) -> list[dict[str, Any]]:
    """Judge how well each model's embeddings classify.

    `models` are (name, seed, vectors) with vectors (texts, dim), or for the classifier "joint" the
    pair of TF-IDF and dense vectors. `classifier` is "head", which needs the settings and trains
    heads of all models side by side, or one of `classifiers.CLASSIFIERS`, which have no seed.

    Returns for each model `accuracy`, the mean share of right answers; `heads`, the share for each
    head and each of its folds; `scores`, (tested,) for each tested example the share of heads that
    are right. `ValueError` for vectors that are not finite.
    """
    from lib.evaluation.classifiers import CLASSIFIERS
    from lib.evaluation.heads import Job, train_heads

    heads = settings if classifier == "head" else None
    repeats = heads.repeats if heads else 1
    jobs = []
    for name, seed, vectors in models:
        values, label = _read_vectors(vectors), f"{name}, seed {seed}, {examples.task}"
        for head in range(repeats):
            for train, test in examples.parts:
                job = (values, examples.inputs, examples.labels, train, test)
                jobs.append(Job(*job, HEAD_SEEDS * seed + head, label, examples.groups))
    if heads:
        answers = train_heads(jobs, examples.classes, heads)
    else:
        answers = [CLASSIFIERS[classifier](job) for job in jobs]
    right = [answer == examples.labels[job.test] for answer, job in zip(answers, jobs, strict=True)]
    order = np.argsort(np.concatenate([test for _, test in examples.parts]))
    each, records = repeats * len(examples.parts), []
    for start in range(0, len(jobs), each):
        own = right[start : start + each]
        shares = np.array([np.mean(part) for part in own])
        scores = np.concatenate(own).reshape(repeats, -1).mean(0)[order]
        records.append({"accuracy": float(shares.mean()), "heads": shares, "scores": scores})
    return records


def _read_vectors(vectors: Any) -> Any:
    if isinstance(vectors, tuple):
        return tuple(map(_read_vectors, vectors))
    return vectors if hasattr(vectors, "tocsr") else np.asarray(vectors)
