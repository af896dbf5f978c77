"""Classification heads on the embeddings of several models, and the accuracies that they are recorded with."""

import time

import numpy as np

from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import embeddings, keys, text_sets
from lib.store.records import store
from lib.tasks import downsample

HEAD_SEEDS = 1000  # seeds of the heads of one model and seed: 1000 * seed, 1000 * seed + 1, ...
Part = tuple[np.ndarray, np.ndarray]  # the rows that a head trains and is tested on


def evaluate(pairs: list[tuple[Variant, int]], task: str, profile: Profile, split: str, limit: int | None) -> None:
    """Train the heads of several models on one task and record their accuracies; the unit of work of an executor.

    A record is `accuracy`, the mean share of correct answers, and `heads`, that of each head and, in it, each fold.
    """
    from lib.evaluation.heads import Job, train_heads

    arrays = text_sets.task(task, profile)
    inputs, labels, parts = _parts(arrays, split, profile.tasks.limit, limit)
    settings = profile.heads.model_dump()
    repeats = settings.pop("repeats")
    jobs = []
    for variant, seed in pairs:
        features = embeddings.of(variant, seed, profile, split)["tasks"]
        name = f"{variant.identity}, seed {seed}, {task}"
        for head in range(repeats):
            jobs += [Job(features, inputs, labels, *part, HEAD_SEEDS * seed + head, name) for part in parts]
    started = time.perf_counter()
    results = train_heads(jobs, classes=len(arrays["classes"]), **settings)
    seconds = round((time.perf_counter() - started) / len(pairs), 3)  # of one model's heads
    each = repeats * len(parts)
    for number, (variant, seed) in enumerate(pairs):
        heads = [result.accuracy for result in results[number * each : (number + 1) * each]]
        record = {"accuracy": float(np.mean(heads)), "heads": heads}
        recipe = keys.record(variant, seed, task, profile, split, limit)
        store().record(recipe, lambda record=record: record, seconds=seconds)


def _parts(
    arrays: dict[str, np.ndarray], split: str, cut: int, limit: int | None
) -> tuple[np.ndarray, np.ndarray, list[Part]]:
    """A task's inputs (examples, 1 or 2) and labels (examples,), and per fold the rows to train and to test on.

    A task without the split is cross-validated on "train". cut: examples per split in Chapter 4 (split "validation");
    Chapter 5 limits the training examples alone, to `limit`.
    """
    size = cut if split == "validation" else None
    inputs, labels = text_sets.examples(arrays, "train", size)
    if f"labels_{split}" in arrays:
        tested, expected = text_sets.examples(arrays, split, size)
        parts = [(np.arange(len(labels)), len(labels) + np.arange(len(expected)))]
        inputs, labels = np.concatenate([inputs, tested]), np.concatenate([labels, expected])
    else:
        kept = slice(None) if size is None else downsample(arrays["labels_train"], size)
        groups = arrays["groups_train"][kept] if "groups_train" in arrays else None
        parts = _folds(labels, int(arrays["folds"]), groups)
    if limit is not None:
        parts = [(train[downsample(labels[train], limit)], test) for train, test in parts]
    return inputs, labels, parts


def _folds(labels: np.ndarray, count: int, groups: np.ndarray | None) -> list[Part]:
    """Stratified folds in file order, unshuffled (thesis code, IMDB); no group (examples,) is cut."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    return list(kind(count, shuffle=False).split(labels, labels, groups))
