"""Scores of all models on both tested sides with intervals, and the paper's tables with ours."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster import hierarchy

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.figures.style import COLORS, INK, labelled, panels, settings, style
from lib.news import chapter, clustering, models
from lib.news.chapter import NOT_TRAINED, ONE, TEACHER, News
from lib.news.events import TESTED, Side
from lib.statistics.intervals import Evidence, from_runs
from lib.store import NotComputed

# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
TIMED = 10  # documents whose embedding is timed, one at a time
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
    students = [model for model in seeds_of if model not in NOT_TRAINED]
    timed = [*news.sides["public"].texts[:TIMED]]
    costs = models.measure_costs(news.teacher, students, news.profile.width, timed)
    costs = dict(zip((TEACHER, *students), costs.tolist(), strict=True))
    costs[chapter.TOKENS] = (4 * models.read_table(news.teacher).size / 2**20, np.nan)
    weights = {
        name: clustering.draw_pairs(news.sides[name], DRAWS, seed=number)
        for number, name in enumerate(TESTED)
    }
    records = []
    for model, seed in pairs:
        size, time = costs.get(model, (np.nan, np.nan))
        facts = {"model": model, "seed": seed, "size_mb": size, "ms_per_document": time}
        rows = score_model(news.embed(model, seed), news.sides, weights)
        records += [facts | row for row in rows]
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
        row["draws"] = clustering.score_draws(clusters, side, weights[name])
        rows.append(row | clustering.score(clusters, side))
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
    printed = published.load(published.NEWS)
    facts = printed.drop_duplicates("model").set_index("model")[["size_mb", "ms_per_document"]]
    f1 = 100 * printed.pivot(index="model", columns="task", values="value").reindex(facts.index)
    theirs = f1.add_prefix("f1_").join(facts.apply(pd.to_numeric)).reset_index()
    one = {f"f1_{side}": 200 * share / (1 + share) for side, share in POSITIVE.items()}
    theirs = pd.concat([theirs, pd.DataFrame([{"model": ONE} | one])])
    frame = pd.concat([theirs.assign(source="published"), ours.assign(source="ours")])
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
    told = {TEACHER: ("teacher", (9, -3)), CHOSEN: ("chosen\nstudent", (6, -34))}
    text = {"textcoords": "offset points", "fontsize": 8}
    text["arrowprops"] = {"arrowstyle": "-", "color": INK, "linewidth": 0.7}
    teachers = frame[frame["model"] == TEACHER].set_index("source")["size_mb"]
    shift = 1.05 ** (frame["family"].map(_FAMILIES.index) - len(_FAMILIES) // 2)
    frame = frame.assign(place=frame["source"].map(teachers) / frame["size_mb"] * shift)
    for axis, source in zip(axes, sources, strict=True):
        shown = frame[frame["source"] == source]
        for family, part in shown.dropna(subset="place").groupby("family", sort=False):
            number = _FAMILIES.index(family)
            dots = {"color": COLORS[number], "marker": "os^DvPX*"[number], "label": family}
            axis.scatter("place", "f1", data=part, alpha=0.8, ec="none", s=30, **dots)
        for row in shown[shown["model"].isin(told)].itertuples():
            words, where = told[row.model]
            axis.annotate(words, (row.place, row.f1), where, **text)
        for row in shown[shown["size_mb"].isna()].itertuples():
            line = settings()["chance"] | {"linestyle": _SIZELESS[row.model], "label": row.model}
            axis.axhline(row.f1, **line)
        axis.set(xscale="log", xlim=(0.8, 45), xlabel="times smaller than the teacher")
        axis.set_title(source)
    ticks = (1, 2, 5, 10, 20, 50)
    axes[0].set_xticks(ticks, map(str, ticks))
    axes[0].minorticks_off()
    axes[0].set_ylabel("mean F1 of both sides, %")
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=4)
    return figure
