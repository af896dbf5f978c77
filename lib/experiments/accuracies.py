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


def classifier(variant: Variant, profile: Profile) -> str:
    """What classifies with a model's embeddings: the profile's choice, but logistic regression with TF-IDF."""
    return "logistic regression" if variant.kind == "tfidf" else profile.heads.classifier


def evaluate(
    pairs: list[tuple[Variant, int]], task: str, profile: Profile, split: str, limit: int | None
) -> None:
    """Classify with models of one `classifier` and record how well, where that is not recorded yet; the unit of work of
    an executor.

    A record is `accuracy`, the mean share of correct answers; `heads`, that of each head and, in it, each fold; and
    `scores`, of each test example the share of heads that are right.
    """
    from lib.evaluation import classifiers
    from lib.evaluation.heads import Job, train_heads

    with keys.data_at_rest():
        recipes = {pair: keys.record(*pair, task, profile, split, limit) for pair in pairs}
    if not (pairs := [pair for pair in pairs if not store().has(recipes[pair])]):
        return
    arrays = text_sets.task(task, profile)
    inputs, labels, parts = _parts(arrays, split, profile.tasks.limit, limit)
    settings, method = (
        profile.heads.model_dump(exclude={"repeats", "classifier"}),
        classifier(pairs[0][0], profile),
    )
    repeats = profile.heads.repeats if method == "head" else 1  # the others depend on no seed
    jobs = []
    for variant, seed in pairs:
        features = embeddings.of(variant, seed, profile, split)["tasks"]
        name = f"{variant.identity}, seed {seed}, {task}"
        for head in range(repeats):
            jobs += [
                Job(features, inputs, labels, *part, HEAD_SEEDS * seed + head, name)
                for part in parts
            ]
    started = time.process_time()
    if method == "head":
        results = train_heads(jobs, classes=len(arrays["classes"]), **settings)
        right = [
            result.predictions == labels[job.test]
            for result, job in zip(results, jobs, strict=True)
        ]
    else:
        predict = (
            classifiers.by_similarity if method == "similarity" else classifiers.logistic_regression
        )
        right = [predict(job) == labels[job.test] for job in jobs]
    seconds = round((time.process_time() - started) / len(pairs), 3)  # of one model
    tested, each = np.concatenate([test for _, test in parts]), repeats * len(parts)
    for number, pair in enumerate(pairs):
        own = right[number * each : (number + 1) * each]
        heads = [float(np.mean(answers)) for answers in own]
        scores = np.concatenate(own).reshape(repeats, len(tested)).mean(0)[np.argsort(tested)]
        record = {"accuracy": float(np.mean(heads)), "heads": heads, "scores": scores.tolist()}
        store().record(recipes[pair], lambda record=record: record, seconds=seconds)


def examples(task: str, profile: Profile, split: str) -> tuple[np.ndarray, float]:
    """Of the examples that `evaluate` scores: their groups (examples, 1 or 2), and the share of the largest class."""
    inputs, labels, parts = _parts(text_sets.task(task, profile), split, profile.tasks.limit, None)
    tested = np.sort(np.concatenate([test for _, test in parts]))
    return text_sets.groups(inputs[tested], profile), float(
        np.bincount(labels[tested]).max() / len(tested)
    )


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
