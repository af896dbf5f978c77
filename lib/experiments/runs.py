"""From variants to tidy records: train what is missing, evaluate it, reuse the rest.

    records = run(["cosine", "MSE"], profile=profiles.load("mini"), seeds=[0, 1, 2])

A record is reused exactly when nothing that made it changed (see `inputs` and `embeddings`). Independent work
goes to any `concurrent.futures.Executor`: processes here by default, a cluster's through dask's
`Client.get_executor()`.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from lib.config.profiles import Profile
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.evaluation import metrics
from lib.experiments import embeddings, inputs
from lib.store import executors
from lib.store.records import fingerprint, source_fingerprint

CLASSIFICATION = ("ARXIV", "IMDB", "OC", "AAN", "S2ORC", "PAN")
RETRIEVAL = ("WINES", "GAMES")
HEAD_SEEDS = 1000  # seeds of the heads of one model and seed: 1000 * seed, 1000 * seed + 1, ...
MODELS_PER_JOB = 8  # models whose heads one job trains: enough to amortise the loop, few enough to occupy all processes


def run(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Sequence[int] | dict[str, Sequence[int]],
    executor: Executor | None = None,
    tasks: Sequence[str] = CLASSIFICATION,
    split: str = "validation",
    limit: int | None = None,
) -> pd.DataFrame:
    """Tidy records of the models: one row per model, task and seed.

    models: identity labels (`lib.distillation.variants.parse`) or variants. seeds: the same for every model, or a dict
    {identity: seeds} whose missing models get `profile.seeds`. split: "validation" (Chapter 4) or "test" (Chapter 5);
    a task without that split is cross-validated. The value is the mean over folds and `heads.repeats` heads. limit:
    training examples per head.

    Columns: model, the variant's fields, task, metric, split, seed, value, seconds (training and encoding), device,
    fingerprint (of the record). A student that does not depend on chance (a teacher, the base) still has a head that
    does. Raises the first error of a failed job after all others have finished; what they made is kept.
    """
    pairs = _pairs(models, seeds, profile)
    data = inputs.of(profile)
    missing = [
        pair
        for pair in pairs
        if any(not data.store.has("records", record_key(*pair, task, profile, split, limit)) for task in tasks)
    ]
    if missing:
        embeddings.embed_all(missing, profile, executor, split)
        _evaluate_all(missing, profile, executor, tasks, split, limit)
    rows = []
    for (variant, seed), task in itertools.product(pairs, tasks):
        key = record_key(variant, seed, task, profile, split, limit)
        rows.append(
            _row(
                variant,
                seed,
                task,
                "accuracy",
                split,
                data.store.record("records", key, _absent)["accuracy"],
                key,
                profile,
            )
        )
    return pd.DataFrame(rows)


def retrieve(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Sequence[int] | dict[str, Sequence[int]],
    executor: Executor | None = None,
    tasks: Sequence[str] = RETRIEVAL,
    top: int | None = None,
) -> pd.DataFrame:
    """Tidy records of retrieval: rows as of `run`, with the metrics MAP and MRR over all sources of a task.

    top: None ranks every text (the definition of MAP); 1000 ignores what is ranked lower, as the published numbers do.
    """
    pairs = _pairs(models, seeds, profile)
    embeddings.embed_all(pairs, profile, executor, "test")
    data = inputs.of(profile)
    rows = []
    for (variant, seed), task in itertools.product(pairs, tasks):
        arrays = data.task_arrays(task)
        candidates = arrays["candidates"].tolist()
        sources = arrays["sources"].tolist()
        relevant = {source: arrays[f"targets_{number}"].tolist() for number, source in enumerate(sources)}
        rankings = metrics.rank(embeddings.of(variant, seed, profile, "test")["tasks"][candidates], candidates, sources)
        scores = {"MAP": metrics.mean_average_precision, "MRR": metrics.mean_reciprocal_rank}
        for metric, score in scores.items():
            rows.append(_row(variant, seed, task, metric, "test", score(relevant, rankings, top), "", profile))
    return pd.DataFrame(rows)


def cost(records: pd.DataFrame, profile: Profile) -> str:
    """Where the minutes of these records went, in one line: core-seconds a student, and of the heads.

    Students that an earlier notebook has trained count as well; their time is what it was then.
    """
    store = inputs.of(profile).store
    students = records[records["kind"] == "student"].drop_duplicates(["model", "seed"])["seconds"]
    heads = sum(store.note("records", key).get("seconds", 0.0) for key in records["fingerprint"])
    runs = len(records.drop_duplicates(["model", "seed"]))
    return (
        f"{len(students)} trained students: {students.mean():.0f} core-seconds each for training and encoding, "
        f"{students.sum() / 60:.1f} core-minutes; heads of all {runs} models: {heads / 60:.1f} core-minutes"
    )


def record_key(variant: Variant, seed: int, task: str, profile: Profile, split: str, limit: int | None) -> str:
    """Names one accuracy: the embeddings, the task, the head's settings and source."""
    return fingerprint(
        {
            "embeddings": embeddings.embedding_key(variant, seed, profile, split),
            "task": task,
            "split": split,
            "limit": limit,
            "seed": seed,
            "heads": profile.heads.model_dump(mode="json"),
            "task_limit": profile.tasks.limit,
            "code": source_fingerprint("lib.evaluation.heads"),
        }
    )


def evaluate(pairs: list[tuple[Variant, int]], task: str, profile: Profile, split: str, limit: int | None) -> str:
    """Train the heads of several models on one task and record their accuracies; the unit of work of an executor."""
    from lib.evaluation.heads import Job, train_heads
    from lib.tasks import downsample

    data = inputs.of(profile)
    arrays = data.task_arrays(task)
    cut = profile.tasks.limit if split == "validation" else None  # Chapter 5 limits the training examples alone
    inputs_, labels = inputs.examples(arrays, "train", cut)
    if f"labels_{split}" in arrays:
        tested, expected = inputs.examples(arrays, split, cut)
        parts = [(np.arange(len(labels)), len(labels) + np.arange(len(expected)))]
        inputs_, labels = np.concatenate([inputs_, tested]), np.concatenate([labels, expected])
    else:
        parts = stratified_folds(labels, int(arrays["folds"]))
    if limit is not None:
        parts = [(train[downsample(labels[train], limit)], test) for train, test in parts]
    settings = profile.heads.model_dump()
    repeats = settings.pop("repeats")
    heads = [(variant, seed, head) for variant, seed in pairs for head in range(repeats)]
    jobs = []
    for variant, seed, head in heads:
        features = embeddings.of(variant, seed, profile, split)["tasks"]
        name = f"{variant.identity}, seed {seed}, {task}"
        jobs += [Job(features, inputs_, labels, *part, HEAD_SEEDS * seed + head, name) for part in parts]
    started = time.perf_counter()
    accuracies = [result.accuracy for result in train_heads(jobs, classes=len(arrays["classes"]), **settings)]
    seconds = round((time.perf_counter() - started) / len(pairs), 3)  # of one model's heads
    for (variant, seed), found in zip(pairs, np.reshape(accuracies, (len(pairs), -1)).tolist(), strict=True):
        record = {"accuracy": float(np.mean(found)), "heads": found}
        key = record_key(variant, seed, task, profile, split, limit)
        data.store.record("records", key, functools.partial(dict, record), seconds=seconds)
    return task


def _evaluate_all(
    pairs: list[tuple[Variant, int]],
    profile: Profile,
    executor: Executor | None,
    tasks: Sequence[str],
    split: str,
    limit: int | None,
) -> None:
    """Heads for every missing record: those of one task and input width are trained together."""
    store = inputs.of(profile).store
    jobs = []
    for task in tasks:
        by_width: dict[int, list[tuple[Variant, int]]] = {}
        for variant, seed in pairs:
            if not store.has("records", record_key(variant, seed, task, profile, split, limit)):
                width = embeddings.of(variant, seed, profile, split)["tasks"].shape[1]
                by_width.setdefault(width, []).append((variant, seed))
        for group in by_width.values():
            jobs += [
                (evaluate, (group[i : i + MODELS_PER_JOB], task, profile, split, limit))
                for i in range(0, len(group), MODELS_PER_JOB)
            ]
    executors.submit(jobs, executor, "classification heads")


def stratified_folds(labels: np.ndarray, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(train, test) row numbers of stratified folds in file order, unshuffled (thesis code, IMDB)."""
    from sklearn.model_selection import StratifiedKFold

    return list(StratifiedKFold(folds, shuffle=False).split(np.zeros(len(labels)), labels))


def _row(
    variant: Variant, seed: int, task: str, metric: str, split: str, value: float, key: str, profile: Profile
) -> dict[str, Any]:
    note = inputs.of(profile).store.note("embeddings", embeddings.embedding_key(variant, seed, profile, split))
    return {
        "model": variant.identity,
        **asdict(variant),
        "task": task,
        "metric": metric,
        "split": split,
        "seed": seed,
        "value": value,
        "seconds": note.get("seconds"),
        "device": note.get("device"),
        "fingerprint": key,
    }


def _pairs(
    models: Iterable[str | Variant], seeds: Sequence[int] | dict[str, Sequence[int]], profile: Profile
) -> list[tuple[Variant, int]]:
    wanted = [model if isinstance(model, Variant) else variants.parse(model) for model in models]
    return [(variant, seed) for variant in dict.fromkeys(wanted) for seed in _seeds(variant, seeds, profile)]


def _seeds(variant: Variant, seeds: Sequence[int] | dict[str, Sequence[int]], profile: Profile) -> Sequence[int]:
    return seeds.get(variant.identity, profile.seeds) if isinstance(seeds, dict) else seeds


def _absent() -> Any:
    raise LookupError("a record vanished while it was read: run again")
