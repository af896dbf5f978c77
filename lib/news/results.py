"""Scores of all models on both tested sides with intervals, and the paper's tables with ours."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial.distance import squareform

from lib import published
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.figures.style import COLORS, INK, WIDTH, labelled, settings, style
from lib.news import clustering, embedders
from lib.news.bench import NewsBench
from lib.news.events import Side
from lib.published import figure_models
from lib.statistics.intervals import Evidence, from_runs
from lib.store.cache import NotComputed

TESTED = ("public", "private")
# Two students that the paper pursues further; their seeds measure the seed noise.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
# The paper's "20 times smaller, 5 times faster, 1 % worse".
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"
DRAWS = 2000  # bootstrap draws of a side's events
# Standard deviation of one student's F1, averaged over both sides, due to the processor. Between
# two sets of kernels the F1 of mini's 50 students differed by .0140 (root mean square), so one
# value varies by .0140 / sqrt(2). Cutting a tree at a chosen height turns last bits into clusters.
PROCESSOR_SD = 0.0099
BASELINES = (*embedders.NOT_TRAINED, "bag;cosine")  # in every table of ours, below the paper's rows
# Share of positive pairs in the published annotations of 27 and 29 May 2020.
POSITIVE = {"public": 3918 / 8493, "private": 3897 / 8480}
# Models without a size, which are drawn as lines: the style of each.
_SIZELESS = {embedders.ONE: "--", embedders.TFIDF: ":", embedders.TFIDF_BEFORE: "-."}
_FAMILIES = ("LSTM", "GRU", "RNN", "Transformer", "CNN", "FFN", "bag")


def list_models(news: NewsBench) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, the paper's 48 students and ours.

    The profile's `only` and `max_variants` may leave out students.
    """
    profile = news.profile
    students = [*figure_models.news_students(), *figure_models.OWN_NEWS]
    if profile.only:
        students = [model for model in students if profiles.matches(model, profile.only)]
    if profile.max_variants is not None:
        first = [model for model in (*REFERENCES, "bag;cosine") if model in students]
        others = [model for model in students if model not in first]
        students = [*first, *others[: profile.max_variants]]
    left_out = () if news.is_tuned else (embedders.UNTUNED,)
    given = [model for model in embedders.NOT_TRAINED if model not in left_out]
    seeds = dict.fromkeys(students, profile.seeds) | dict.fromkeys(given, (0,))
    repeated = tuple(sorted({*profile.seeds, *profile.reference_seeds}))
    return seeds | {model: repeated for model in REFERENCES if model in seeds}


def make_records(news: NewsBench) -> pd.DataFrame:
    """A row for each model, seed and tested side. Missing models are trained.

    Returns
    -------
    DataFrame
        Columns: model, seed, side, those of `clustering.Score`, events (their number), threshold
        (chosen on the training side's pairs), megabytes, milliseconds (per document, one at a
        time), milliseconds_batch (per document, in a batch), rated (Pearson correlation of cosines
        with people's ratings), draws ((`DRAWS`,) F1 with redrawn events, the same draws for every
        model).
    """
    seeds_of = list_models(news)
    pairs = [(model, seed) for model, seeds in seeds_of.items() for seed in seeds]
    news.prepare(pairs)
    times = news.measure_times([model for model in seeds_of if model not in embedders.NOT_TRAINED])
    weights = {
        name: clustering.draw_pairs(news.sides[name], DRAWS, seed=number)
        for number, name in enumerate(TESTED)
    }
    records = []
    for model, seed in pairs:
        vectors = news.embed_model(model, seed)
        alone, in_batch = times.get(model, [np.nan, np.nan])
        facts = {
            "model": model,
            "seed": seed,
            "megabytes": vectors.get("megabytes", np.nan),
            "milliseconds": alone,
            "milliseconds_batch": in_batch,
            "rated": _correlate_ratings(vectors, news.ratings),
        }
        records += [facts | row for row in _score_model(vectors, news.sides, weights)]
    return pd.DataFrame(records).astype({"megabytes": float})


def _score_model(
    vectors: Mapping[str, Any], sides: Mapping[str, Side], weights: Mapping[str, np.ndarray]
) -> list[dict[str, Any]]:
    """A model's scores on both tested sides. Without vectors, all documents are one cluster."""
    merges = {name: clustering.link(vectors[name]) for name in sides if vectors}
    threshold = np.nan
    if vectors:
        threshold = clustering.choose_threshold(merges["train"], sides["train"])
    rows = []
    for name in TESTED:
        side = sides[name]
        clusters = np.ones(len(side.texts), dtype=int)
        if vectors:
            clusters = clustering.cut(merges[name], threshold)
        row = {"side": name, "threshold": threshold, "events": len(np.unique(side.events))}
        row |= asdict(clustering.score(clusters, side))
        rows.append(row | {"draws": clustering.score_draws(clusters, side, weights[name])})
    return rows


def _correlate_ratings(
    vectors: Mapping[str, Any], ratings: tuple[list[str], np.ndarray] | None
) -> float:
    if not vectors or ratings is None:
        return np.nan
    cosines = 1 - clustering.measure_distances(vectors["rated"])
    return float(np.corrcoef(cosines, squareform(ratings[1]))[0, 1])


def read_records(bench: Bench) -> pd.DataFrame | None:
    """`make_records` if the cache has everything; None if something would have to be computed."""
    try:
        return make_records(NewsBench(bench.reading()))
    except NotComputed:
        return None


def collect_evidence(scores: pd.DataFrame) -> Evidence:
    """Mean F1 of both sides, with noise from seeds, events and processors, as evidence.

    `scores` are as `make_records` returns them.
    """
    values = scores.pivot(index=["model", "seed"], columns="side", values="f1")
    evidence = from_runs(values[[*TESTED]])
    models = evidence.means.index
    draws = scores.groupby("model")["draws"].agg(lambda parts: np.mean([*parts], axis=0))[models]
    runs = np.where(models.isin(embedders.NOT_TRAINED), np.inf, evidence.runs)
    groups = float(scores.groupby("side")["events"].first().sum())
    return replace(
        evidence,
        runs=runs,
        sampling=np.cov(np.stack(draws)),
        groups=groups,
        processor=PROCESSOR_SD**2 / runs,
    )


def compare_with_promise(ours: pd.DataFrame) -> dict[str, float]:
    """Our values of what the paper promises of its chosen student, compared with the teacher.

    These are the F1 lost, and how many times smaller and faster the student is. Empty if `ours`,
    from `summarize`, lacks that student.
    """
    rows = ours.set_index("model")
    if CHOSEN not in rows.index:
        return {}
    teacher, student = rows.loc[embedders.TEACHER], rows.loc[CHOSEN]
    lost = np.mean([teacher[f"f1_{side}"] - student[f"f1_{side}"] for side in TESTED]) / 100
    smaller, faster = (teacher[name] / student[name] for name in ("size_mb", "ms_per_document"))
    return {
        "news_f1_lost": float(lost),
        "news_times_smaller": float(smaller),
        "news_times_faster": float(faster),
    }


def summarize(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: means over seeds, and 95% intervals of F1 over redrawn events.

    Returns
    -------
    DataFrame
        Columns: model, seeds; for each side f1_, low_, high_, recall_, precision_, cluster_size_,
        f1_all_, collapsed_ (with any seed); size_mb, ms_per_document, ms_in_batch, rated. F1,
        recall and precision are in percent.
    """
    rows = []
    for model, runs in scores.groupby("model", sort=False):
        row = {"model": model, "seeds": runs["seed"].nunique()}
        for side, part in runs.groupby("side", sort=False):
            low, high = np.quantile(np.mean([*part["draws"]], axis=0), [0.025, 0.975])
            numbers = part[["f1", "recall", "precision", "f1_all"]].mean() * 100
            row |= {f"{name}_{side}": value for name, value in numbers.items()}
            row |= {f"low_{side}": 100 * low, f"high_{side}": 100 * high}
            row[f"cluster_size_{side}"] = part["cluster_size"].mean()
            row[f"collapsed_{side}"] = bool(part["collapsed"].any())
        facts = runs[["megabytes", "milliseconds", "milliseconds_batch", "rated"]].mean()
        names = ("size_mb", "ms_per_document", "ms_in_batch", "rated")
        rows.append(row | dict(zip(names, facts, strict=True)))
    return pd.DataFrame(rows)


def make_table(number: int, ours: pd.DataFrame) -> pd.DataFrame:
    """Table `number` of the paper next to our values, then our baselines; F1 in percent.

    `ours` is as `summarize` returns it.
    """
    theirs = published.load(f"news_tab{number}").set_index("identity")
    columns = [f"f1_{side}" for side in TESTED]
    columns += ["recall_public", "precision_public", "cluster_size_public"]
    columns = [name for name in (*columns, "size_mb", "ms_per_document") if name in theirs]
    left_out = {*theirs.index} | ({embedders.UNTUNED} - {*ours["model"]})
    models = [*theirs.index, *(model for model in BASELINES if model not in left_out)]
    mine = ours.set_index("model").reindex(models)
    frame = pd.DataFrame(index=mine.index)
    for name in columns:
        frame[name], frame[f"{name} (published)"] = mine[name], pd.to_numeric(theirs[name])
    sides = [side for side in TESTED if f"f1_{side}" in columns]
    extra = [f"{part}_{side}" for side in sides for part in ("low", "high", "f1_all", "collapsed")]
    return frame.join(mine[[*extra, "seeds"]]).reset_index()


def collect_sizes(ours: pd.DataFrame) -> pd.DataFrame:
    """The data of `news_fig1`: models of known size, and those that have no size.

    Parameters
    ----------
    ours : DataFrame
        As `summarize` returns it, or empty.

    Returns
    -------
    DataFrame
        Columns source (published, ours), model, family, size_mb, f1_public, f1_private, f1 (the
        mean of both), ms_per_document; F1 in percent.
    """
    frame = pd.concat(
        [_read_published_sizes().assign(source="published"), ours.assign(source="ours")],
        ignore_index=True,
    )
    frame["f1"] = frame[["f1_public", "f1_private"]].mean(axis=1)
    families = frame["model"].str.extract(f"^[^;]*?({'|'.join(_FAMILIES)})", expand=False)
    frame["family"] = families.fillna("encoder")
    scores = ["f1_public", "f1_private", "f1"]
    columns = ["source", "model", "family", "size_mb", *scores, "ms_per_document"]
    drawn = frame["f1"].notna() & (frame["size_mb"].notna() | frame["model"].isin(_SIZELESS))
    return frame.loc[drawn, columns].reset_index(drop=True)


def _read_published_sizes() -> pd.DataFrame:
    """Columns model, f1_public, f1_private, size_mb, ms_per_document; includes a single cluster."""
    printed = published.load(published.NEWS)
    facts = printed.drop_duplicates("model").set_index("model")[["size_mb", "ms_per_document"]]
    f1 = 100 * printed.pivot(index="model", columns="task", values="value").reindex(facts.index)
    models = f1.add_prefix("f1_").join(facts.apply(pd.to_numeric)).reset_index()
    one = {f"f1_{side}": 200 * share / (1 + share) for side, share in POSITIVE.items()}
    return pd.concat([models, pd.DataFrame([{"model": embedders.ONE} | one])])


@style()
def draw_sizes(frame: pd.DataFrame) -> Figure:
    """`news_fig1`: F1 against size, a panel for each source on common axes, ours on the left.

    Sizes are those of the weights. Families of students are shifted a little, so that markers of
    equal sizes do not hide each other.

    `frame` is as `collect_sizes` returns it.
    """
    sources = sorted(frame["source"].unique(), key=lambda name: name != "ours")
    figure, axes = plt.subplots(1, len(sources), figsize=(WIDTH, 4.4), sharex=True, sharey=True)
    drawn_as = zip((*_FAMILIES, "encoder"), COLORS, "os^DvPX*", strict=False)
    looks = {family: {"color": color, "marker": marker} for family, color, marker in drawn_as}
    told = {embedders.TEACHER: ("teacher", (9, -3)), CHOSEN: ("chosen\nstudent", (6, -34))}
    text = {
        "textcoords": "offset points",
        "fontsize": 8,
        "arrowprops": {"arrowstyle": "-", "color": INK, "linewidth": 0.7},
    }
    for axis, source in zip(axes, sources, strict=True):
        shown = frame[frame["source"] == source]
        teacher = shown.set_index("model")["size_mb"].get(embedders.TEACHER, np.nan)
        apart = shown["family"].map([*looks].index) - len(looks) // 2
        shown = shown.assign(place=teacher / shown["size_mb"] * 1.05**apart)
        for family, part in shown.dropna(subset="place").groupby("family", sort=False):
            dots = {"label": family, "alpha": 0.8, "ec": "none", "s": 30}
            axis.scatter("place", "f1", data=part, **dots, **looks[family])
        for model, (words, where) in told.items():
            for row in shown[shown["model"] == model].itertuples():
                axis.annotate(words, (row.place, row.f1), where, **text)
        axis.set(
            xscale="log", xlim=(0.8, 45), xlabel="times smaller than the teacher", title=source
        )
        for model, value in shown[shown["size_mb"].isna()].set_index("model")["f1"].items():
            line = {
                "color": settings()["chance"]["color"],
                "linestyle": _SIZELESS[model],
                "linewidth": 1.1,
            }
            axis.axhline(value, label=model, **line)
    ticks = (1, 2, 5, 10, 20, 50)
    axes[0].set_xticks(ticks, [str(times) for times in ticks])
    axes[0].minorticks_off()
    axes[0].set_ylabel("mean F1 of both sides, %")
    figure.legend(handles=labelled(axes), loc="outside lower center", ncols=4)
    return figure
