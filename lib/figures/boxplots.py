"""Boxplots of Chapter 4 and Figure 5.3: one row per model, the tasks' normalised accuracy, best at
the bottom."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.style import INK, labelled, rows_from_top, settings, squeeze, style
from lib.published import figure_models

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
_PANELS = {  # columns of a figure -> scores, these divided by the best of their task, chance
    "ours": ("value", "normalized", "chance"),
    "published": ("published", "published_normalized", "published_chance"),
}


def boxplot_frame(label: str, records: pd.DataFrame, *, band: float | None) -> pd.DataFrame:
    """Our accuracies beside the published ones: the data, and the CSV, of a boxplot figure.

    records: columns model (identity), task, seed, value, perhaps chance (of the task) and collapsed
    (of the model).
    band: `SeedNoise.band` of a model's mean normalised accuracy; None if unknown. Model is the name
    printed in that
    figure, else the grid's, else the identity; normalized divides by the best accuracy of the task
    in its own column.
    Rows ascend by mean normalised accuracy, in Figure 5.3 within each round.
    """
    records = records.assign(collapsed=records.get("collapsed", False))
    ours = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
    runs = records.pivot(index=["model", "seed"], columns="task", values="value").stack(
        future_stack=True
    )
    for (model, seed, task), value in runs[~runs.between(0, 1)].items():
        raise ValueError(f"{label}: {model!r}, seed {seed}, on {task} has {value}: expected 0 to 1")
    twins = {"accuracy": "published", "normalized": "published_normalized"}
    theirs = pd.DataFrame(columns=["identity", "task", *twins], dtype=object)
    if not label.startswith(("figA_", "figB_")):
        theirs = published.load(label)[[*theirs]]
    names = {identity: model for model, identity in figure_models.shown(label).items()}
    frame = ours.rename(columns={"model": "identity"}).merge(
        theirs.rename(columns=twins), how="left"
    )
    frame["normalized"] = frame["value"] / frame.groupby("task")["value"].transform("max")
    frame["band"] = np.nan if band is None else band
    frame["model"] = frame["identity"].replace(names)
    # ties: in published order
    frame["mean"] = frame.groupby("model")["normalized"].transform("mean").round(12)
    frame["round"] = frame["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    orders = {
        "round": roles.ordered(frame["round"], roles.ROUNDS),
        "mean": sorted(frame["mean"].unique()),
    }
    orders |= {"identity": [*names, *frame["identity"]], "task": roles.ordered(frame["task"])}
    frame = frame.sort_values(
        [*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )
    kept = ["model", "task", "value", "published", "normalized", "published_normalized", "seeds"]
    return frame[[*kept, "band", "collapsed", "chance", "identity"]]


@style()
def boxplot(
    data: pd.DataFrame,
    label: str,
    *,
    order: str = "published",
    rounds: dict[str, int | None] = roles.ROUNDS,
    untrained: str = "",
) -> Figure:
    """Draw `boxplot_frame`'s data: our boxes and the published ones, the same rows in two columns
    with an axis each.

    A box holds the tasks. Dashed: the tasks' mean chance, divided as accuracies are; the published
    one is 1 / classes.
    order: of the rows, "published", where models that the thesis lacks come first, or "ours".
    rounds: the profile's.
    untrained: what ours of `UNTRAINED` are; the legend says it if they have rows.
    """
    printed = {
        f";{re.escape(name)}$": f";{text}" for name, text in roles.printed_rounds(rounds).items()
    }
    data = data.replace({"model": printed}, regex=True)
    data["short"] = data["model"].replace(settings()["short"].get(label, {}), regex=True)
    data["published_chance"] = 1 / data["task"].map(
        published.load("tab5_3").set_index("task")["classes"]
    )
    places = {
        identity: place for place, identity in enumerate(figure_models.printed(label).values())
    }
    if order == "published":
        data = data.sort_values(
            "identity", key=lambda names: names.map(places).fillna(-1), kind="stable"
        )
    models = data.groupby("model", sort=False)
    categories = [_category(label, row) for row, _ in models]
    colors = _palette(label, categories)
    panels = {name: columns for name, columns in _PANELS.items() if data[columns[0]].notna().any()}
    # The published height, less by the rows that are missing, more by further ones.
    width, height = settings()["sizes"].get(label, (8, 6))
    fixed = 1.6  # inches of axis labels and legend
    height = (
        fixed + (height - fixed) * len(models) / (len(places) or len(models))
        if len(models) > 1
        else fixed + 0.6
    )
    figure, (axes,) = plt.subplots(
        1, len(panels), figsize=(width, height), sharey=True, squeeze=False
    )
    for axis, (name, columns) in zip(axes, panels.items(), strict=True):
        scores, normalized, chance = (data[column] for column in columns)
        boxes = [box.dropna().to_numpy() for _, box in models[columns[1]]]
        drawn = axis.boxplot(boxes, positions=range(len(models)), **settings()["boxes"])
        drawn["means"][0].set_label("mean of the tasks")
        for box, category in zip(drawn["boxes"], categories, strict=True):
            box.set(facecolor=colors[category], edgecolor=INK, linewidth=0.8)
        best, band = models[columns[1]].mean().max(), data["band"].iloc[0]
        if name == "ours" and np.isfinite(band):
            axis.axvspan(best - band, best + band, **settings()["seed_noise"])
        axis.axvline(
            1, color=INK, linewidth=0.9, zorder=0.6, label="best of the figure on every task"
        )
        if np.isfinite(
            level := (chance * normalized / scores).groupby(data["task"]).first().mean()
        ):
            axis.axvline(level, **settings()["chance"], label=f"mean chance, {name}: {level:.2f}")
        squeeze(axis, np.array([*normalized, level]))
        axis.set(title=name_panel(label, name, data), xlabel="normalised accuracy")
        axis.grid(axis="y", visible=False)
    names = []
    for row in models[["short", "seeds", "collapsed"]].max().itertuples(index=False):
        mark = " †" if row.collapsed else ""
        count = f" ×{row.seeds}" if row.seeds > 1 else ""
        names.append(f"{row.short}{mark}{count}")
    # Long names: no more than half of the width for them (0.6 em a character).
    rows_from_top(
        axes[0], names, fontsize=min(8.8, 0.5 * width * 72 / (0.6 * (3 + max(map(len, names)))))
    )
    handles = [
        Patch(facecolor=color, edgecolor=INK, label=name) for name, color in colors.items() if name
    ]
    bases = data["identity"].str.partition(";")[0]  # without the round of Figure 5.3
    told = [
        settings()["orders_told"][order if places else "ours"],
        _note(data),
        *settings()["explained"].get(label, []),
        *([untrained] if untrained and bases.isin(UNTRAINED).any() else []),
    ]
    figure.legend(
        handles=[*handles, *labelled(axes)], title="\n".join(told), **settings()["boxes_legend"]
    )
    return figure


def name_panel(label: str, name: str, data: pd.DataFrame) -> str:
    """The title of a panel: "ours", or "published" with how many of its tasks are drawn.

    data: has the columns task and published.
    """
    if name == "ours":
        return name
    drawn = data.loc[data["published"].notna(), "task"].nunique()
    tasks = published.load(label)["task"].nunique()
    return name if drawn == tasks else f"{name}, {drawn} of its {tasks} tasks"


def seed_means(
    label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]
) -> pd.DataFrame:
    """The keys, value (a mean over seeds), seeds (how many), chance and `more`; `ValueError` for a
    repeated record."""
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(
            f"{label}: two records for {repeated.iloc[0].to_dict()}: pass one split of one run"
        )
    groups = records.assign(chance=records.get("chance", np.nan)).groupby(
        keys, sort=False, as_index=False
    )
    return groups.agg(
        value=("value", "mean"), seeds=("seed", "nunique"), chance=("chance", "first"), **more
    )


def _note(data: pd.DataFrame) -> str:
    """How many seeds the rows have, and what else a reader should know of them."""
    least, most = data["seeds"].min(), data["seeds"].max()
    seeds = "1 seed" if least == 1 else f"{least} seeds"
    parts = [f"{seeds} each" if least == most else f"{seeds} unless marked ×{most}"]
    if data["band"].isna().all() and data["value"].notna().any():
        parts.append("no seed noise band")
    if data["collapsed"].any():
        parts.append("†: collapsed, all embeddings point one way")
    return "; ".join(parts)


def _category(label: str, model: str) -> str:
    """What the published figure colours by; "" where it uses one colour."""
    matches = (
        (re.fullmatch(pattern, model), name)
        for pattern, name in settings()["categories"].get(label, {}).items()
    )
    return next((match.expand(name) for match, name in matches if match), "")


def _palette(label: str, drawn: list[str]) -> dict[str, str]:
    """Category -> colour, in the order of the legend; the same category has the same colour
    whatever rows are drawn."""
    names = dict.fromkeys((*settings()["orders"].get(label, ()), *drawn))
    fills = settings()["fills"]["weightings" if label in figure_models.WEIGHTINGS else "others"]
    palette = dict(zip(names, itertools.cycle(fills), strict=False)) | settings()["fills"]["fixed"]
    return {name: color for name, color in palette.items() if name in drawn}
