"""Clusters of documents, how well they match the events, and a record for each model."""

import time
import timeit
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
from lib.news.chapter import NOT_TRAINED, TEACHER, TESTED, TOKENS, News, Side
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
F1_PROCESSOR_SD = 0.0099  # of a student's mean F1, due to the processor: docs/reproducibility.md


def link(vectors: np.ndarray | csr_array) -> np.ndarray:
    """(documents - 1, 4) merges of average linkage by cosine distance, 1 from a row of zeros."""
    distances = cosine_distances(vectors.astype(np.float64))
    return hierarchy.linkage(squareform(distances, checks=False), "average")


def choose_threshold(merges: np.ndarray, side: Side) -> float:
    """The distance that cuts the tree for the best F1 on the side's labelled pairs: halfway between
    the best merge height, the lowest of equally good ones, and the next.
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
    `collapsed`: there is one cluster, or F1 is near that of one, which joins every pair.
    """
    same = np.equal(*clusters[side.pairs].T)
    columns = np.stack([same & side.positive, same, side.positive], 1)
    hits, together, positive = columns.sum(0)
    drawn = (redraw_events(side, seed) @ columns).T
    f1, single = 2 * hits / (together + positive), 2 * positive / (len(same) + positive)
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
    count = len(np.unique(clusters))
    return {
        "f1": f1,
        "precision": hits / max(together, 1),
        "recall": hits / positive,
        "cluster_size": len(clusters) / count,
        "f1_all": 2 * hit / (2 * hit + wrong + missed) if side.complete else np.nan,
        "collapsed": count == 1 or bool(abs(f1 - single) <= NEAR_ONE_CLUSTER),
        "draws": 2 * drawn[0] / np.maximum(drawn[1] + drawn[2], 1),
    }


def redraw_events(side: Side, seed: int) -> np.ndarray:
    """(DRAWS, pairs) counts of pairs when events are redrawn; a negative one needs both events."""
    names, events = np.unique(side.events, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(seed).multinomial(len(names), shares, DRAWS)
    first, second = events[side.pairs].T
    return (counts[:, first] * np.where(side.positive, 1, counts[:, second])).astype(float)


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
    """A row for each model, seed and tested side: these, size_mb, ms_per_document, threshold (the
    best on the training pairs), events (how many), and `score`. Missing models are trained.
    """
    pairs = [(model, seed) for model, seeds in list_models(news).items() for seed in seeds]
    news.prepare(pairs)
    sides, records = news.sides, []
    for model, seed in pairs:
        vectors, (size, time_ms) = news.embed(model, seed), measure_cost(news, model)
        facts = {"model": model, "seed": seed, "size_mb": size, "ms_per_document": time_ms}
        facts["threshold"] = choose_threshold(link(vectors["train"]), sides["train"])
        for number, name in enumerate(TESTED):
            clusters = hierarchy.fcluster(link(vectors[name]), facts["threshold"], "distance")
            facts |= {"side": name, "events": len(np.unique(sides[name].events))}
            records.append(facts | score(clusters, sides[name], seed=number))
    return pd.DataFrame(records)


def measure_cost(news: News, name: str) -> tuple[float, float]:
    """Megabytes of a model, and CPU milliseconds for a document alone, the least of several times;
    NaN for none. Weights do not matter. They are kept: a second measurement would differ.
    """
    if name in {*NOT_TRAINED} - {TEACHER, TOKENS}:
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
    noise = {"sampling": np.cov(np.stack(draws)), "processor": F1_PROCESSOR_SD**2 / runs}
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
