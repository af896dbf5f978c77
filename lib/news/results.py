"""Clusters of documents and how well they match the events; records, the paper's tables with ours."""

import functools
import time
import timeit
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster import hierarchy
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.metrics.pairwise import cosine_distances

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.figures.style import COLORS, INK, labelled, panels, settings, style
from lib.news import chapter, training
from lib.news.chapter import NOT_TRAINED, ONE, TEACHER, News
from lib.news.events import TESTED, Side
from lib.news.students import NewsStudent, count_megabytes
from lib.statistics.intervals import Evidence, from_runs
from lib.store import Arrays, NotComputed, Product, hash_arrays, hash_texts

# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
TIMED = 10  # documents whose embedding is timed, one at a time
REPEATS = 3  # of a measured time
NEAR_ONE_CLUSTER = 0.02  # a model whose F1 is within this of one cluster's is marked as collapsed
DRAWS = 2000  # bootstrap draws of a side's events
# Standard deviation of a student's mean F1 due to the processor: between two sets of kernels mini's
# 50 students differed by .0140 = .0099 * sqrt(2). Cutting a tree turns last bits into clusters.
PROCESSOR_SD = 0.0099
BASELINES = (*NOT_TRAINED, "bag;cosine")  # in every table of ours, below the paper's rows
# Share of positive pairs in the published annotations of 27 and 29 May 2020.
POSITIVE = {"public": 3918 / 8493, "private": 3897 / 8480}
# Models without a size are drawn as lines.
_SIZELESS = {ONE: "--", chapter.TFIDF: ":", chapter.TFIDF_BEFORE: "-."}
_FAMILIES = ("LSTM", "GRU", "RNN", "Transformer", "CNN", "FFN", "bag", "encoder")


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
    low, high = np.sort(side.pairs).T
    place = low * len(side.texts) - low * (low + 1) // 2 + high - low - 1  # in the condensed form
    joined = hierarchy.cophenet(merges)[place]
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
    count = len(np.unique(clusters))
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
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
    """A row for each model, seed and tested side. Missing models are trained.

    Columns: model, seed, those of `score_model`, size_mb, ms_per_document.
    """
    seeds_of = list_models(news)
    pairs = [(model, seed) for model, seeds in seeds_of.items() for seed in seeds]
    news.prepare(pairs)
    costs = measure_costs(news, [model for model in seeds_of if model not in NOT_TRAINED])
    sides, records = news.sides, []
    weights = {name: draw_pairs(sides[name], DRAWS, seed) for seed, name in enumerate(TESTED)}
    for model, seed in pairs:
        size, time_ms = costs.get(model, (np.nan, np.nan))
        facts = {"model": model, "seed": seed, "size_mb": size, "ms_per_document": time_ms}
        records += [facts | row for row in score_model(news.embed(model, seed), sides, weights)]
    return pd.DataFrame(records)


def measure_costs(news: News, students: Sequence[str]) -> dict[str, tuple[float, float]]:
    """{model: (megabytes, CPU milliseconds per document, one at a time)}, also of the teacher.

    The shortest of several times counts. Students are untrained: weights do not matter. Costs are
    kept, because a second measurement would differ.
    """
    teacher, width = news.teacher, news.profile.width
    texts = news.sides["public"].texts[:TIMED]
    inputs = {"teacher": teacher.product, "students": [*students], "width": width}
    inputs["texts"] = hash_arrays(hash_texts(texts))
    packages = ("torch", "transformers")
    product = Product("news_costs", inputs, training.MODULES, packages, "sizes and times")
    table = training.read_table(teacher)

    def measure() -> Arrays:
        sbert, ids = teacher.sbert, training.read_ids(teacher, texts)[:]
        sbert.model.to("cpu")  # even if there is a GPU: the paper's times are CPU times
        costs = [(count_megabytes(sbert.model), _time(sbert.encode, texts))]
        for name in students:
            student = NewsStudent(name, table.shape, sbert.dim, width)
            costs.append((count_megabytes(student), _time(student.encode, ids)))
        return {"costs": costs}

    costs = news.store.get(product, measure)["costs"]
    tokens = (4 * table.size / 2**20, np.nan)
    return dict(zip((TEACHER, *students), costs, strict=True)) | {chapter.TOKENS: tokens}


def _time(encode: Callable[[Any], Any], rows: Sequence[Any]) -> float:
    calls = (functools.partial(encode, [row]) for row in rows)
    timers = [timeit.Timer(call, timer=time.process_time) for call in calls]
    return 1000 * float(np.median([min(timer.repeat(REPEATS, 1)) for timer in timers]))


def score_model(
    vectors: Mapping[str, Any], sides: Mapping[str, Side], weights: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """A model's scores on both tested sides, with the threshold that suits the training pairs.

    Those of `score`, and side, threshold, events (their number), draws ((`DRAWS`,) F1
    with redrawn events, the same draws for every model).
    """
    threshold = choose_threshold(link(vectors["train"]), sides["train"])
    rows = []
    for name in TESTED:
        side, tree = sides[name], link(vectors[name])
        clusters = hierarchy.fcluster(tree, threshold, "distance")
        row = {"side": name, "threshold": threshold, "events": len(np.unique(side.events))}
        row["draws"] = score_draws(clusters, side, weights[name])
        rows.append(row | score(clusters, side))
    return rows


def read_records(bench: Bench) -> pd.DataFrame | None:
    """`make_records` if the store has everything, else None."""
    try:
        return make_records(News(bench.reading()))
    except NotComputed:
        return None


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


def compare_with_promise(ours: pd.DataFrame) -> dict[str, float]:
    """F1 that the chosen student loses, and how many times smaller and faster; or nothing."""
    rows = ours.set_index("model")
    if CHOSEN not in rows.index:
        return {}
    teacher, student = rows.loc[TEACHER], rows.loc[CHOSEN]
    f1 = [f"f1_{side}" for side in TESTED]
    return {
        "news_f1_lost": float((teacher[f1] - student[f1]).mean() / 100),
        "news_times_smaller": float(teacher["size_mb"] / student["size_mb"]),
        "news_times_faster": float(teacher["ms_per_document"] / student["ms_per_document"]),
    }


def summarize(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: means over seeds, and 95% intervals of F1 over redrawn events.

    Columns: model, seeds; for each side f1_, low_, high_, recall_, precision_, f1_all_ (percent),
    cluster_size_, collapsed_ (with any seed); size_mb, ms_per_document.
    """
    sides = scores.groupby(["model", "side"], sort=False)
    table = 100 * sides[["f1", "recall", "precision", "f1_all"]].mean()
    draws = [np.mean([*part], axis=0) for _, part in sides["draws"]]
    table[["low", "high"]] = 100 * np.quantile(draws, [0.025, 0.975], axis=1).T
    table = table.join(sides.agg({"cluster_size": "mean", "collapsed": "any"})).unstack(sort=False)
    table.columns = [f"{name}_{side}" for name, side in table.columns]
    groups = scores.groupby("model", sort=False)
    table = table.join(groups[["size_mb", "ms_per_document"]].first())
    return table.assign(seeds=groups["seed"].nunique()).reset_index()


def make_table(number: int, ours: pd.DataFrame) -> pd.DataFrame:
    """Table `number` of the paper next to `ours` (see `summarize`), then our baselines."""
    theirs = published.load(f"news_tab{number}").set_index("identity")
    shown = ("f1_public", "f1_private", "recall_public", "precision_public", "cluster_size_public")
    columns = [name for name in (*shown, "size_mb", "ms_per_document") if name in theirs]
    mine = ours.set_index("model").reindex(dict.fromkeys((*theirs.index, *BASELINES)))
    frame = pd.DataFrame(index=mine.index)
    for name in columns:
        frame[name], frame[f"{name} (published)"] = mine[name], pd.to_numeric(theirs[name])
    sides = [side for side in TESTED if f"f1_{side}" in columns]
    extra = [f"{part}_{side}" for side in sides for part in ("low", "high", "f1_all", "collapsed")]
    return frame.join(mine[[*extra, "seeds"]]).reset_index()


def collect_sizes(ours: pd.DataFrame) -> pd.DataFrame:
    """The data of `news_fig1`: published rows, and those of `summarize` or of an empty frame.

    `f1` is the mean of both sides, in percent.
    """
    facts = ["model", "size_mb", "ms_per_document"]
    printed = published.load(published.NEWS).set_index([*facts, "task"])["value"]
    theirs = 100 * printed.unstack(sort=False).add_prefix("f1_")
    theirs = theirs.reset_index().replace(
        {"size_mb": {"": np.nan}, "ms_per_document": {"": np.nan}}
    )
    one = {f"f1_{side}": 200 * share / (1 + share) for side, share in POSITIVE.items()}
    theirs = pd.concat([theirs, pd.DataFrame([{"model": ONE} | one])])
    frame = pd.concat([theirs.assign(source="published"), ours.assign(source="ours")])
    frame[facts[1:]] = frame[facts[1:]].apply(pd.to_numeric)
    frame["f1"] = frame[["f1_public", "f1_private"]].mean(axis=1)
    families = frame["model"].str.extract(f"^[^;]*?({'|'.join(_FAMILIES)})", expand=False)
    frame["family"] = families.fillna("encoder")
    columns = ["source", "model", "family", "size_mb", "f1_public", "f1_private", "f1"]
    drawn = frame["f1"].notna() & (frame["size_mb"].notna() | frame["model"].isin(_SIZELESS))
    return frame.loc[drawn, [*columns, "ms_per_document"]].reset_index(drop=True)


@style()
def draw_sizes(frame: pd.DataFrame) -> Figure:
    """`news_fig1` from `collect_sizes`: F1 against size, a panel for each source, ours on the left.

    Families are shifted a little, so that markers of equal sizes do not hide each other.
    """
    sources = sorted(frame["source"].unique(), key=lambda name: name != "ours")
    figure, (axes,) = panels(len(sources), 4.4, sharex=True, sharey=True)
    text = {"textcoords": "offset points", "fontsize": 8}
    text["arrowprops"] = {"arrowstyle": "-", "color": INK, "linewidth": 0.7}
    teachers = frame[frame["model"] == TEACHER].set_index("source")["size_mb"]
    shift = 1.05 ** (frame["family"].map(_FAMILIES.index) - len(_FAMILIES) // 2)
    frame = frame.assign(place=frame["source"].map(teachers) / frame["size_mb"] * shift)
    for axis, source in zip(axes, sources, strict=True):
        shown = frame[frame["source"] == source]
        for family, color, marker in zip(_FAMILIES, COLORS, "os^DvPX*", strict=False):
            part = shown[shown["family"] == family].dropna(subset="place")
            if len(part):
                dots = {"color": color, "marker": marker, "label": family, "ec": "none"}
                axis.scatter("place", "f1", data=part, alpha=0.8, s=30, **dots)
        for row in shown.itertuples():
            if row.model == TEACHER:
                axis.annotate("teacher", (row.place, row.f1), (9, -3), **text)
            elif row.model == CHOSEN:
                axis.annotate("chosen\nstudent", (row.place, row.f1), (6, -34), **text)
            elif row.model in _SIZELESS:
                line = settings()["chance"] | {"linestyle": _SIZELESS[row.model]}
                axis.axhline(row.f1, **line, label=row.model)
        axis.set(xscale="log", xlim=(0.8, 45), xlabel="times smaller than the teacher")
        axis.set_title(source)
    ticks = (1, 2, 5, 10, 20, 50)
    axes[0].set_xticks(ticks, map(str, ticks))
    axes[0].minorticks_off()
    axes[0].set_ylabel("mean F1 of both sides, %")
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=4)
    return figure
