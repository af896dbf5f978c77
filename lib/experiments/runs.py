"""From variants to tidy records: train what is missing, evaluate it, reuse the rest.

    records = run(["cosine", "MSE"], profile=profiles.load("mini"), seeds=[0, 1, 2])

Documents -> token ids and teacher embeddings (`prepare`) -> trained students and their embeddings (`embed`) -> heads
(`accuracies.evaluate`) -> records. Each step is kept in the store and reused exactly when nothing that made it changed
(see `keys`). Independent work goes to any `concurrent.futures.Executor`: processes here by default, a cluster's
through dask's `Client.get_executor()`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

import pandas as pd

from lib.config.schema import Profile
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.evaluation import metrics
from lib.experiments import accuracies, contextual_teacher, embeddings, keys, structural_teacher, text_sets
from lib.store import executors
from lib.store.records import Recipe, fingerprint, store
from lib.tasks import classification_names, retrieval_names

MODELS_PER_JOB = 8  # models whose heads one job trains: enough to amortise the loop, few enough to occupy all processes
Pair = tuple[Variant, int]  # a model and its seed


def run(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Sequence[int] | dict[str, Sequence[int]],
    executor: Executor | None = None,
    tasks: Sequence[str] | None = None,
    split: str = "validation",
    limit: int | None = None,
) -> pd.DataFrame:
    """Tidy records of the models: one row per model, task and seed.

    models: identity labels (`lib.distillation.variants.parse`) or variants. seeds: the same for every model, or a dict
    {identity: seeds} whose missing models get `profile.seeds`. tasks: names; None for all classifications. split:
    "validation" (Chapter 4) or "test" (Chapter 5); a task without that split is cross-validated. The value is the mean
    over folds and `heads.repeats` heads. limit: training examples per head.

    Columns: model, the variant's fields, task, metric, split, seed, value, seconds (training and encoding), device,
    fingerprint (of the record). Raises the first error of a failed job after all others; what they made is kept.
    """
    pairs = _pairs(models, seeds, profile)
    tasks = classification_names(profile) if tasks is None else tasks
    places = list(itertools.product(pairs, tasks))
    with keys.data_at_rest():
        recipes = {(pair, task): keys.record(*pair, task, profile, split, limit) for pair, task in places}
    missing = [place for place, recipe in recipes.items() if not store().has(recipe)]
    if missing:
        embed(list(dict.fromkeys(pair for pair, _ in missing)), profile, executor, split)
        _evaluate(missing, profile, executor, split, limit)
    with keys.data_at_rest():
        return pd.DataFrame(
            _row(pair, task, "accuracy", split, store().record(recipe, _absent)["accuracy"], profile, recipe)
            for (pair, task), recipe in recipes.items()
        )


def retrieve(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Sequence[int] | dict[str, Sequence[int]],
    executor: Executor | None = None,
    tasks: Sequence[str] | None = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Tidy records of retrieval: rows as of `run`, with the metrics MAP and MRR over all sources of a task.

    tasks: names; None for all retrievals of the profile. top: None ranks every text (the definition of MAP); 1000
    ignores what is ranked lower, as the published numbers do.
    """
    pairs = _pairs(models, seeds, profile)
    embed(pairs, profile, executor, "test")
    rows = []
    for pair, task in itertools.product(pairs, retrieval_names(profile) if tasks is None else tasks):
        arrays = text_sets.task(task, profile)
        candidates, sources = arrays["candidates"].tolist(), arrays["sources"].tolist()
        relevant = {source: arrays[f"targets_{number}"].tolist() for number, source in enumerate(sources)}
        rankings = metrics.rank(embeddings.of(*pair, profile, "test")["tasks"][candidates], candidates, sources)
        scores = {"MAP": metrics.average_precision, "MRR": metrics.reciprocal_rank}
        values = {name: metrics.mean_over_sources(score, relevant, rankings, top) for name, score in scores.items()}
        rows += [_row(pair, task, metric, "test", value, profile) for metric, value in values.items()]
    return pd.DataFrame(rows)


def prepare(
    profile: Profile, executor: Executor | None = None, teachers: Iterable[str] = (), split: str = "validation"
) -> None:
    """What students share: texts, token ids, the structural teacher's embeddings, and the named Paragraph Vectors."""
    sets = ("train", "validation", keys.task_set(split))
    jobs = [(_prepare, (name, profile)) for name in sets] + [(_teach, (label, profile)) for label in teachers]
    executors.submit(jobs, executor, "texts and teachers")


def embed(pairs: list[Pair], profile: Profile, executor: Executor | None, split: str) -> None:
    """Shared inputs first, then every model whose embeddings are missing."""
    missing = {}  # by fingerprint: only a student depends on the seed
    for pair in pairs:
        recipe = keys.embeddings(*pair, profile, split)
        if not store().has(recipe):
            missing[fingerprint(recipe)] = pair
    if missing:
        teachers = {variant.contextual for variant, _ in missing.values() if variant.contextual}
        prepare(profile, executor, sorted({part for label in teachers for part in label.split("+")}), split)
        # Students with a contextual teacher measure their starting point on the base's embeddings: those come first.
        order = sorted(missing.values(), key=lambda pair: pair[0].kind != "base")
        executors.submit([(_embed, (*pair, profile, split)) for pair in order], executor, "models")


def cost(records: pd.DataFrame) -> str:
    """Where the minutes of these records went, in one line: core-seconds a student, and of the heads.

    Students that an earlier notebook has trained count as well; their time is what it was then.
    """
    students = records[records["kind"] == "student"].drop_duplicates(["model", "seed"])["seconds"]
    heads = records["heads_seconds"].sum()
    runs = len(records.drop_duplicates(["model", "seed"]))
    each = f"{len(students)} trained students: {students.mean():.0f} core-seconds each for training and encoding"
    return f"{each}, {students.sum() / 60:.1f} core-minutes; heads of all {runs} models: {heads / 60:.1f} core-minutes"


def _prepare(name: str, profile: Profile) -> str:
    text_sets.token_ids(name, profile)
    structural_teacher.embeddings(name, profile)
    return name


def _teach(label: str, profile: Profile) -> str:
    contextual_teacher.paragraph_vector(label, profile)
    return label


def _embed(variant: Variant, seed: int, profile: Profile, split: str) -> str:
    embeddings.of(variant, seed, profile, split)
    return variant.identity


def _evaluate(
    missing: list[tuple[Pair, str]], profile: Profile, executor: Executor | None, split: str, limit: int | None
) -> None:
    """Heads for every missing record: those of one task and input width are trained together."""
    groups: dict[tuple[str, int], list[Pair]] = {}
    for pair, task in missing:
        width = embeddings.of(*pair, profile, split)["tasks"].shape[1]
        groups.setdefault((task, width), []).append(pair)
    jobs = [
        (accuracies.evaluate, (group[start : start + MODELS_PER_JOB], task, profile, split, limit))
        for (task, _), group in groups.items()
        for start in range(0, len(group), MODELS_PER_JOB)
    ]
    executors.submit(jobs, executor, "classification heads")


def _row(
    pair: Pair, task: str, metric: str, split: str, value: float, profile: Profile, record: Recipe | None = None
) -> dict[str, Any]:
    variant, seed = pair
    recipe = keys.embeddings(variant, seed, profile, split)
    note = store().note(recipe)
    row = {"model": variant.identity, **asdict(variant), "task": task, "metric": metric, "split": split, "seed": seed}
    row |= {"value": value, "seconds": note.get("seconds"), "device": note.get("device")}
    row |= {"heads_seconds": store().note(record).get("seconds") if record else 0.0}
    return row | {"fingerprint": fingerprint(record) if record else "", "embedding_fingerprint": fingerprint(recipe)}


def _pairs(
    models: Iterable[str | Variant], seeds: Sequence[int] | dict[str, Sequence[int]], profile: Profile
) -> list[Pair]:
    wanted = dict.fromkeys(model if isinstance(model, Variant) else variants.parse(model) for model in models)
    own = seeds if isinstance(seeds, dict) else {variant.identity: seeds for variant in wanted}
    return [(variant, seed) for variant in wanted for seed in own.get(variant.identity, profile.seeds)]


def _absent() -> Any:
    raise LookupError("a record vanished while it was read: run again")
