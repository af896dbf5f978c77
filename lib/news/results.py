"""Clusters of documents, how well they match the events, and a record for each model."""

import time
import timeit
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.cluster import hierarchy
from scipy.sparse import csr_array
from scipy.spatial.distance import squareform
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.metrics.pairwise import cosine_distances

from lib import published
from lib.config import profiles
from lib.news import training
from lib.news.chapter import NOT_TRAINED, ONE, TEACHER, TFIDF, TFIDF_BEFORE, TOKENS, News
from lib.news.events import TESTED, Side
from lib.news.students import NewsStudent, count_megabytes
from lib.statistics.intervals import Evidence, from_runs
from lib.store import Arrays, Product, hash_arrays, hash_texts

# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
TIMED, REPEATS = 10, 3  # documents whose embedding is timed, one at a time; and times of each
NEAR_ONE_CLUSTER = 0.02  # a model whose F1 is within this of one cluster's is marked as collapsed
DRAWS = 2000  # bootstrap draws of a side's events
# Standard deviation of a student's mean F1 due to the processor: between two sets of kernels mini's
# 50 students differed by .0140 = .0099 * sqrt(2). Cutting a tree turns last bits into clusters.
PROCESSOR_SD = 0.0099


def link(vectors: np.ndarray | csr_array) -> np.ndarray:
    """The (documents - 1, 4) merges of average linkage by cosine distance.

    A row of zeros, a document without known words, has distance 1 to all others.
    """
    distances = cosine_distances(vectors.astype(np.float64))
    return hierarchy.linkage(squareform(distances, checks=False), "average")


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


def score(clusters: np.ndarray, side: Side, seed: int = 0) -> dict[str, Any]:
    """How well clusters (documents,) match a side.

    On the labelled pairs: `f1`, `precision` and `recall`, from 0 to 1, and `draws`, (DRAWS,) F1
    with redrawn events (bootstrap). `f1_all` is F1 on all pairs, NaN if not all events are known.
    `collapsed`: there is one cluster, or F1 is near that of one cluster, which is 2p / (1 + p) with
    a share p of positives.
    """
    same = np.equal(*clusters[side.pairs].T)
    columns = np.stack([same & side.positive, same, side.positive], 1)
    hits, together, positive = columns.sum(0)
    drawn = (draw_pairs(side, DRAWS, seed) @ columns).T
    f1, share = 2 * hits / (together + positive), side.positive.mean()
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
    count, single = len(np.unique(clusters)), 2 * share / (1 + share)
    return {
        "f1": f1,
        "precision": hits / max(together, 1),
        "recall": hits / positive,
        "cluster_size": len(clusters) / count,
        "f1_all": 2 * hit / (2 * hit + wrong + missed) if side.complete else np.nan,
        "collapsed": count == 1 or bool(abs(f1 - single) <= NEAR_ONE_CLUSTER),
        "draws": 2 * drawn[0] / np.maximum(drawn[1] + drawn[2], 1),
    }


def draw_pairs(side: Side, draws: int, seed: int) -> np.ndarray:
    """(draws, pairs) float64: how often each pair counts when events are redrawn.

    A positive pair counts as often as its event is drawn, a negative one as often as its first
    event times as often as its second.
    """
    names, events = np.unique(side.events, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(seed).multinomial(len(names), shares, draws)
    first, second = events[side.pairs].T
    return (counts[:, first] * np.where(side.positive, 1, counts[:, second])).astype(float)


def score_model(vectors: Mapping[str, Any], sides: Mapping[str, Side]) -> list[dict[str, Any]]:
    """`score`, side, threshold, and events (their number) for each tested side; vectors are those
    of `News.embed`, and the threshold suits the training pairs."""
    threshold, rows = choose_threshold(link(vectors["train"]), sides["train"]), []
    for seed, name in enumerate(TESTED):
        clusters = hierarchy.fcluster(link(vectors[name]), threshold, "distance")
        row = {"side": name, "threshold": threshold, "events": len({*sides[name].events.tolist()})}
        rows.append(row | score(clusters, sides[name], seed))
    return rows


def list_models(news: News) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, and the students of paper and ours that the profile chooses."""
    profile = news.profile
    everything = (*published.news_students(), *published.OWN_NEWS)
    students = [name for name in everything if profiles.matches(name, profile.only or "*")]
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
    pairs = [(model, seed) for model, seeds in list_models(news).items() for seed in seeds]
    news.prepare(pairs)
    records = []
    for model, seed in pairs:
        size, time_ms = measure_cost(news, model)
        facts = {"model": model, "seed": seed, "size_mb": size, "ms_per_document": time_ms}
        records += [facts | row for row in score_model(news.embed(model, seed), news.sides)]
    return pd.DataFrame(records)


def measure_cost(news: News, name: str) -> tuple[float, float]:
    """Megabytes of a model, and CPU milliseconds per document, one at a time: the shortest of
    several times. Students are untrained: weights do not matter. Costs are kept, because a second
    measurement would differ. Clusters and words have none (NaN)."""
    if name in (ONE, TFIDF, TFIDF_BEFORE):
        return np.nan, np.nan
    teacher, texts, width = news.teacher, news.sides["public"].texts[:TIMED], news.profile.width
    inputs = {"teacher": teacher.product, "model": name, "width": width}
    inputs["texts"] = hash_arrays(hash_texts(texts))

    def measure() -> Arrays:
        sbert, table = teacher.sbert, training.read_table(teacher)
        if name == TOKENS:
            return {"cost": [4 * table.size / 2**20, np.nan]}
        if name == TEACHER:  # on the CPU even if there is a GPU, as the students
            model, encode, rows = sbert.model.to("cpu"), sbert.encode, texts
        else:
            model = NewsStudent(name, table.shape, sbert.dim, width)
            encode, rows = model.encode, training.read_ids(teacher, texts)[:]
        options = {"timer": time.process_time, "repeat": REPEATS, "number": 1}
        times = [min(timeit.repeat(partial(encode, [row]), **options)) for row in rows]
        return {"cost": [count_megabytes(model), 1000 * np.median(times)]}

    product = Product("news_costs", inputs, training.MODULES, ("torch", "transformers"), name)
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
    smaller, faster = (teacher / student)[["size_mb", "ms_per_document"]]
    numbers = {"news_f1_lost": teacher["f1"] - student["f1"], "news_times_smaller": smaller}
    return numbers | {"news_times_faster": faster}
