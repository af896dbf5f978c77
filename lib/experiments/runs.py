"""From variants to tidy records: train what is missing, evaluate it, reuse the rest.

    records = run(["cosine", "MSE"], profile=profiles.load("mini"), seeds=[0, 1, 2])

Documents -> token ids and teacher embeddings (`prepare`) -> trained students and their embeddings (`embed`) -> heads
(`accuracies.evaluate`) -> records. Each step is kept in the store and reused exactly when nothing that made it changed
(see `keys`). Independent work goes to any `concurrent.futures.Executor`: processes here, or dask's `get_executor()`.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from lib.config.schema import Profile
from lib.data.dataset_folder import content
from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.evaluation import baselines, metrics
from lib.experiments import (
    accuracies,
    contextual_teacher,
    embeddings,
    keys,
    structural_teacher,
    text_sets,
)
from lib.experiments.models import base_student, device, precision
from lib.store import executors
from lib.store.files import fingerprint
from lib.store.records import store
from lib.tasks import classification_names, read, retrieval_names

RANDOM_RANKINGS = 5  # of each source, for what chance gives
HELD_OUT = 300  # documents at most whose halves are looked for
MODELS_PER_JOB = 8  # models whose heads one job trains: enough to amortise the loop, few enough to occupy all processes
Pair = tuple[Variant, int]  # a model and its seed
Place = tuple[Pair, str]  # where a record belongs: with its task
Seeds = Sequence[int] | dict[str, Sequence[int]]  # of every model, or by identity


def run(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Seeds,
    executor: Executor | None = None,
    tasks: Sequence[str] | None = None,
    split: str = "validation",
    limit: float | None = None,
) -> pd.DataFrame:
    """Tidy records of the models: one row per model, task and seed.

    models: identity labels (`lib.distillation.variants.parse`) or variants. seeds: the same for every model, or a dict
    {identity: seeds} whose missing models get `profile.seeds`. tasks: names; None for all classifications. split:
    "validation" (Chapter 4) or "test" (Chapter 5); a task without that split is cross-validated. The value is the mean
    over folds and `heads.repeats` heads. limit: training examples per head; below 1, the share of a task's.

    Columns: model, the variant's fields, task, metric, split, seed, value, seconds (of the processor), device,
    embedding_fingerprint, fingerprint, by_head (accuracies, a head's folds side by side), and what statistics need:
    scores (array over test examples), groups (`text_sets.groups`), chance. A job's error is raised after the others.
    """
    pairs = models_and_seeds(models, seeds, profile)
    if not (tasks := classification_names(profile) if tasks is None else tasks):
        raise ValueError(
            "tasks.folders names no classification to judge models by; `retrieve` judges by retrievals"
        )
    limits = {task: _examples(task, profile, split, limit) for task in tasks}
    with keys.data_at_rest():
        places = itertools.product(pairs, tasks)
        recipes = {
            (pair, task): keys.record(*pair, task, profile, split, limits[task])
            for pair, task in places
        }
    missing = [place for place, recipe in recipes.items() if not store().has(recipe)]
    if missing:
        embed(list(dict.fromkeys(pair for pair, _ in missing)), profile, executor, split)
        _evaluate(missing, profile, executor, split, limits)
    rows, facts = [], {task: accuracies.examples(task, profile, split) for task in tasks}
    with keys.data_at_rest():
        for (pair, task), recipe in recipes.items():
            record = store().record(recipe, _absent)
            row = _row(pair, task, "accuracy", split, record["accuracy"], profile)
            row |= {
                "fingerprint": fingerprint(recipe),
                "by_head": record["heads"],
                "scores": np.array(record["scores"]),
            }
            rows.append(row | dict(zip(("groups", "chance"), facts[task], strict=True)))
    return pd.DataFrame(rows)


def retrieve(
    models: Iterable[str | Variant],
    *,
    profile: Profile,
    seeds: Seeds,
    executor: Executor | None = None,
    tasks: Sequence[str] | None = None,
    top: int | None = None,
) -> pd.DataFrame:
    """Tidy records of retrieval: rows as of `run`, with the metrics MAP and MRR over all sources of a task.

    tasks: names; None for all retrievals of the profile. top: None ranks every text (the definition of MAP); 1000
    ignores what is ranked lower, as the published numbers do.

    An example of `scores` is one of `queries` with one of its targets, and has the groups of both: the precision at the
    target's rank (MRR: the query's score), its distance from the task's mean weighted so that queries count alike.
    """
    pairs = models_and_seeds(models, seeds, profile)
    embed(pairs, profile, executor, "test")
    scores = {"MAP": metrics.average_precision, "MRR": metrics.reciprocal_rank}
    rows = []
    with keys.data_at_rest():
        for task in retrieval_names(profile) if tasks is None else tasks:
            arrays = text_sets.task(task, profile)
            candidates, sources = arrays["candidates"].tolist(), arrays["sources"].tolist()
            relevant = {
                text: sorted({*arrays[f"targets_{number}"].tolist()})
                for number, text in enumerate(sources)
            }
            examples = np.array(
                [(source, target) for source, targets in relevant.items() for target in targets]
            )
            counts = np.array([len(targets) for targets in relevant.values()])
            weights = np.repeat(len(examples) / (len(sources) * counts), counts)
            facts = {"groups": text_sets.groups(examples, profile), "queries": len(sources)}
            chance = {
                metric: _chance(score, relevant, candidates, top)
                for metric, score in scores.items()
            }
            for pair in pairs:
                vectors = embeddings.of(*pair, profile, "test")["tasks"][candidates]
                vectors = (
                    vectors if isinstance(vectors, np.ndarray) else vectors.toarray()
                )  # TF-IDF's are sparse
                rankings = metrics.rank(vectors, candidates, sources)
                for metric, score in scores.items():
                    each = np.array(
                        [score(relevant[source], rankings[source], top) for source in sources]
                    )
                    row = _row(pair, task, metric, "test", float(each.mean()), profile)
                    parts = np.repeat(each, counts)
                    if metric == "MAP" and top is None:
                        parts = np.concatenate(
                            [_precisions(relevant[source], rankings[source]) for source in sources]
                        )
                    scored = each.mean() + weights * (parts - each.mean())
                    rows.append(row | facts | {"scores": scored, "chance": chance[metric]})
    return pd.DataFrame(rows)


def halves_mrr(model: str | Variant, seed: int, profile: Profile) -> float:
    """Mean reciprocal rank, by cosine, of a held-out document's other half among all halves: no labels, no heads."""
    return float(_halves_ranks(embeddings.of(model, seed, profile)["halves"]).mean())


def halves(student: Any, variant: Variant, profile: Profile) -> pd.DataFrame:
    """What `halves_mrr` averages, on documents that no training reads, for a student and what is there without it.

    A row for the base, the structural teacher, the mean of its chunks, TF-IDF and the student, with `scores` and
    `groups`, arrays over documents, and `chance`: the corpus' validation documents, then what tasks are validated and
    tested on, `HELD_OUT` at most. Of each as many words are read as the student reads tokens.
    """
    documents = [
        (document.text, document.group or document.id)
        for document in text_sets.corpus(profile).validation
    ]
    for task in read(profile).values():
        documents += [
            (task.texts[name], task.groups.get(name, name)) for name in sorted(task.held_out())
        ]
    unique = {
        content(text): (text.split()[: student.max_positions], group) for text, group in documents
    }
    if not (whole := [each for each in unique.values() if len(each[0]) > 1][:HELD_OUT]):
        raise ValueError(f"none of {len(unique)} held-out documents has two words, hence no halves")
    words, groups = zip(*whole, strict=True)
    texts = [" ".join(each[: len(each) // 2]) for each in words] + [
        " ".join(each[len(each) // 2 :]) for each in words
    ]
    teacher, way = structural_teacher.load(profile), precision(profile)
    encoders = {
        "Longformer": lambda: base_student(profile).to(device()).encode(texts, precision=way),
        "SBERT": lambda: teacher.encode(texts),
        "SBERT, mean of chunks": lambda: baselines.mean_of_chunks(teacher, texts),
        "TF-IDF": lambda: baselines.tfidf(text_sets.texts("train", profile), texts).toarray(),
        variant.identity: lambda: student.encode(texts, precision=way),
    }
    scores = []
    for name, encode in (bar := tqdm(encoders.items(), unit="model", leave=False)):
        bar.set_description(f"halves of {len(words)} documents by {name}")
        scores.append(_halves_ranks(encode()).reshape(2, -1).mean(axis=0))
    facts = {
        "task": "halves of documents",
        "metric": "MRR",
        "chance": np.mean(1 / np.arange(1, len(texts))),
    }
    return pd.DataFrame(
        {"model": list(encoders), "scores": scores, "groups": [np.array(groups)] * len(scores)}
        | facts
    )


def _halves_ranks(vectors: np.ndarray) -> np.ndarray:
    """(halves,) reciprocal rank of each half's other half; vectors: all first halves before all second ones."""
    rows, middle = range(len(vectors)), len(vectors) // 2
    rankings = metrics.rank(vectors, rows, rows)
    return np.array(
        [metrics.reciprocal_rank([(row + middle) % len(rows)], rankings[row]) for row in rows]
    )


def prepare(
    profile: Profile,
    executor: Executor | None = None,
    teachers: Iterable[str] = (),
    split: str | None = "validation",
) -> None:
    """What students share: texts, token ids, the structural teacher's embeddings, and the named Paragraph Vectors."""
    names = ("train", *keys.embedded_sets(split).values())
    makers = (text_sets.token_ids, structural_teacher.embeddings)
    jobs: list[Any] = [(make, (name, profile)) for make, name in itertools.product(makers, names)]
    jobs += [(contextual_teacher.paragraph_vector, (label, profile)) for label in teachers]
    executors.submit(jobs, executor, "texts and teachers")


def embed(
    pairs: list[Pair], profile: Profile, executor: Executor | None, split: str | None
) -> None:
    """Shared inputs first, then every model whose embeddings are missing; see `embeddings.of`."""
    recipes = [(pair, keys.embeddings(*pair, profile, split)) for pair in pairs]
    # Most other models depend on no seed: they are there once.
    missing = list(
        {fingerprint(recipe): pair for pair, recipe in recipes if not store().has(recipe)}.values()
    )
    if missing:
        teachers = {
            part for variant, _ in missing for part in (variant.contextual or "").split("+")
        } - {""}
        prepare(profile, executor, sorted(teachers), split)
        # Students with a contextual teacher measure their starting point on the base's embeddings: those come first.
        missing.sort(key=lambda pair: pair[0].kind != "base")
        executors.submit(
            [(embeddings.of, (*pair, profile, split)) for pair in missing], executor, "models"
        )


def _examples(task: str, profile: Profile, split: str, limit: float | None) -> int | None:
    """The limit as a number of examples: a share is one of what heads of the task train on without a limit."""
    if limit is None or limit >= 1:
        return limit if limit is None else int(limit)
    arrays = text_sets.task(task, profile)
    folds = 0 if f"labels_{split}" in arrays else int(arrays["folds"])
    whole = min(
        len(arrays["labels_train"]), profile.tasks.limit if split == "validation" else np.inf
    )
    return max(1, round(limit * whole * (1 - 1 / folds if folds else 1)))


def _evaluate(
    missing: list[Place],
    profile: Profile,
    executor: Executor | None,
    split: str,
    limits: dict[str, int | None],
) -> None:
    """Every missing record: the heads of one task are trained together."""
    groups: dict[tuple[str, str], list[Pair]] = {}
    for pair, task in missing:
        groups.setdefault((task, accuracies.classifier(pair[0], profile)), []).append(pair)
    jobs = []
    for (task, _), group in groups.items():
        parts = (
            group[start : start + MODELS_PER_JOB] for start in range(0, len(group), MODELS_PER_JOB)
        )
        jobs += [
            (accuracies.evaluate, (part, task, profile, split, limits[task])) for part in parts
        ]
    executors.submit(jobs, executor, "classification heads")


def _row(
    pair: Pair, task: str, metric: str, split: str, value: float, profile: Profile
) -> dict[str, Any]:
    variant, seed = pair
    recipe = keys.embeddings(variant, seed, profile, split)
    note = store().note(recipe)
    row = {
        "model": variant.identity,
        **asdict(variant),
        "task": task,
        "metric": metric,
        "split": split,
        "seed": seed,
    }
    row |= {
        "value": value,
        "seconds": note.get("seconds"),
        "device": note.get("device"),
        "fingerprint": "",
    }
    return row | {"embedding_fingerprint": fingerprint(recipe)}


def _precisions(targets: list[int], ranking: list[int]) -> np.ndarray:
    """(targets,) precision at each target's rank; their mean is `metrics.average_precision`."""
    places = {name: place for place, name in enumerate(ranking, 1)}
    ranks = np.array([places.get(target, np.inf) for target in targets])
    return (ranks <= ranks[:, None]).sum(1) / ranks


def _chance(
    score: Callable, relevant: dict[int, list[int]], candidates: list[int], top: int | None
) -> float:
    """What random rankings score."""
    shuffle = np.random.default_rng(0).permutation
    others = {source: [row for row in candidates if row != source] for source in relevant}
    draws = itertools.product(relevant, range(RANDOM_RANKINGS))
    return float(
        np.mean([score(relevant[row], shuffle(others[row]).tolist(), top) for row, _ in draws])
    )


def models_and_seeds(models: Iterable[str | Variant], seeds: Seeds, profile: Profile) -> list[Pair]:
    """Each model, by its label or variant, with each of its seeds; see `run`."""
    wanted = dict.fromkeys(
        model if isinstance(model, Variant) else variants.parse(model) for model in models
    )
    own = seeds if isinstance(seeds, dict) else {variant.identity: seeds for variant in wanted}
    return [
        (variant, seed) for variant in wanted for seed in own.get(variant.identity, profile.seeds)
    ]


def _absent() -> Any:
    raise LookupError("a record vanished while it was read: run again")
