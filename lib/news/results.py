"""Clusters of documents, how well they match the events, and a record for each model."""

import functools
import time
import timeit
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster import hierarchy
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.metrics.pairwise import cosine_distances

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.news import chapter, training
from lib.news.chapter import NOT_TRAINED, TEACHER, News
from lib.news.events import TESTED, Side
from lib.news.students import NewsStudent, count_megabytes
from lib.statistics.intervals import Evidence, from_runs
from lib.store import Arrays, NotComputed, Product, hash_arrays, hash_texts

# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
BASELINES = (*NOT_TRAINED, "bag;cosine")  # in every table of ours, below the paper's rows
TIMED, REPEATS = 10, 3  # documents whose embedding is timed, one at a time; and times of each
NEAR_ONE_CLUSTER = 0.02  # a model whose F1 is within this of one cluster's is marked as collapsed
DRAWS = 2000  # bootstrap draws of a side's events
# Standard deviation of a student's mean F1 due to the processor: between two sets of kernels mini's
# 50 students differed by .0140 = .0099 * sqrt(2). Cutting a tree turns last bits into clusters.
PROCESSOR_SD = 0.0099


def link(vectors: np.ndarray | csr_array) -> np.ndarray:
    """The (documents - 1, 4) merges of average linkage by cosine distance.

    A sparse row of zeros, a document without known words, has distance 1 to all others. scipy
    refuses a dense one.
    """
    if issparse(vectors):
        distances = squareform(cosine_distances(vectors), checks=False)
    else:
        distances = np.maximum(pdist(vectors, "cosine"), 0)
    return hierarchy.linkage(distances, "average")


def choose_threshold(merges: np.ndarray, side: Side) -> float:
    """The distance at which cutting the tree gives the best F1 on the side's labelled pairs.

    It is halfway between the best merge height, the lowest of equally good ones, and the next.
    """
    heights = np.unique(merges[:, 2])
    joined = squareform(hierarchy.cophenet(merges))[*side.pairs.T]
    # Of the pairs joined at or below each height: how many are positive, and how many in all.
    right = np.searchsorted(np.sort(joined[side.positive]), heights, "right")
    total = np.searchsorted(np.sort(joined), heights, "right")
    best = int(np.argmax(2 * right / (total + side.positive.sum())))
    return float(heights[best : best + 2].mean())


def score(clusters: np.ndarray, side: Side) -> dict[str, float]:
    """How well clusters (documents,) match a side.

    On the labelled pairs: `f1`, `precision` and `recall`, from 0 to 1. `f1_all` is F1 on all pairs,
    NaN if not all events are known. `collapsed`: there is one cluster, or F1 is near that of one
    cluster, which is 2p / (1 + p) with a share p of positives.
    """
    same = np.equal(*clusters[side.pairs].T)
    right, share = (same & side.positive).sum(), side.positive.mean()
    f1, single = 2 * right / (same.sum() + side.positive.sum()), 2 * share / (1 + share)
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
    count = len(np.unique(clusters))
    return {
        "f1": f1,
        "precision": right / max(same.sum(), 1),
        "recall": right / side.positive.sum(),
        "cluster_size": len(clusters) / count,
        "f1_all": 2 * hit / (2 * hit + wrong + missed) if side.complete else np.nan,
        "collapsed": count == 1 or bool(abs(f1 - single) <= NEAR_ONE_CLUSTER),
    }


def draw_pairs(side: Side, draws: int, seed: int) -> np.ndarray:
    """(draws, pairs) float64: how often each pair counts when events are redrawn (bootstrap).

    A positive pair counts as often as its event is drawn, a negative one as often as its first
    event times as often as its second.
    """
    names, events = np.unique(side.events, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(seed).multinomial(len(names), shares, draws)
    first, second = events[side.pairs].T
    return (counts[:, first] * np.where(side.positive, 1, counts[:, second])).astype(float)


def score_draws(clusters: np.ndarray, side: Side, weights: np.ndarray) -> np.ndarray:
    """(draws,) F1 with the weights of `draw_pairs`; threshold and clusters stay the same."""
    same = np.equal(*clusters[side.pairs].T)
    columns = np.stack([same & side.positive, same, side.positive], 1)
    hit, predicted, actual = (weights @ columns).T
    return 2 * hit / np.maximum(predicted + actual, 1)


def score_model(
    vectors: Mapping[str, Any], sides: Mapping[str, Side], weights: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """A model's scores on both tested sides, with the threshold that suits the training pairs:
    side, threshold, events (their number), draws ((draws,) F1 with redrawn events), `score`."""
    threshold = choose_threshold(link(vectors["train"]), sides["train"])
    rows = []
    for name in TESTED:
        side = sides[name]
        clusters = hierarchy.fcluster(link(vectors[name]), threshold, "distance")
        row = {"side": name, "threshold": threshold, "events": len(np.unique(side.events))}
        row["draws"] = score_draws(clusters, side, weights[name])
        rows.append(row | score(clusters, side))
    return rows


def list_models(news: News) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, and the students of paper and ours that the profile chooses."""
    profile = news.profile
    students = [*published.news_students(), *published.OWN_NEWS]
    students = [name for name in students if profiles.matches(name, profile.only or "*")]
    if profile.max_variants is not None:
        always = (*REFERENCES, "bag;cosine")
        students.sort(key=lambda name: name not in always)
        students = students[: len(always) + profile.max_variants]
    seeds = dict.fromkeys(students, profile.seeds) | dict.fromkeys(NOT_TRAINED, (0,))
    repeated = tuple(sorted({*profile.seeds, *profile.reference_seeds}))
    return seeds | {model: repeated for model in REFERENCES if model in seeds}


def make_records(news: News) -> pd.DataFrame:
    """A row for each model, seed and tested side: model, seed, size_mb, ms_per_document, and what
    `score_model` gives. Missing models are trained."""
    seeds_of = list_models(news)
    pairs = [(model, seed) for model, seeds in seeds_of.items() for seed in seeds]
    news.prepare(pairs)
    sizeless = (chapter.ONE, chapter.TFIDF, chapter.TFIDF_BEFORE)
    costs = {model: measure_cost(news, model) for model in seeds_of if model not in sizeless}
    sides, records = news.sides, []
    weights = {name: draw_pairs(sides[name], DRAWS, seed) for seed, name in enumerate(TESTED)}
    for model, seed in pairs:
        size, time_ms = costs.get(model, (np.nan, np.nan))
        facts = {"model": model, "seed": seed, "size_mb": size, "ms_per_document": time_ms}
        records += [facts | row for row in score_model(news.embed(model, seed), sides, weights)]
    return pd.DataFrame(records)


def read_records(bench: Bench) -> pd.DataFrame | None:
    """`make_records` if the store has everything, else None."""
    try:
        return make_records(News(bench.reading()))
    except NotComputed:
        return None


def measure_cost(news: News, name: str) -> tuple[float, float]:
    """Megabytes of a model, and CPU milliseconds per document, one at a time: the shortest of
    several times. Students are untrained: weights do not matter. Costs are kept, because a second
    measurement would differ."""
    teacher, texts, width = news.teacher, news.sides["public"].texts[:TIMED], news.profile.width
    inputs = {"teacher": teacher.product, "model": name, "width": width}
    inputs["texts"] = hash_arrays(hash_texts(texts))
    product = Product("news_costs", inputs, training.MODULES, ("torch", "transformers"), name)

    def measure() -> Arrays:
        sbert, table = teacher.sbert, training.read_table(teacher)
        if name == chapter.TOKENS:
            return {"cost": [4 * table.size / 2**20, np.nan]}
        if name == TEACHER:  # on the CPU even if there is a GPU, as the students
            model, encode, rows = sbert.model.to("cpu"), sbert.encode, texts
        else:
            model = NewsStudent(name, table.shape, sbert.dim, width)
            encode, rows = model.encode, training.read_ids(teacher, texts)[:]
        options = {"timer": time.process_time, "repeat": REPEATS, "number": 1}
        calls = (functools.partial(encode, [row]) for row in rows)
        times = [min(timeit.repeat(call, **options)) for call in calls]
        return {"cost": [count_megabytes(model), 1000 * np.median(times)]}

    return tuple(news.store.get(product, measure)["cost"].tolist())


def collect_evidence(scores: pd.DataFrame) -> Evidence:
    """Mean F1 of both sides in `make_records`, with noise from seeds, events and processors."""
    values = scores.pivot(index=["model", "seed"], columns="side", values="f1")
    evidence = from_runs(values[[*TESTED]])
    names = evidence.means.index
    draws = scores.groupby("model")["draws"].agg(lambda parts: np.mean([*parts], axis=0))[names]
    runs = np.where(names.isin(NOT_TRAINED), np.inf, evidence.runs)
    events = float(scores.groupby("side")["events"].first().sum())
    noise = {"sampling": np.cov(np.stack(draws)), "processor": PROCESSOR_SD**2 / runs}
    return replace(evidence, runs=runs, groups=events, **noise)


def compare_with_promise(scores: pd.DataFrame) -> dict[str, float]:
    """F1 that the chosen student loses, and how many times smaller and faster; or nothing."""
    means = scores.groupby("model")[["f1", "size_mb", "ms_per_document"]].mean()
    if CHOSEN not in means.index:
        return {}
    teacher, student = means.loc[TEACHER], means.loc[CHOSEN]
    return {
        "news_f1_lost": float(teacher["f1"] - student["f1"]),
        "news_times_smaller": float(teacher["size_mb"] / student["size_mb"]),
        "news_times_faster": float(teacher["ms_per_document"] / student["ms_per_document"]),
    }
