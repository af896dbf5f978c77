"""Scores of every model on both tested sides, how sure they are, and the paper's tables with ours beside them."""

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial.distance import squareform

from lib import published
from lib.config import paths, profiles
from lib.config.profiles import Profile
from lib.news import clustering, designs, embedders, events, inputs
from lib.news.students import Student
from lib.published import figure_models
from lib.statistics.intervals import Evidence, from_runs
from lib.store.records import store

TESTED = ("public", "private")
# Two students that the paper carries on; their seeds measure what a seed alone changes.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"  # the paper's "20 times smaller, 5 times faster, 1 % worse"
ROUNDS, TIMED = 3, 20  # of timing; documents of a batch, of which every second is timed alone, too
# What of a design does not change its time.
_TRAINING: dict[str, Any] = {
    "identity": "",
    "loss": "",
    "alpha": 0.0,
    "schedule": "",
    "annotated": False,
}
DRAWS = 2000  # of the events of a side
BASELINES = (*embedders.GIVEN, "bag;cosine")  # in every table of ours, below the paper's rows
POSITIVE = {
    "public": 3918 / 8493,
    "private": 3897 / 8480,
}  # share of the published pairs of 27 and 29 May 2020
_SIZELESS = {
    embedders.ONE: "--",
    embedders.TFIDF: ":",
    embedders.TFIDF_BEFORE: "-.",
}  # drawn as lines
_FAMILIES = ("LSTM", "GRU", "RNN", "Transformer", "CNN", "FFN", "bag")


def models(profile: Profile) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, the paper's 48 students and ours, as far as `only` and `max_variants` keep them."""
    students = [*figure_models.news_students(), *figure_models.OWN_NEWS]
    if profile.only:
        students = [model for model in students if profiles.matches(model, profile.only)]
    if profile.max_variants is not None:
        first = [model for model in (*REFERENCES, "bag;cosine") if model in students]
        students = [*first, *(model for model in students if model not in first)][
            : len(first) + profile.max_variants
        ]
    given = [
        model
        for model in embedders.GIVEN
        if model != embedders.UNTUNED or profile.news.tuned_teacher
    ]
    seeds = dict.fromkeys(students, profile.seeds) | dict.fromkeys(given, (0,))
    repeated = tuple(sorted({*profile.seeds, *profile.reference_seeds}))
    return seeds | {model: repeated for model in REFERENCES if model in seeds}


def records(profile: Profile) -> pd.DataFrame:
    """A row for each model, seed and tested side; what is missing is trained.

    Columns: model, seed, side, those of `clustering.Score`, events (their number), threshold (chosen on the training
    side's pairs), megabytes, milliseconds (one document at a time), milliseconds_batch, rated (Pearson's correlation of
    cosines with people's ratings), draws (an array: F1 under redrawn events, the same ones for every model).
    """
    wanted = [(model, seed) for model, seeds in models(profile).items() for seed in seeds]
    embedders.prepare(wanted, profile)
    sides, rated, clocked = events.read(profile), events.rated_stories(profile), times(profile)
    weights = {
        name: clustering.drawn_pairs(sides[name], DRAWS, seed=number)
        for number, name in enumerate(TESTED)
    }
    rows = []
    for model, seed in wanted:
        arrays = {} if model == embedders.ONE else embedders.of(model, seed, profile)
        merges = {name: clustering.tree(arrays[name]) for name in sides if arrays}
        distance = clustering.threshold(merges["train"], sides["train"]) if arrays else np.nan
        facts = {
            "model": model,
            "seed": seed,
            "threshold": distance,
            "megabytes": arrays.get("megabytes", np.nan),
        }
        facts |= dict(
            zip(
                ("milliseconds", "milliseconds_batch"),
                clocked.get(model, [np.nan] * 2),
                strict=True,
            )
        )
        facts["rated"] = np.nan
        if arrays and rated:
            facts["rated"] = np.corrcoef(
                1 - clustering.distances(arrays["rated"]), squareform(rated[1])
            )[0, 1]
        for name in TESTED:
            side = sides[name]
            clusters = (
                clustering.cut(merges[name], distance)
                if arrays
                else np.ones(len(side.texts), dtype=int)
            )
            draws = clustering.drawn_f1(clusters, side, weights[name])
            facts["events"] = len(np.unique(side.events))
            rows.append(
                facts | {"side": name, **asdict(clustering.score(clusters, side)), "draws": draws}
            )
    return pd.DataFrame(rows).astype({"megabytes": float})


def times(profile: Profile) -> dict[str, list[float]]:
    """Model -> milliseconds of a processor a document, one at a time and in a batch, without the students' tokenising.

    All in one process and in turn, the least of several rounds, kept in the store: times do not repeat. The weights do
    not matter, so the students are fresh ones, one for all models that only their training tells apart.
    """
    names = [model for model in models(profile) if model not in embedders.GIVEN]

    def measure() -> dict[str, list[float]]:
        ids, texts = (read(profile)["public"][:TIMED] for read in (inputs.token_ids, inputs.texts))
        sizes = embedders.sizes(profile, inputs.inputs_of(profile))
        structures = {model: replace(designs.parse(model), **_TRAINING) for model in names}
        teacher = inputs.reader(profile, profile.news.max_tokens)
        teacher.model.to("cpu")  # on a GPU, too: the paper gives times of a processor
        encoders: dict[Any, tuple[Callable, list]] = {embedders.TEACHER: (teacher.encode, texts)}
        encoders |= {
            structure: (Student(structure, sizes).encode, ids)
            for structure in {*structures.values()}
        }
        rounds = [
            {name: _milliseconds(*given) for name, given in encoders.items()} for _ in range(ROUNDS)
        ]
        least = {
            name: np.min([measured[name] for measured in rounds], axis=0).tolist()
            for name in encoders
        }
        return {model: least[structures.get(model, model)] for model in (embedders.TEACHER, *names)}

    recipe = inputs.recipe_of("news_times", profile, [names, profile.width], "lib.news.embedders")
    return store().record(recipe, measure)


def recorded(profile: Profile) -> pd.DataFrame | None:
    """`records`, if the store has all of them: nothing is trained. None if something is missing."""
    runs = (
        (model, seed)
        for model, seeds in models(profile).items()
        for seed in seeds
        if model not in embedders.GIVEN
    )
    drawn = (paths.figures(profile) / f"{published.NEWS}.csv").is_file()
    whole = drawn and all(store().has(embedders.student_recipe(*pair, profile)) for pair in runs)
    return records(profile) if whole else None


def evidence(scores: pd.DataFrame) -> Evidence:
    """Mean F1 of both sides for `lib.statistics.verdicts`: seeds and events as noise. scores: of `records`."""
    evidence = from_runs(
        scores.pivot(index=["model", "seed"], columns="side", values="f1")[[*TESTED]]
    )
    models = evidence.means.index
    draws = scores.groupby("model")["draws"].agg(lambda parts: np.mean([*parts], axis=0))[models]
    runs = np.where(models.isin(embedders.GIVEN), np.inf, evidence.runs)
    groups = float(scores.groupby("side")["events"].first().sum())
    return replace(evidence, runs=runs, sampling=np.cov(np.stack(draws)), groups=groups)


def numbers(ours: pd.DataFrame) -> dict[str, float]:
    """What the paper promises of its chosen student, against the teacher: F1 lost, times smaller, times faster."""
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


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: means over seeds, and the 95 % interval of F1 when other events are drawn.

    Columns: model, seeds, by side f1_, low_, high_, recall_, precision_, cluster_size_, f1_all_, collapsed_ (of any
    seed); size_mb, ms_per_document, ms_in_batch, rated.
    """
    rows = []
    for model, own in scores.groupby("model", sort=False):
        row = {"model": model, "seeds": own["seed"].nunique()}
        for side, part in own.groupby("side", sort=False):
            low, high = np.quantile(np.mean([*part["draws"]], axis=0), [0.025, 0.975])
            numbers = part[["f1", "recall", "precision", "f1_all"]].mean() * 100
            row |= {f"{name}_{side}": value for name, value in numbers.items()}
            row |= {f"low_{side}": 100 * low, f"high_{side}": 100 * high}
            row[f"cluster_size_{side}"] = part["cluster_size"].mean()
            row[f"collapsed_{side}"] = bool(part["collapsed"].any())
        facts = own[["megabytes", "milliseconds", "milliseconds_batch", "rated"]].mean()
        names = ("size_mb", "ms_per_document", "ms_in_batch", "rated")
        rows.append(row | dict(zip(names, facts, strict=True)))
    return pd.DataFrame(rows)


def table(number: int, ours: pd.DataFrame) -> pd.DataFrame:
    """Table `number` of the paper with ours beside it, then our baselines. ours: `summary`; F1 in percent."""
    theirs = published.load(f"news_tab{number}").set_index("identity")
    shared = ["f1_public", "f1_private", "recall_public", "precision_public", "cluster_size_public"]
    shared = [name for name in (*shared, "size_mb", "ms_per_document") if name in theirs]
    left_out = {*theirs.index} | ({embedders.UNTUNED} - {*ours["model"]})
    own = ours.set_index("model").reindex(
        [*theirs.index, *(model for model in BASELINES if model not in left_out)]
    )
    frame = pd.DataFrame(index=own.index)
    for name in shared:
        frame[name], frame[f"{name} (published)"] = own[name], pd.to_numeric(theirs[name])
    sides = [side for side in TESTED if f"f1_{side}" in shared]
    extra = [f"{part}_{side}" for side in sides for part in ("low", "high", "f1_all", "collapsed")]
    return frame.join(own[[*extra, "seeds"]]).reset_index()


def figure_frame(ours: pd.DataFrame) -> pd.DataFrame:
    """What `news_fig1` draws: columns source (published, ours), model, family, size_mb, f1_public, f1_private, f1 (the
    mean of both), ms_per_document; F1 in percent. Models whose size is known, and those that have none."""
    printed = published.load(published.NEWS)
    facts = (
        printed.drop_duplicates("model")
        .set_index("model")[["size_mb", "ms_per_document"]]
        .apply(pd.to_numeric)
    )
    theirs = 100 * printed.pivot(index="model", columns="task", values="value").reindex(facts.index)
    theirs = theirs.add_prefix("f1_").join(facts).reset_index()
    single = {"model": embedders.ONE} | {
        f"f1_{side}": 200 * share / (1 + share) for side, share in POSITIVE.items()
    }
    theirs = pd.concat([theirs, pd.DataFrame([single])])
    frame = pd.concat(
        [theirs.assign(source="published"), ours.assign(source="ours")], ignore_index=True
    )
    frame["f1"] = frame[["f1_public", "f1_private"]].mean(axis=1)
    frame["family"] = (
        frame["model"]
        .str.extract(f"^[^;]*?({'|'.join(_FAMILIES)})", expand=False)
        .fillna("encoder")
    )
    columns = [
        "source",
        "model",
        "family",
        "size_mb",
        "f1_public",
        "f1_private",
        "f1",
        "ms_per_document",
    ]
    drawn = frame["f1"].notna() & (frame["size_mb"].notna() | frame["model"].isin(_SIZELESS))
    return frame.loc[drawn, columns].reset_index(drop=True)


def draw(frame: pd.DataFrame, colors: Iterable[str]) -> Figure:
    """`news_fig1`: size against F1, a marker's shape by family, its area by the time for one document; ours right."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), sharey=True)
    drawn_as = zip((*_FAMILIES, "encoder"), colors, "os^DvPX*", strict=False)
    looks = {family: {"color": color, "marker": marker} for family, color, marker in drawn_as}
    for axis, (source, shown) in zip(axes, frame.groupby("source", sort=False), strict=True):
        for family, part in shown.groupby("family", sort=False):
            slowest = frame.loc[frame["source"] == source, "ms_per_document"].max()
            area = 30 + 270 * part["ms_per_document"].fillna(0) / (slowest if slowest > 0 else 1)
            axis.scatter(
                "size_mb",
                "f1",
                s=area,
                data=part,
                label=family,
                alpha=0.75,
                ec="w",
                lw=0.5,
                **looks[family],
            )
        axis.set(xscale="log", xlabel="size of the weights, MB", title=source)
        low, high = shown["size_mb"].min() * 0.7, shown["size_mb"].max() * 1.3
        ticks = [size for size in (5, 10, 30, 60, 100, 300, 700) if low < size < high]
        axis.set_xticks(ticks, [str(size) for size in ticks])
        axis.minorticks_off()
        for name, value in shown[shown["size_mb"].isna()].set_index("model")["f1"].items():
            axis.axhline(
                value, color="#b2182b", linestyle=_SIZELESS[name], linewidth=1.1, label=name
            )
    axes[0].set_ylabel("mean F1 of both sides, %")
    entries = {
        name: handle
        for axis in axes
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=5, markerscale=0.9
    )
    return figure


def _milliseconds(encode: Callable[[Any], Any], rows: list) -> np.ndarray:
    """(2,) a document's milliseconds one at a time, the median of every second row, and in a batch of all rows."""

    def seconds(batch: list) -> float:
        started = time.process_time()
        encode(batch)
        return time.process_time() - started

    return 1000 * np.array(
        [np.median([seconds([row]) for row in rows[::2]]), seconds(rows) / len(rows)]
    )
