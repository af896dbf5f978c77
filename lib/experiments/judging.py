"""Classification on frozen embeddings: the examples, the heads, and how many answers are right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import HeadSettings
from lib.data.task_files import Part, Task, downsample, make_folds

# Readout -> its changes in a profile's section `heads`. "thesis" is the published protocol; the
# other two need little or no training.
READOUTS: dict[str, dict[str, Any]] = {
    "thesis": {},
    "compare": {"classifier": "compare"},
    "none": {"classifier": "similarity"},
}
HEAD_SEEDS = 1000  # heads of one model and seed: seeds 1000 * seed, 1000 * seed + 1, ...


@dataclass(frozen=True)
class Examples:
    """The examples of a classification, as rows of its texts.

    Attributes
    ----------
    text_ids, texts : list of str
        Each text once.
    inputs : (examples, 1 or 2) int
        Rows of texts.
    labels : (examples,) int
    parts : list
        For each fold, the examples to train on and those to test on.
    """

    task: str
    text_ids: list[str]
    texts: list[str]
    inputs: np.ndarray
    labels: np.ndarray
    classes: int
    parts: list[Part]

    @property
    def tested(self) -> np.ndarray:
        """(tested,) the examples that are scored, ascending."""
        return np.sort(np.concatenate([test for _, test in self.parts]))

    @property
    def chance(self) -> float:
        """The share of the largest class among the examples that are scored."""
        tested = self.tested
        return float(np.bincount(self.labels[tested]).max() / len(tested))


def read_examples(
    name: str, task: Task, split: str, cut: int, limit: float | None = None
) -> Examples:
    """The examples that models are judged by.

    Parameters
    ----------
    split : {"validation", "test"}
        A task without that split is cross-validated on "train". A `cross_fit` task is
        cross-validated, on "test" if the split is "test".
    cut : int
        At most this many examples of a split, for the split "validation" (Chapter 4).
    limit : float or None
        At most this many training examples (Chapter 5); below 1, the share of all.

    Raises
    ------
    ValueError
        If the task has fewer groups than folds.
    """
    size = cut if split == "validation" else None
    trained = "test" if task.cross_fit and split == "test" else "train"
    inputs, labels = _cut_split(task, trained, size)
    if split in task.inputs and not task.cross_fit:
        tested, expected = _cut_split(task, split, size)
        parts = [(np.arange(len(labels)), len(labels) + np.arange(len(expected)))]
        inputs, labels = inputs + tested, np.concatenate([labels, expected])
    else:
        kept = _keep(task, trained, size)
        groups = task.example_groups(trained)
        parts = make_folds(labels, task.folds, None if groups is None else groups[kept])
    if limit is not None:
        parts = [
            (train[downsample(labels[train], _count(limit, train))], test) for train, test in parts
        ]
    ids = list(dict.fromkeys(text_id for example in inputs for text_id in example))
    rows = {text_id: row for row, text_id in enumerate(ids)}
    numbers = np.array([[rows[text_id] for text_id in example] for example in inputs])
    texts = [task.texts[text_id] for text_id in ids]
    return Examples(name, ids, texts, numbers, labels, len(task.classes), parts)


def _count(limit: float, train: np.ndarray) -> int:
    return int(limit) if limit >= 1 else max(1, round(limit * len(train)))


def _keep(task: Task, split: str, size: int | None) -> np.ndarray:
    labels = task.labels[split]
    return np.arange(len(labels)) if size is None else downsample(labels, size)


def _cut_split(
    task: Task, split: str, size: int | None
) -> tuple[list[tuple[str, ...]], np.ndarray]:
    kept = _keep(task, split, size)
    return [task.inputs[split][row] for row in kept], np.asarray(task.labels[split])[kept]


def judge_models(
    models: Sequence[tuple[str, int, Any]],
    examples: Examples,
    settings: HeadSettings,
    classifier: str,
) -> list[dict[str, Any]]:
    """Judge how well each model's embeddings classify.

    Parameters
    ----------
    models : sequence of (name, seed, features)
        Features are (texts, dim), with rows as in `examples.texts`.
    examples : Examples
    settings : HeadSettings
    classifier : str
        "head", or one of `lib.evaluation.classifiers.CLASSIFIERS`. Heads of all models are trained
        side by side; the other classifiers have no seed.

    Returns
    -------
    list of dict
        `accuracy`, the mean share of correct answers; `heads`, the share for each head and each of
        its folds; `scores`, for each tested example the share of heads that are right.
    """
    from lib.evaluation import classifiers
    from lib.evaluation.heads import Job, train_heads

    repeats = settings.repeats if classifier == "head" else 1
    jobs = []
    for name, seed, features in models:
        values = features if hasattr(features, "tocsr") else np.asarray(features)
        label = f"{name}, seed {seed}, {examples.task}"
        for head in range(repeats):
            for train, test in examples.parts:
                job = (values, examples.inputs, examples.labels, train, test)
                jobs.append(Job(*job, HEAD_SEEDS * seed + head, label))
    if classifier == "head":
        options = settings.model_dump(exclude={"repeats", "classifier"})
        results = train_heads(jobs, classes=examples.classes, **options)
        right = [
            result.predictions == examples.labels[job.test]
            for result, job in zip(results, jobs, strict=True)
        ]
    else:
        predict = classifiers.CLASSIFIERS[classifier]
        right = [predict(job) == examples.labels[job.test] for job in jobs]
    order = np.argsort(np.concatenate([test for _, test in examples.parts]))
    each, records = repeats * len(examples.parts), []
    for number in range(len(models)):
        answers = right[number * each : (number + 1) * each]
        heads = [float(np.mean(part)) for part in answers]
        scores = np.concatenate(answers).reshape(repeats, -1).mean(0)[order]
        records.append(
            {"accuracy": float(np.mean(heads)), "heads": heads, "scores": scores.tolist()}
        )
    return records
