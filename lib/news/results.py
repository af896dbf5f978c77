"""Scores of all models on both tested sides with intervals, and the paper's tables with ours."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.figures.style import COLORS, INK, WIDTH, labelled, settings, style
from lib.news import chapter, clustering
from lib.news.chapter import News
from lib.news.events import TESTED, Side
from lib.statistics.intervals import Evidence, from_runs
from lib.store import NotComputed

# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
DRAWS = 2000  # bootstrap draws of a side's events
# Standard deviation of a student's mean F1 due to the processor: between two sets of kernels mini's
# 50 students differed by .0140 = .0099 * sqrt(2). Cutting a tree turns last bits into clusters.
PROCESSOR_SD = 0.0099
BASELINES = (*chapter.NOT_TRAINED, "bag;cosine")  # in every table of ours, below the paper's rows
# Share of positive pairs in the published annotations of 27 and 29 May 2020.
POSITIVE = {"public": 3918 / 8493, "private": 3897 / 8480}
# Models without a size are drawn as lines.
_SIZELESS = {chapter.ONE: "--", chapter.TFIDF: ":", chapter.TFIDF_BEFORE: "-."}
_FAMILIES = ("LSTM", "GRU", "RNN", "Transformer", "CNN", "FFN", "bag")


def list_models(news: News) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, and the students of paper and ours that the profile chooses."""
    profile = news.profile
    students = [*published.news_students(), *published.OWN_NEWS]
    if profile.only:
        students = [model for model in students if profiles.matches(model, profile.only)]
    if profile.max_variants is not None:
        first = [model for model in (*REFERENCES, "bag;cosine") if model in students]
        others = [model for model in students if model not in first]
        students = [*first, *others[: profile.max_variants]]
    seeds = dict.fromkeys(students, profile.seeds) | dict.fromkeys(chapter.NOT_TRAINED, (0,))
    if not news.settings.tuned_teacher:
        del seeds[chapter.UNTUNED]
    repeated = tuple(sorted({*profile.seeds, *profile.reference_seeds}))
    return seeds | {model: repeated for model in REFERENCES if model in seeds}


def make_records(news: News) -> pd.DataFrame:
    """A row for each model, seed and tested side. Missing models are trained.

    Columns: model, seed, those of `score_model`, megabytes, milliseconds per document (one at a
    time, and `_batch`), rated (Pearson correlation of cosines with people's ratings, or NaN).
    """
    seeds_of = list_models(news)
    pairs = [(model, seed) for model, seeds in seeds_of.items() for seed in seeds]
    news.prepare(pairs)
    times = news.measure_times([model for model in seeds_of if model not in chapter.NOT_TRAINED])
    sizes = {model: news.measure_size(model) for model in seeds_of}
    records, weights = [], {}
    for number, name in enumerate(TESTED):
        weights[name] = clustering.draw_pairs(news.sides[name], DRAWS, seed=number)
    for model, seed in pairs:
        vectors = news.embed(model, seed)
        alone, in_batch = times.get(model, [np.nan, np.nan])
        facts = {"model": model, "seed": seed, "megabytes": sizes[model], "milliseconds": alone}
        facts |= {"milliseconds_batch": in_batch, "rated": np.nan}
        if news.ratings is not None:
            distances = pd.Series(clustering.measure_distances(vectors["rated"]))
            facts["rated"] = -distances.corr(pd.Series(squareform(news.ratings[1])))
        records += [facts | row for row in score_model(vectors, news.sides, weights)]
    return pd.DataFrame(records)


def score_model(
    vectors: Mapping[str, Any], sides: Mapping[str, Side], weights: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """A model's scores on both tested sides, with the threshold that suits the training pairs.

    Those of `clustering.score`, and side, threshold, events (their number), draws ((`DRAWS`,) F1
    with redrawn events, the same draws for every model).
    """
    threshold = clustering.choose_threshold(clustering.link(vectors["train"]), sides["train"])
    rows = []
    for name in TESTED:
        side, tree = sides[name], clustering.link(vectors[name])
        clusters = hierarchy.fcluster(tree, threshold, "distance")
        row = {"side": name, "threshold": threshold, "events": len(np.unique(side.events))}
        row |= clustering.score(clusters, side)
        rows.append(row | {"draws": clustering.score_draws(clusters, side, weights[name])})
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
    models = evidence.means.index
    draws = scores.groupby("model")["draws"].agg(lambda parts: np.mean([*parts], axis=0))[models]
    runs = np.where(models.isin(chapter.NOT_TRAINED), np.inf, evidence.runs)
    events = float(scores.groupby("side")["events"].first().sum())
    noise = {"sampling": np.cov(np.stack(draws)), "processor": PROCESSOR_SD**2 / runs}
    return replace(evidence, runs=runs, groups=events, **noise)


def compare_with_promise(ours: pd.DataFrame) -> dict[str, float]:
    """F1 that the chosen student loses, and how many times smaller and faster; or nothing."""
    rows = ours.set_index("model")
    if CHOSEN not in rows.index:
        return {}
    teacher, student = rows.loc[chapter.TEACHER], rows.loc[CHOSEN]
    f1 = [f"f1_{side}" for side in TESTED]
    return {
        "news_f1_lost": float((teacher[f1] - student[f1]).mean() / 100),
        "news_times_smaller": float(teacher["size_mb"] / student["size_mb"]),
        "news_times_faster": float(teacher["ms_per_document"] / student["ms_per_document"]),
    }


def summarize(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: means over seeds, and 95% intervals of F1 over redrawn events.

    Columns: model, seeds; for each side f1_, low_, high_, recall_, precision_, f1_all_ (percent),
    cluster_size_, collapsed_ (with any seed); size_mb, ms_per_document, ms_in_batch, rated.
    """
    sides = scores.groupby(["model", "side"], sort=False)
    table = 100 * sides[["f1", "recall", "precision", "f1_all"]].mean()
    draws = [np.mean([*part], axis=0) for _, part in sides["draws"]]
    table[["low", "high"]] = 100 * np.quantile(draws, [0.025, 0.975], axis=1).T
    table = table.join(sides.agg({"cluster_size": "mean", "collapsed": "any"})).unstack(sort=False)
    table.columns = [f"{name}_{side}" for name, side in table.columns]
    models = scores.groupby("model", sort=False)
    facts = models[["megabytes", "milliseconds", "milliseconds_batch", "rated"]].mean()
    facts.columns = ["size_mb", "ms_per_document", "ms_in_batch", "rated"]
    return table.join(facts).assign(seeds=models["seed"].nunique()).reset_index()


def make_table(number: int, ours: pd.DataFrame) -> pd.DataFrame:
    """Table `number` of the paper next to `ours` (see `summarize`), then our baselines."""
    theirs = published.load(f"news_tab{number}").set_index("identity")
    shown = ("f1_public", "f1_private", "recall_public", "precision_public", "cluster_size_public")
    columns = [name for name in (*shown, "size_mb", "ms_per_document") if name in theirs]
    left_out = {*theirs.index} | ({chapter.UNTUNED} - {*ours["model"]})
    models = [*theirs.index, *(model for model in BASELINES if model not in left_out)]
    mine = ours.set_index("model").reindex(models)
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
    printed = published.load(published.NEWS)
    facts = printed.drop_duplicates("model").set_index("model")[["size_mb", "ms_per_document"]]
    f1 = 100 * printed.pivot(index="model", columns="task", values="value").reindex(facts.index)
    theirs = f1.add_prefix("f1_").join(facts.apply(pd.to_numeric)).reset_index()
    one = {f"f1_{side}": 200 * share / (1 + share) for side, share in POSITIVE.items()}
    theirs = pd.concat([theirs, pd.DataFrame([{"model": chapter.ONE} | one])])
    frame = pd.concat([theirs.assign(source="published"), ours.assign(source="ours")])
    frame["f1"] = frame[["f1_public", "f1_private"]].mean(axis=1)
    families = frame["model"].str.extract(f"^[^;]*?({'|'.join(_FAMILIES)})", expand=False)
    frame["family"] = families.fillna("encoder")
    scores = ["f1_public", "f1_private", "f1"]
    columns = ["source", "model", "family", "size_mb", *scores, "ms_per_document"]
    drawn = frame["f1"].notna() & (frame["size_mb"].notna() | frame["model"].isin(_SIZELESS))
    return frame.loc[drawn, columns].reset_index(drop=True)


@style()
def draw_sizes(frame: pd.DataFrame) -> Figure:
    """`news_fig1` from `collect_sizes`: F1 against size, a panel for each source, ours on the left.

    Families are shifted a little, so that markers of equal sizes do not hide each other.
    """
    sources = sorted(frame["source"].unique(), key=lambda name: name != "ours")
    figure, axes = plt.subplots(1, len(sources), figsize=(WIDTH, 4.4), sharex=True, sharey=True)
    families = (*_FAMILIES, "encoder")
    told = {chapter.TEACHER: ("teacher", (9, -3)), CHOSEN: ("chosen\nstudent", (6, -34))}
    text = {"textcoords": "offset points", "fontsize": 8}
    text["arrowprops"] = {"arrowstyle": "-", "color": INK, "linewidth": 0.7}
    for axis, source in zip(axes, sources, strict=True):
        shown = frame[frame["source"] == source]
        teacher = shown.set_index("model")["size_mb"].get(chapter.TEACHER, np.nan)
        apart = shown["family"].map(families.index) - len(families) // 2
        shown = shown.assign(place=teacher / shown["size_mb"] * 1.05**apart)
        for family, part in shown.dropna(subset="place").groupby("family", sort=False):
            number = families.index(family)
            dots = {"color": COLORS[number], "marker": "os^DvPX*"[number], "label": family}
            axis.scatter("place", "f1", data=part, alpha=0.8, ec="none", s=30, **dots)
        for row in shown[shown["model"].isin(told)].itertuples():
            words, where = told[row.model]
            axis.annotate(words, (row.place, row.f1), where, **text)
        for row in shown[shown["size_mb"].isna()].itertuples():
            line = {"color": settings()["chance"]["color"], "linewidth": 1.1}
            axis.axhline(row.f1, label=row.model, linestyle=_SIZELESS[row.model], **line)
        limits = {"xscale": "log", "xlim": (0.8, 45)}
        axis.set(**limits, xlabel="times smaller than the teacher", title=source)
    ticks = (1, 2, 5, 10, 20, 50)
    axes[0].set_xticks(ticks, [str(times) for times in ticks])
    axes[0].minorticks_off()
    axes[0].set_ylabel("mean F1 of both sides, %")
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=4)
    return figure
