"""Scores of every model on both tested sides, how sure they are, and the paper's tables with ours beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib import published
from lib.config import paths, profiles
from lib.config.profiles import Profile
from lib.news import clustering, designs, embedders, events, inputs, tuning
from lib.news.students import Student
from lib.statistics.intervals import Evidence, from_runs
from lib.store.records import store

TESTED = ("public", "private")
# Two students that the paper carries on; their seeds measure what a seed alone changes.
REFERENCES = ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM(2)+1 linear;attentive;cosine")
CHOSEN = "BiGRU(2)+1 linear;attentive;64d;MSE;plateau"  # the paper's "20 times smaller, 5 times faster, 1 % worse"
ROUNDS, TIMED = 5, 20  # of timing; documents, one at a time and as one batch
DRAWS = 2000  # of the events of a side
# In every table of ours, below the paper's rows.
BASELINES = (*embedders.GIVEN, "bag;cosine")
_FAMILIES = ("LSTM", "GRU", "RNN", "Transformer", "CNN", "FFN", "bag")


def models(profile: Profile) -> dict[str, tuple[int, ...]]:
    """Model -> seeds: baselines, the paper's 48 students and ours, as far as `only` and `max_variants` keep them."""
    students = [*designs.students(), *embedders.OWN]
    if profile.only:
        students = [model for model in students if profiles.matches(model, profile.only)]
    if profile.max_variants is not None:
        first = [model for model in (*REFERENCES, "bag;cosine") if model in students]
        students = [*first, *(model for model in students if model not in first)][: len(first) + profile.max_variants]
    given = [model for model in embedders.GIVEN if model != embedders.UNTUNED or tuning.wanted(profile)]
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
    rows = []
    for model, seed in wanted:
        arrays = {} if model == embedders.ONE else embedders.of(model, seed, profile)
        merges = {name: clustering.tree(arrays[name]) for name in sides if arrays}
        distance = clustering.threshold(merges["train"], sides["train"]) if arrays else np.nan
        facts = {"model": model, "seed": seed, "threshold": distance, "megabytes": arrays.get("megabytes", np.nan)}
        facts |= dict(zip(("milliseconds", "milliseconds_batch"), clocked.get(model, [np.nan] * 2), strict=True))
        facts["rated"] = _agreement(arrays["rated"], rated[1]) if arrays and rated else np.nan
        for number, name in enumerate(TESTED):
            side = sides[name]
            clusters = clustering.cut(merges[name], distance) if arrays else np.ones(len(side.texts), dtype=int)
            draws = clustering.drawn_f1(clusters, side, DRAWS, seed=number)
            facts["events"] = len(np.unique(side.events))
            rows.append(facts | {"side": name, **asdict(clustering.score(clusters, side)), "draws": draws})
    frame = pd.DataFrame(rows)
    return frame.assign(megabytes=frame["megabytes"].astype(float))


def times(profile: Profile) -> dict[str, list[float]]:
    """Model -> milliseconds a document, one at a time and in a batch, without tokenisation of the students.

    All in one process and in turn, the least of several rounds, kept in the store: times do not repeat. The weights do
    not matter, so the students are fresh ones.
    """
    names = [model for model in models(profile) if model not in embedders.GIVEN]

    def measure() -> dict[str, list[float]]:
        ids = inputs.token_ids(profile)["public"][:TIMED]
        texts = inputs.texts(profile)["public"][:TIMED]
        sizes = embedders.sizes(profile, inputs.inputs_of(profile))
        students = {model: Student(designs.parse(model), sizes) for model in names}
        encoders = {model: (student.encode, ids) for model, student in students.items()}
        encoders[embedders.TEACHER] = inputs.reader(profile, profile.news.max_tokens).encode, texts
        rounds: dict[str, list[np.ndarray]] = {model: [] for model in encoders}
        for _ in range(ROUNDS):
            for model, (encode, rows) in encoders.items():
                rounds[model].append(_milliseconds(_picking(encode, rows), range(len(rows))))
        return {model: np.min(each, axis=0).tolist() for model, each in rounds.items()}

    return store().record(
        inputs.recipe_of("news_times", profile, [names, profile.width], "lib.news.embedders"), measure
    )


def _picking(encode: Callable, rows: list) -> Callable:
    return lambda places: encode([rows[place] for place in places])


def recorded(profile: Profile) -> pd.DataFrame | None:
    """`records`, if the store has all of them: nothing is trained. None if something is missing."""
    wanted = [(model, seed) for model, seeds in models(profile).items() for seed in seeds]
    students = [pair for pair in wanted if pair[0] not in embedders.GIVEN]
    drawn = (paths.figures(profile) / f"{published.NEWS}.csv").is_file()
    whole = drawn and all(store().has(embedders.student_recipe(*pair, profile)) for pair in students)
    return records(profile) if whole else None


def _agreement(vectors: np.ndarray, ratings: np.ndarray) -> float:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    pairs = np.triu_indices(len(unit), 1)
    return float(np.corrcoef((unit @ unit.T)[pairs], ratings[pairs])[0, 1])


def evidence(scores: pd.DataFrame) -> Evidence:
    """Mean F1 of both sides for `lib.statistics.verdicts`: seeds and events as noise. scores: of `records`."""
    runs = scores.pivot(index=["model", "seed"], columns="side", values="f1")[[*TESTED]]
    seeds = from_runs(runs[~runs.index.get_level_values("model").isin(embedders.GIVEN)])
    draws = scores.groupby(["model", "side"])["draws"].agg(lambda parts: np.mean([*parts], axis=0)).unstack()
    means = runs.groupby(level="model", sort=False).mean()
    mean_draws = np.stack([(draws.loc[model, "public"] + draws.loc[model, "private"]) / 2 for model in means.index])
    count = scores.groupby("model")["seed"].nunique()[means.index].to_numpy(float)
    covariance = np.cov(mean_draws)
    return Evidence(
        means=means,
        weights=np.full(len(TESTED), 1 / len(TESTED)),
        runs=np.where(means.index.isin(embedders.GIVEN), np.inf, count),
        noise=seeds.noise,
        sampling=covariance,
        independent=np.zeros_like(covariance),
        groups=float(scores.groupby("side")["events"].first().sum()),
    )


def numbers(ours: pd.DataFrame) -> dict[str, float]:
    """What the paper promises of its chosen student, against the teacher: F1 lost, times smaller, times faster."""
    rows = ours.set_index("model")
    if CHOSEN not in rows.index:
        return {}
    teacher, student = rows.loc[embedders.TEACHER], rows.loc[CHOSEN]
    lost = sum(teacher[f"f1_{side}"] - student[f"f1_{side}"] for side in TESTED) / len(TESTED) / 100
    smaller, faster = (teacher[name] / student[name] for name in ("size_mb", "ms_per_document"))
    return {"news_f1_lost": float(lost), "news_times_smaller": float(smaller), "news_times_faster": float(faster)}


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each model: means over seeds, and the 95 % interval of F1 when other events are drawn.

    Columns: model, seeds, by side f1_, low_, high_, recall_, precision_, cluster_size_, f1_all_; collapsed (on a side),
    size_mb, ms_per_document, rated.
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
        row |= {"collapsed": bool(own["collapsed"].any()), "size_mb": own["megabytes"].mean()}
        rows.append(row | {"ms_per_document": own["milliseconds"].mean(), "rated": own["rated"].mean()})
    return pd.DataFrame(rows)


def table(number: int, ours: pd.DataFrame) -> pd.DataFrame:
    """Table `number` of the paper with ours beside it, then our baselines. ours: `summary`; F1 in percent."""
    label = f"news_tab{number}"
    theirs = published.load(label)
    shared = ["f1_public", "f1_private", "recall_public", "precision_public", "cluster_size_public"]
    shared = [name for name in (*shared, "size_mb", "ms_per_document") if name in theirs]
    theirs = theirs.assign(**theirs[shared].apply(pd.to_numeric))
    left_out = {*theirs["identity"]} | ({embedders.UNTUNED} - {*ours["model"]})
    names = [*theirs["identity"], *(model for model in BASELINES if model not in left_out)]
    own = ours.set_index("model").reindex(names)
    frame = pd.DataFrame({"model": names})
    for name in shared:
        frame[name] = own[name].to_numpy()
        frame[f"{name} (published)"] = theirs.set_index("identity")[name].reindex(names).to_numpy()
    for side in TESTED:
        if f"f1_{side}" in shared:
            extra = {f"{part}_{side}": own[f"{part}_{side}"].to_numpy() for part in ("low", "high", "f1_all")}
            frame = frame.assign(**extra)
    return frame.assign(collapsed=own["collapsed"].to_numpy(), seeds=own["seeds"].to_numpy())


def figure_frame(ours: pd.DataFrame) -> pd.DataFrame:
    """What `news_fig1` draws: columns source (published, ours), model, family, size_mb, f1_public, f1_private, f1 (the
    mean of both), ms_per_document; F1 in percent. Models whose size is known."""
    printed = published.load(published.NEWS)
    facts = printed.drop_duplicates("model").set_index("model")[["size_mb", "ms_per_document"]].apply(pd.to_numeric)
    theirs = printed.pivot(index="model", columns="task", values="value").reindex(facts.index)
    theirs = (100 * theirs).add_prefix("f1_").join(facts).reset_index()
    frame = pd.concat([theirs.assign(source="published"), ours.assign(source="ours")], ignore_index=True)
    frame["f1"] = frame[["f1_public", "f1_private"]].mean(axis=1)
    frame["family"] = [_family(model) for model in frame["model"]]
    columns = ["source", "model", "family", "size_mb", "f1_public", "f1_private", "f1", "ms_per_document"]
    return frame.loc[frame["size_mb"].notna() & frame["f1"].notna(), columns].reset_index(drop=True)


def _family(model: str) -> str:
    return next((name for name in _FAMILIES if name in model.partition(";")[0]), "encoder")


def draw(frame: pd.DataFrame, colors: Iterable[str]) -> Figure:
    """`news_fig1`: size against F1, the marker's area by the time for one document; published left, ours right."""
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.8))
    palette = dict(zip((*_FAMILIES, "encoder"), colors, strict=False))
    for axis, (source, shown) in zip(axes, frame.groupby("source", sort=False), strict=True):
        for family, part in shown.groupby("family", sort=False):
            slowest = frame.loc[frame["source"] == source, "ms_per_document"].max()
            area = 30 + 270 * part["ms_per_document"].fillna(0) / (slowest if slowest > 0 else 1)
            style = {"color": palette[family], "alpha": 0.75, "edgecolor": "white", "linewidth": 0.5}
            axis.scatter(part["size_mb"], part["f1"], s=area, label=family, **style)
        axis.set(xscale="log", xlabel="size of the weights, MB", title=source, ylabel="mean F1 of both sides, %")
        ticks = [size for size in (5, 10, 30, 60, 100, 300, 700) if shown["size_mb"].min() * 0.7 < size]
        ticks = [size for size in ticks if size < shown["size_mb"].max() * 1.3]
        axis.set_xticks(ticks, [str(size) for size in ticks])
        axis.minorticks_off()
        axis.axhline(63.0, color="#b2182b", linestyle="--", linewidth=1.1, label="one cluster")
    entries = {name: handle for axis in axes for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=5, markerscale=0.6)
    return figure


def _milliseconds(encode: Callable[[Any], Any], rows: range) -> np.ndarray:
    """(2,) a document's milliseconds one at a time, the median of the rows, and in a batch of all of them."""
    encode(rows)
    alone = []
    for row in rows:
        started = time.perf_counter()
        encode([row])
        alone.append(time.perf_counter() - started)
    started = time.perf_counter()
    encode(rows)
    return 1000 * np.array([np.median(alone), (time.perf_counter() - started) / len(rows)])
