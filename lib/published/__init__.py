"""The numbers in the tables and figures of the thesis and the news paper, by label.

`params/published/README.md` names the sources.
"""

import functools
import re

import pandas as pd

from lib.config import paths, profiles, roles

FOLDER = paths.PARAMS / "published"
# The figures that rank models.
CHAPTER_4 = tuple(f"fig4_{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11, 12))
BOXPLOTS = (*CHAPTER_4, "fig5_3")
# The models of Chapter 5, in the order of Table 5.7.
CHAPTER_5 = ("Longformer", "DM", "PV", "SBERT", "cosine-masked", "MSE-contextual", "only-MSE")
NEWS = "news_fig1"  # our figure of the news paper's eight tables; the paper has none


@functools.cache
def _read_csv(name: str) -> pd.DataFrame:
    # pandas must not read "None", a label of the thesis, as a missing value. Empty cells are empty
    # texts.
    return pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False)


@functools.cache
def _read_curves() -> dict[str, str]:
    """Read figure -> the file of its published values."""
    return profiles.read_yaml("figures.yaml")["curves"]


def labels() -> list[str]:
    """List all labels with published numbers."""
    tables = [path.stem for path in FOLDER.glob("*tab*.csv")]
    pad = functools.partial(re.sub, r"\d+", lambda number: number[0].zfill(2))
    return sorted((*BOXPLOTS, *_read_curves(), NEWS, *tables), key=pad)


def load(label: str) -> pd.DataFrame:
    """Load the published rows for a label such as "fig4_5" or "tab5_7".

    Tables and curves have the columns of their CSV.

    Boxplots (Figures 4.2 to 4.12, 5.3) have a row per model and task, in the order drawn. Their
    columns are those of `boxplot_rows`, then task, accuracy, examples (tested), chance (see
    `load_chances`), normalized (accuracy divided by the task's best in the figure) and mean (of
    normalized, over tasks). The models of Figure 5.3 are `model;round`, and its best accuracies are
    those of all rounds.

    "news_fig1" has F1 (value, 0 to 1) by side (task), and size_mb and ms_per_document of models.
    `ParameterError` for an unknown label.
    """
    if label not in labels():
        raise profiles.make_unknown_error("label of published numbers", label, labels())
    if label in BOXPLOTS:
        return _load_boxplot(label)
    frame = _read_csv(_read_curves().get(label, label))
    if "label" in frame:
        frame = frame[frame["label"] == label].drop(columns="label")
    if label == "fig5_4":
        frame = frame[frame["round"] != "1k"].drop(columns="source")
    return frame.reset_index(drop=True)


def load_chances(split: str, metric: str = "accuracy") -> dict[str, float]:
    """Load task -> score of guessing on the thesis' data.

    For accuracy this is the share of the largest class, for MAP and MRR the expected score of a
    random ranking. `params/published/chances.csv` gives the source of each number.
    """
    rows = _read_csv("chances")
    rows = rows[(rows["split"] == split) & (rows["metric"] == metric)]
    return dict(zip(rows["task"], rows["chance"], strict=True))


def boxplot_rows(label: str) -> pd.DataFrame:
    """List the models of a boxplot from the top: row (from 1), model (as printed), identity."""
    rows = _read_csv("boxplots")
    return rows.loc[rows["label"] == label, ["row", "model", "identity"]].sort_values("row")


def _load_boxplot(label: str) -> pd.DataFrame:
    scores = _read_csv("ch5_accuracies" if label == "fig5_3" else "ch4_accuracies")
    if label == "fig5_3":
        scores = scores.assign(identity=scores["model"] + ";" + scores["round"])
    # Counts are exact, whereas the printed accuracies are rounded to six digits.
    scores = scores.assign(accuracy=scores["correct"] / scores["examples"])
    chances = load_chances("test" if label == "fig5_3" else "validation")
    scores = scores.assign(chance=scores["task"].map(chances))
    scores = scores[["identity", "task", "accuracy", "examples", "chance"]]
    scores = scores.sort_values("task", key=lambda tasks: tasks.map(roles.CLASSIFICATION.index))
    frame = boxplot_rows(label).merge(scores, on="identity", how="left", validate="one_to_many")
    frame["normalized"] = frame["accuracy"] / frame.groupby("task")["accuracy"].transform("max")
    return frame.assign(mean=frame.groupby("model")["normalized"].transform("mean"))
