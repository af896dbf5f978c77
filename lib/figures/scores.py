"""Scores as dots and lines: Chapter 5 by task (Figures 5.4 to 5.6), students while they train (A.2
to A.4, A.6), and readouts (A.5)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import stats

from lib import published
from lib.config import roles
from lib.figures.boxplots import UNTRAINED, seed_means
from lib.figures.style import COLORS, INK, labelled, panels, rows_from_top, settings, style
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores

# Not trained here, the same by every seed.
GIVEN = (*UNTRAINED, "TF-IDF", "SBERT, mean of chunks", "LSA", "chunks + LSA")
# Figure -> columns that tell its rows and its columns of panels.
_PANELS = {"fig5_4": ("round", "task"), "fig5_5": ("", "metric"), "fig5_6": ("metric", "task")}


def score_frame(label: str, records: pd.DataFrame) -> pd.DataFrame:
    """Our scores next to the published ones: accuracy (fig5_4), or MAP and MRR (fig5_5, fig5_6).

    `records` have the columns model (as Chapter 5 prints it, or a further one), task, seed, value,
    optionally chance, scores and groups (of test examples), and round or metric. Only rounds or
    metrics that were published are kept.

    In the result, low and high bound our value over seeds and test texts (95%); they are NaN
    without scores of examples. chance is the score of guessing on our data, published_chance on the
    thesis'.
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
    for metric, rows in frame.groupby(metrics):
        chances = rows["task"].map(published.load_chances("test", metric))
        frame.loc[rows.index, "published_chance"] = chances
    orders = {"model": _order(frame), "task": roles.ordered(frame["task"], roles.TABLE_5_7)}
    orders |= {"round": list(roles.ROUNDS), "metric": ["MAP", "MRR"]}
    frame = frame.sort_values(
        keys, key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )
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
def dots(data: pd.DataFrame, label: str, *, rounds: dict[str, int | None] = roles.ROUNDS) -> Figure:
    """Draw the data of `score_frame`: a row for each model, ours filled, published hollow.

    The scale is chance-corrected: 0 is guessing, 1 is perfect. Figure 5.4 has a panel for each task
    and round, 5.6 for each task and metric. Figure 5.5 has a panel for each metric with means over
    tasks, whose intervals take tasks as independent. `rounds` are those of the profile.
    """
    models = _order(data)
    own, other = 1 - data["chance"].fillna(0), 1 - data["published_chance"].fillna(0)
    data = data.assign(
        ours=(data["value"] - data["chance"].fillna(0)) / own,
        half=(data["high"] - data["value"]) / own,
        theirs=(data["published"] - data["published_chance"].fillna(0)) / other,
    )
    by_row, by_column = _PANELS[label]
    only = ""
    if not by_row:
        tasks = roles.ordered(data["task"], roles.TABLE_5_7)
        if not {*tasks} >= {*published.load(label)["task"]}:
            only = f"\non {' '.join(tasks)} only"
        groups = data.assign(squared=data["half"] ** 2).groupby([by_column, "model"], sort=False)
        data = groups[["ours", "theirs"]].mean()
        data["half"] = groups["squared"].agg(lambda part: np.sqrt(part.sum()) / len(part))
        data = data.reset_index().assign(row="")
        by_row = "row"
    rows, columns = data[by_row].unique(), data[by_column].unique()
    titles = roles.printed_rounds(rounds)
    height = 1 + len(rows) * (0.35 + 0.19 * len(models))
    figure, axes = panels(len(columns), height, rows=len(rows), sharex=True, sharey=True)
    colors, places = settings()["sides"], np.arange(len(models))
    for line, row in zip(axes, rows, strict=True):
        for axis, column in zip(line, columns, strict=True):
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
        rows_from_top(line[0], models)
        line[0].set_ylabel({"round": f"{titles.get(row)} labels", "metric": row}.get(by_row, ""))
    figure.supxlabel("score above chance: 0 is guessing, 1 is perfect", fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper right", ncols=3)
    return figure


@style()
def curves(data: pd.DataFrame) -> Figure:
    """Held-out CCA of `contextual.collect_histories`, a column for each group, a line per student.

    Embeddings are in the upper row, projections in the lower.
    """
    groups = data.groupby("group", sort=False)
    figure, axes = panels(len(groups), "figA_2", rows=2, sharex=True, sharey="row")
    told = {"embedding": "embeddings", "projected": "projections"}
    for column, (group, shown) in zip(axes.T, groups, strict=True):
        for axis, (name, words) in zip(column, told.items(), strict=True):
            for (_, dimension), line in shown.groupby(["model", "dimension"], sort=False):
                look = {"linewidth": 1, "markersize": 3.5} | settings()["dimensions"][dimension]
                teacher = f"{dimension}-dimensional teacher"
                axis.plot(line["update"], line[name], **look, label=teacher)
            axis.set(xlabel="updates", ylabel=f"mean correlation\nof the {words}")
            axis.label_outer()
        column[0].axhline(shown["chance"].mean(), **settings()["paired_at_random"])
        column[0].set_title(group)
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def gradient_shares(shares: pd.DataFrame) -> Figure:
    """The contextual share of the gradient while students train, a panel for each group.

    Each student has a thin line, their median a thick one.
    """
    groups = shares.groupby("group", sort=False)
    figure, axes = panels(len(groups), "figA_6", sharey=True)
    for axis, (group, shown) in zip(axes.flat, groups, strict=True):
        for _, line in shown.groupby("model"):
            axis.plot(line["update"], line["share"], color="0.6", linewidth=0.7, label="a student")
        middle = shown.groupby("update")["share"].median()
        axis.plot(middle, color=settings()["sides"]["ours"], linewidth=2, label="their median")
        axis.set(xlabel="updates", title=group.replace(", ", ",\n"))
    axes[0, 0].set(ylabel="contextual share\nof the gradient", ylim=(0, None))
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def heavier_context(factors: pd.DataFrame) -> Figure:
    """How much a factor on the contextual loss changes a student; dashed, how much a seed does.

    Below a factor is the share of the gradient that it gives. `factors` are as
    `contextual.compare_factors` returns them.
    """
    groups = factors.groupby("loss", sort=False)
    figure, axes = panels(len(groups), "figA_3", sharey=True)
    look = {"color": INK, "linestyle": "--", "linewidth": 1}
    for axis, (loss, rows) in zip(axes.flat, groups, strict=True):
        trained = rows.dropna(subset="cosine")
        color = settings()["sides"]["ours"]
        axis.plot(trained["factor"], trained["cosine"], "o-", color=color, label="the same seed")
        seed = rows["another_seed"].iloc[0]
        axis.axhline(seed, **look, label="another seed, without context")
        axis.set_xscale("log", base=2)
        pairs = zip(trained["factor"], trained["share"], strict=True)
        axis.set_xticks(trained["factor"], [f"×{factor:g}\n{share:.0%}" for factor, share in pairs])
        axis.minorticks_off()
        axis.set_title(f"with {loss.replace('mm-', 'max-margin ')}")
    axes[0, 0].set(ylabel="mean cosine with the student\nwithout context", ylim=(None, 1))
    words = "factor on the contextual loss, and its share of the gradient, mean over training"
    figure.supxlabel(words, fontsize=9)
    figure.legend(handles=labelled(axes.flat), loc="outside upper center", ncols=2)
    return figure


@style()
def length_of_training(data: pd.DataFrame) -> Figure:
    """Three panels against updates: cosine to the teacher, and accuracy by two readouts.

    Points are seeds; lines are their means, starting from the base.
    """
    titles = {
        "cosine": "cosine to the teacher,\nheld-out documents",
        "no head": "accuracy above chance,\nwithout a head",
        "heads": "accuracy above chance,\nwith heads",
    }
    figure, axes = panels(len(titles), "figA_4", sharex=True)
    base = data[data["model"] == "base"]
    for axis, (column, title) in zip(axes.flat, titles.items(), strict=True):
        start = base[column].mean()
        axis.axhline(start, color=INK, linewidth=0.8, linestyle=":", label="untrained base")
        for color, marker, name in zip(COLORS, "osD^v", data["model"].unique()[1:], strict=False):
            color = settings()["losses"].get(name, color)
            rows = data[data["model"] == name]
            means = rows.groupby("updates")[column].mean()
            line = [0, *means.index], [start, *means]
            axis.plot(*line, f"{marker}-", color=color, markersize=5, label=name)
            look = {"color": color, "markersize": 3.5, "mfc": "none"}
            axis.plot(rows["updates"], rows[column], marker, **look)
        axis.set(xlabel="updates", title=title)
    figure.legend(handles=labelled(axes.flat), loc="outside lower center", ncols=2)
    return figure


@style()
def readouts(scores: pd.DataFrame, told: Mapping[str, str]) -> Figure:
    """Mean scores of the same models by several readouts, a row for each model.

    `told` has the words for each readout's column of `scores`. The first column orders the rows,
    the best on top.
    """
    first, *_ = told
    rows = scores.sort_values(first, ascending=False)
    places = np.arange(len(rows))
    figure, ((axis,),) = panels(1, "figA_5")
    values = rows[[*told]].to_numpy()
    axis.hlines(places, values.min(axis=1), values.max(axis=1), color="0.6", linewidth=1)
    for marker, (column, words) in zip("osD", told.items(), strict=False):
        color = settings()["readouts"].get(column)
        axis.plot(rows[column], places, marker, color=color, markersize=6, label=words)
    axis.set(xlabel="accuracy above chance, mean of the tasks")
    rows_from_top(axis, [*rows["model"].replace(settings()["short"]["fig4_3"], regex=True)])
    figure.legend(handles=labelled([axis]), loc="outside lower center", ncols=1)
    return figure


def _order(frame: pd.DataFrame) -> list[str]:
    """Chapter 5's models first, then those of our own."""
    shown = frame["model"].unique()
    return [model for model in dict.fromkeys((*published.CHAPTER_5, *shown)) if model in shown]
