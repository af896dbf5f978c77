"""What thesis and news paper printed and drew, by label; `params/published/README.md` names the sources."""

import functools
import re

import pandas as pd

from lib.config import paths, profiles, roles

FOLDER = paths.PARAMS / "published"
_CURVES = profiles.read_yaml("figures.yaml")["curves"]  # figure -> the file of its published values


@functools.cache
def _read(name: str) -> pd.DataFrame:
    # Without pandas' list of missing values: "None" is a label of the thesis, and a cell left empty stays text.
    return pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False)


BOXPLOTS = tuple(
    _read("boxplots")["label"].unique()
)  # the figures that rank models: 4.2 to 4.12, and 5.3
CHAPTER_4 = tuple(label for label in BOXPLOTS if label.startswith("fig4_"))
CHAPTER_5 = tuple(
    _read("tab5_7")["model"].unique()
)  # the models of Chapter 5, as Table 5.7 lists them
NEWS = "news_fig1"  # ours: the news paper has no figure, its eight tables together make one


def labels() -> list[str]:
    """Every label that has published numbers, figures first."""
    labels = (*BOXPLOTS, *_CURVES, NEWS, *(path.stem for path in FOLDER.glob("*tab*.csv")))
    return sorted(
        labels, key=lambda label: re.sub(r"\d+", lambda number: number[0].zfill(2), label)
    )


def load(label: str) -> pd.DataFrame:
    """Published rows for a label such as "fig4_5" or "tab5_7"; tables and curves as in their CSV.

    Boxplots (Figures 4.2-4.12, 5.3) have the columns of `boxplot_rows`, task, accuracy, normalized (by the task's best
    accuracy in the figure) and mean (over the tasks), in the order drawn. Figure 5.3's models are `model;round`, its
    maxima run over all rounds. "news_fig1": F1 (value, 0 to 1) by side (task), size_mb and ms_per_document of models.
    """
    if label not in labels():
        raise profiles.unknown("label of published numbers", label, labels())
    if label in BOXPLOTS:
        return _boxplot(label)
    frame = _read(_CURVES.get(label, label))
    if "label" in frame:
        frame = frame[frame["label"] == label].drop(columns="label")
    if label == "fig5_4":
        frame = frame[frame["round"] != "1k"].drop(columns="source")
    return frame.reset_index(drop=True)


def boxplot_rows(label: str) -> pd.DataFrame:
    """The models of a boxplot from top to bottom: columns row (1 is the top), model (as printed) and identity."""
    rows = _read("boxplots")
    return rows.loc[rows["label"] == label, ["row", "model", "identity"]].sort_values("row")


def _boxplot(label: str) -> pd.DataFrame:
    scores = _read("ch5_accuracies" if label == "fig5_3" else "ch4_accuracies")
    if label == "fig5_3":
        scores = scores.assign(identity=scores["model"] + ";" + scores["round"])
    exact = (
        scores["correct"] / scores["examples"]
    )  # the printed six digits would blur the boxes at 1e-6
    scores = scores.assign(accuracy=exact)[["identity", "task", "accuracy"]]
    scores = scores.sort_values("task", key=lambda tasks: tasks.map(roles.CLASSIFICATION.index))
    frame = boxplot_rows(label).merge(scores, on="identity", how="left", validate="one_to_many")
    frame["normalized"] = frame["accuracy"] / frame.groupby("task")["accuracy"].transform("max")
    return frame.assign(mean=frame.groupby("model")["normalized"].transform("mean"))
