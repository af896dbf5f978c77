"""Boxplots of Chapter 4 and Figure 5.3: one row per model, the tasks' normalised accuracy, best at the bottom."""

import itertools
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from lib import published
from lib.config import roles
from lib.figures.style import CHANCE, COLORS, INK, LOOK, SIZES, rows_from_top, squeeze, style
from lib.published import figure_models

UNTRAINED = ("Longformer", "SBERT")  # the base checkpoint and the structural teacher
_APPENDIX = ("figA_", "figB_")  # how labels begin of what the thesis does not show
_BASELINE = "baseline or teacher"  # this category has the same neutral colour in every figure
_PANELS = {  # columns of a figure -> what they draw: scores, these divided by the best of their task, chance
    "ours": ("value", "normalized", "chance"),
    "published": ("published", "published_normalized", "published_chance"),
}
_ORDERS = {"ours": "Best row at the bottom.", "published": "Rows as published, the best at the bottom."}


def boxplot_frame(label: str, records: pd.DataFrame | None = None, *, band: float | None = None) -> pd.DataFrame:
    """Our accuracies beside the published ones: the data, and the CSV, of a boxplot figure.

    records: columns model (identity), task, seed, value, perhaps chance (of the task) and collapsed (of the model);
        None for the published figure alone.
    band: two pooled standard deviations, over seeds, of a model's mean normalised accuracy; None if unknown.

    Model is the name printed in that figure, else the grid's, else the identity; normalized divides by the best
    accuracy of the task in its own column. Rows ascend by mean normalised accuracy, in Figure 5.3 within each round.
    """
    twins = {"accuracy": "published", "normalized": "published_normalized"}
    theirs = pd.DataFrame(columns=["identity", "task", *twins], dtype=object)
    if not label.startswith(_APPENDIX):
        theirs = published.load(label)[[*theirs]]
    if records is None:
        ours = theirs[["identity", "task"]].assign(value=np.nan, seeds=1, chance=np.nan, collapsed=False)
    else:
        records = records.assign(collapsed=records.get("collapsed", False))
        ours = seed_means(label, records, ["model", "task"], collapsed=("collapsed", "any"))
        runs = records.pivot(index=["model", "seed"], columns="task", values="value").stack(future_stack=True)
        for (model, seed, task), value in runs[~runs.between(0, 1)].items():
            told = f"{model!r}, seed {seed}, on {task} has {value}"
            raise ValueError(f"{label}: {told}: expected an accuracy from 0 to 1")
    frame = ours.rename(columns={"model": "identity"}).merge(theirs.rename(columns=twins), how="left")
    names = {identity: model for model, identity in figure_models.shown(label).items()}
    names |= {identity: names.get(identity, identity) for identity in frame["identity"]}
    frame["normalized"] = frame["value"] / frame.groupby("task")["value"].transform("max")
    frame["band"] = np.nan if band is None else band
    frame["model"] = frame["identity"].map(names)
    frame["mean"] = frame.groupby("model")["normalized"].transform("mean").round(12).fillna(0)  # ties: as published
    frame["round"] = frame["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    orders = {"round": roles.ordered(frame["round"], roles.ROUNDS), "mean": sorted(frame["mean"].unique())}
    orders |= {"identity": list(names), "task": roles.ordered(frame["task"])}
    frame = frame.sort_values([*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True)
    kept = "model task value published normalized published_normalized seeds band collapsed chance identity"
    return frame[kept.split()]


@style()
def boxplot(
    data: pd.DataFrame, label: str, *, order: str = "published", rounds: dict[str, int | None] = roles.ROUNDS
) -> Figure:
    """Draw `boxplot_frame`'s data: our boxes and the published ones, the same rows in two columns with an axis each.

    order: of the rows, "published", where models that the thesis lacks come first, or "ours". rounds: the profile's.

    A box holds the tasks, the black triangle is their mean. Means inside the shaded strip lie within seed noise of our
    best row. Dashed: the tasks' mean chance, divided as accuracies are; the published one is 1 / classes. What lies far
    below most values stands on a smaller scale, on grey.
    """
    printed = {f";{re.escape(name)}$": f";{text}" for name, text in roles.printed_rounds(rounds).items()}
    data = data.replace({"model": printed}, regex=True)
    data["name"] = data["model"].replace(LOOK["short"].get(label, {}), regex=True)
    data["published_chance"] = 1 / data["task"].map(published.load("tab5_3").set_index("task")["classes"])
    places = {identity: place for place, identity in enumerate(figure_models.printed(label).values())}
    if order == "published":
        data = data.sort_values("identity", key=lambda names: names.map(places).fillna(-1), kind="stable")
    models = data.groupby("model", sort=False)
    rows = data["model"].unique().tolist()
    categories = [_category(label, row) for row in rows]
    colors = _palette(label, categories)
    panels = {name: columns for name, columns in _PANELS.items() if data[columns[0]].notna().any()}
    # The published size, wide enough for two columns; less high by the rows that are missing, higher by further ones.
    width, height = SIZES.get(label, (7, 6))
    width = max(width, 8) if len(panels) == 2 else width
    fixed = 1.6  # inches of axis labels and legend
    height = fixed + (height - fixed) * len(rows) / (len(places) or len(rows)) if len(rows) > 1 else fixed + 0.6
    figure, (axes,) = plt.subplots(1, len(panels), figsize=(width, height), sharey=True, squeeze=False)
    handles = [Patch(facecolor=color, edgecolor=INK, label=name) for name, color in colors.items() if name]
    handles.append(Line2D([], [], marker="^", color="black", linestyle="", label="mean of the tasks"))
    chances, grey = {}, None
    for axis, (name, columns) in zip(axes, panels.items(), strict=True):
        scores, normalized, chance = (data[column] for column in columns)
        boxes = [box.dropna().to_numpy() for _, box in models[columns[1]]]
        drawn = axis.boxplot(boxes, positions=range(len(rows)), **LOOK["boxes"])
        for box, category in zip(drawn["boxes"], categories, strict=True):
            box.set(facecolor=colors[category], edgecolor=INK, linewidth=0.8)
        best = axis.axvline(1, color=INK, linewidth=0.9, zorder=0.6, label="best of the figure on every task")
        chances[name] = (chance * normalized / scores).groupby(data["task"]).first().mean()
        mark = axis.axvline(chances[name], **CHANCE)
        grey = squeeze(axis, np.array([*normalized.dropna(), chances[name]])) or grey
        axis.set(title=name, xlabel="normalised accuracy")
        axis.grid(axis="y", visible=False)
    if np.isfinite(band := data["band"].iloc[0]):
        ours = models["normalized"].mean().max()
        strip = {"color": COLORS[8], "alpha": 0.5, "lw": 0, "label": "seed noise, 2 sd around the best row"}
        handles.append(axes[0].axvspan(ours - band, ours + band, zorder=0.5, **strip))
    handles.append(best)
    if told := ", ".join(f"{name} {chance:.2f}" for name, chance in chances.items() if np.isfinite(chance)):
        mark.set_label(f"mean chance: {told}")
        handles.append(mark)
    handles += [grey] if grey else []
    facts = models[["name", "seeds", "collapsed"]].max().itertuples(index=False)
    names = [name + " †" * bool(collapsed) + f" ×{seeds}" * (seeds > 1) for name, seeds, collapsed in facts]
    # Long names: no more than half of the width for them (0.6 em a character).
    rows_from_top(axes[0], names, fontsize=min(8.8, 0.5 * width * 72 / (0.6 * (3 + max(map(len, names))))))
    notes = [_ORDERS[order if places else "ours"], _note(data), LOOK["explained"].get(label, "")]
    form = {"title": "\n".join(filter(None, notes)), "alignment": "left", "ncols": 2 if width < 7 else 3}
    figure.legend(handles=handles, loc="outside lower center", fontsize=8, title_fontsize=8, columnspacing=1.4, **form)
    return figure


def seed_means(label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """The keys, value (a mean over seeds), seeds (how many), chance and `more`; `ValueError` for a repeated record."""
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(f"{label}: two records for {repeated.iloc[0].to_dict()}: pass one split of one run")
    groups = records.assign(chance=records.get("chance", np.nan)).groupby(keys, sort=False, as_index=False)
    return groups.agg(value=("value", "mean"), seeds=("seed", "nunique"), chance=("chance", "first"), **more)


def _note(data: pd.DataFrame) -> str:
    least, most = data["seeds"].min(), data["seeds"].max()
    note = f"{least} seed{'s' if least > 1 else ''} " + ("each" if least == most else f"unless marked ×{most}")
    note += "; no seed noise band" if data["band"].isna().all() else ""
    return note + ("; †: collapsed, all embeddings point one way" if data["collapsed"].any() else "")


def _category(label: str, model: str) -> str:
    """What the published figure colours by; "" where it uses one colour."""
    matches = ((re.fullmatch(pattern, model), name) for pattern, name in LOOK["categories"].get(label, {}).items())
    return next((match.expand(name) for match, name in matches if match), "")


def _palette(label: str, drawn: list[str]) -> dict[str, str]:
    """Category -> colour, in the order of the legend; the same category has the same colour whatever rows are drawn."""
    names = dict.fromkeys(name for name in (*LOOK["orders"].get(label, ()), *drawn) if name != _BASELINE)
    fills = LOOK["fills"]["weightings" if label in figure_models.WEIGHTINGS else "others"]
    palette = dict(zip(names, itertools.cycle(fills), strict=False)) | {_BASELINE: LOOK["fills"]["baselines"]}
    return {name: color for name, color in palette.items() if name in drawn}
