"""Scores of Chapter 5 as dots, by task (Figures 5.4 to 5.6)."""

from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from lib import published
from lib.config import manifest
from lib.figures.boxplots import UNTRAINED, seed_means, sort_rows
from lib.figures.style import labelled, panels, rows_from_top, settings, style
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores

# Not trained here, the same by every seed.
GIVEN = (*UNTRAINED, "TF-IDF", "SBERT, mean of chunks", "LSA", "chunks + LSA")
# Figure -> columns that tell its rows and its columns of panels.
_PANELS = {"fig5_4": ("round", "task"), "fig5_5": ("", "metric"), "fig5_6": ("metric", "task")}


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores next to the published ones: accuracy (fig5_4), or MAP and MRR (fig5_5, fig5_6).

    `records` have the columns model, task, seed, value, optionally chance, scores and groups (of
    test examples), and round or metric; only those that were published are kept. low and high bound
    our value over seeds and test texts (95%); they are NaN without scores of examples.
    """
    keys = ["round", "task", "model"] if label == "fig5_4" else ["metric", "model", "task"]
    group = keys[0]
    theirs = published.load(label).rename(columns={"accuracy": "published", "score": "published"})
    shown = records[records[group].isin(theirs[group])]
    ours = seed_means(label, shown, keys).assign(low=np.nan, high=np.nan)
    if "scores" in shown:
        noise = PROCESSOR_SD if group == "round" else 0.0
        parts = shown.groupby(group)
        halves = [_half_intervals(part, noise).assign(**{group: name}) for name, part in parts]
        half = ours.merge(pd.concat(halves), on=keys, how="left")["half"]
        ours["low"], ours["high"] = ours["value"] - half, ours["value"] + half
    frame = ours.merge(theirs[[*keys, "published"]], on=keys, how="left")
    metrics = frame.get("metric", pd.Series("accuracy", frame.index))
    for metric, tasks in frame["task"].groupby(metrics):
        chances = published.load_chances("test", metric)
        frame.loc[tasks.index, "published_chance"] = tasks.map(chances)
    orders = {"model": _order(frame), "task": manifest.ordered(frame["task"], manifest.TABLE_5_7)}
    orders |= {"round": list(manifest.ROUNDS), "metric": ["MAP", "MRR"]}
    frame = sort_rows(frame, {key: orders[key] for key in keys})
    columns = ["value", "low", "high", "published", "seeds", "chance", "published_chance"]
    return frame[[*keys, *columns]]


def _half_intervals(records: pd.DataFrame, processor_sd: float) -> pd.DataFrame:
    """Model, task and half: half the width of a score's 95% interval over seeds and test texts."""
    frames, noise = [], {"given": GIVEN, "processor_sd": processor_sd}
    noise["class_of"] = lambda model: str(model in ("DM", "PV"))  # noisy in their own way
    for task, scores in task_scores(records).items():
        evidence = from_examples({task: scores}, **noise)
        models = evidence.means.index
        errors, freedom = evidence.errors(np.eye(len(models)))
        half = stats.t.ppf(0.975, freedom) * errors * (1 - scores.chance)
        frames.append(pd.DataFrame({"model": models, "task": task, "half": half}))
    return pd.concat(frames, ignore_index=True)


@style()
def dots(
    data: pd.DataFrame, label: str, *, rounds: dict[str, int | None] = manifest.ROUNDS
) -> Figure:
    """Draw the data of `score_frame`: a row for each model, ours filled, published hollow.

    The scale is chance-corrected: 0 is guessing, 1 is perfect. Figure 5.4 has a panel for each task
    and round, 5.6 for each task and metric, 5.5 for each metric with means over tasks. `rounds` are
    those of the profile.
    """
    models, (by_row, by_column) = _order(data), _PANELS[label]
    data, only = _correct(data), ""
    if not by_row:
        tasks = manifest.ordered(data["task"], manifest.TABLE_5_7)
        if not {*tasks} >= {*published.load(label)["task"]}:
            only = f"\non {' '.join(tasks)} only"
        data, by_row = _average(data, by_column).assign(row=""), "row"
    rows, columns = data[by_row].unique(), data[by_column].unique()
    height = 1 + len(rows) * (0.35 + 0.19 * len(models))
    figure, axes = panels(len(columns), height, rows=len(rows), sharex=True, sharey=True)
    colors, places = settings()["sides"], np.arange(len(models))
    for (row, column), axis in zip(product(rows, columns), axes.flat, strict=True):
        part = data[(data[by_row] == row) & (data[by_column] == column)]
        shown = part.set_index("model").reindex(models)
        if shown["theirs"].notna().any():
            look = {"mfc": "none", "ms": 5, "mew": 1.3, "color": colors["published"]}
            axis.plot(shown["theirs"], places, "o", **look, label="published")
        if shown["ours"].notna().any():
            look = {"fmt": "o", "ms": 4, "elinewidth": 1.3, "color": colors["ours"]}
            look |= {"xerr": shown["half"], "label": "ours, with a 95% interval"}
            axis.errorbar(shown["ours"], places, **look)
        axis.axvline(0, **settings()["chance"], label="guessing")
        axis.xaxis.set_major_locator(MaxNLocator(3))
        axis.grid(axis="y", visible=False)
        if row == rows[0]:
            axis.set_title(f"{column}{only}")
        if column == columns[0]:
            rows_from_top(axis, models)
            told = {"round": f"{manifest.printed_rounds(rounds).get(row)} labels", "metric": row}
            axis.set_ylabel(told.get(by_row, ""))
    figure.supxlabel("score above chance: 0 is guessing, 1 is perfect", fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper right", ncols=3)
    return figure


def _correct(data: pd.DataFrame) -> pd.DataFrame:
    """With ours, theirs and half the width of our interval, all chance-corrected."""
    guessed, published_guess = data["chance"].fillna(0), data["published_chance"].fillna(0)
    return data.assign(
        ours=(data["value"] - guessed) / (1 - guessed),
        half=(data["high"] - data["value"]) / (1 - guessed),
        theirs=(data["published"] - published_guess) / (1 - published_guess),
    )


def _average(data: pd.DataFrame, by: str) -> pd.DataFrame:
    """Means over tasks; their intervals take tasks as independent."""
    groups = data.assign(squared=data["half"] ** 2).groupby([by, "model"], sort=False)
    means = groups[["ours", "theirs"]].mean()
    means["half"] = groups["squared"].agg(lambda part: np.sqrt(part.sum()) / len(part))
    return means.reset_index()


def _order(frame: pd.DataFrame) -> list[str]:
    """Chapter 5's models first, then those of our own."""
    shown = frame["model"].unique()
    return [model for model in dict.fromkeys((*published.CHAPTER_5, *shown)) if model in shown]
