"""The numbers in the tables and figures of the thesis and the news paper, and the models in them.

`params/published/README.md` names the sources; `params/grids` has models that were not printed.
"""

import functools
from collections.abc import Iterable
from itertools import product

import pandas as pd

from lib.config import manifest, paths, profiles
from lib.evaluation.metrics import normalized_accuracy

FOLDER = paths.PARAMS / "published"
# The figures that rank models.
CHAPTER_4 = tuple(f"fig4_{number}" for number in (2, 3, 5, 7, 8, 9, 10, 11, 12))
BOXPLOTS = (*CHAPTER_4, "fig5_3")
# Other figures, and the files that hold what they show.
CURVES = {"fig4_1": "length_histograms", "fig4_4": "fig4_4_distances"}
CURVES |= {"fig5_1": "length_histograms", "fig5_2": "length_ecdf", "fig5_4": "ch5_accuracies"}
CURVES |= {"fig5_5": "ch5_retrieval", "fig5_6": "ch5_retrieval"}
NEWS = "news_fig1"  # our figure of the news paper's eight tables; the paper has none
# The models of Chapter 5, in the order of Table 5.7.
CHAPTER_5 = ("Longformer", "DM", "PV", "SBERT", "cosine-masked", "MSE-contextual", "only-MSE")
# Figure -> structural loss.
PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}
WEIGHTINGS = {"fig4_10": "cosine", "fig4_11": "mm-MSE"}
# Our own students, which are not in the news paper.
OWN_NEWS = ("bag;cosine", "BiGRU(2)+1 linear;attentive;random tokens;cosine")


@functools.cache
def _read_csv(name: str) -> pd.DataFrame:
    # "None" is a label of the thesis, not a missing value; empty cells are empty texts.
    return pd.read_csv(FOLDER / f"{name}.csv", keep_default_na=False)


def labels() -> list[str]:
    """List all labels with published numbers."""
    return [*BOXPLOTS, *CURVES, NEWS, *sorted(path.stem for path in FOLDER.glob("*tab*.csv"))]


def load(label: str) -> pd.DataFrame:
    """Load the published rows for a label such as "fig4_5" or "tab5_7"; the columns of their CSV.

    Boxplots (Figures 4.2 to 4.12, 5.3) have a row per model and task, in the order drawn: row,
    model (as printed), identity, task, accuracy, examples (tested), chance, normalized (accuracy
    divided by the task's best in the figure) and mean (of normalized, over tasks). The models of
    Figure 5.3 are `model;round`. "news_fig1" has F1 (value, 0 to 1) by side (task).
    """
    if label not in BOXPLOTS:
        frame = _read_csv(CURVES.get(label, label))
        if "label" in frame:
            frame = frame[frame["label"] == label].drop(columns="label")
        if label == "fig5_4":
            frame = frame[frame["round"] != "1k"].drop(columns="source")
        return frame.reset_index(drop=True)
    final = label == "fig5_3"
    scores = _read_csv("ch5_accuracies" if final else "ch4_accuracies")
    if final:
        scores = scores.assign(identity=scores["model"] + ";" + scores["round"])
    # Counts are exact, whereas the printed accuracies are rounded to six digits.
    scores = scores.assign(accuracy=scores["correct"] / scores["examples"])
    scores["chance"] = scores["task"].map(load_chances("test" if final else "validation"))
    scores = scores[["identity", "task", "accuracy", "examples", "chance"]]
    scores = scores.sort_values("task", key=lambda tasks: tasks.map(manifest.CLASSIFICATION.index))
    rows = _read_csv("boxplots").query("label == @label")[["row", "model", "identity"]]
    frame = rows.merge(scores, on="identity", how="left", validate="one_to_many")
    frame["normalized"] = normalized_accuracy(frame["accuracy"], frame["task"])
    return frame.assign(mean=frame.groupby("model")["normalized"].transform("mean"))


def load_chances(split: str, metric: str = "accuracy") -> dict[str, float]:
    """Load task -> the score of guessing on the thesis' data, by accuracy, MAP or MRR."""
    rows = _read_csv("chances").query("split == @split and metric == @metric")
    return rows.set_index("task")["chance"].to_dict()


def printed(label: str) -> dict[str, str]:
    """Return name as printed -> identity, for the models of a boxplot from top to bottom."""
    return _read_csv("boxplots").query("label == @label").set_index("model")["identity"].to_dict()


def shown(label: str) -> dict[str, str]:
    """Return name -> identity of a boxplot's models: the published ones, then those of the grid."""
    prefix, variants = "", []  # Figures 4.2 and 4.12 have no grid
    if label == "fig4_3":
        grid = profiles.grid("structural")
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        variants = [f"max-margin;{distance};γ={float(gamma)}" for distance, gamma in margins]
        variants = [*grid["losses"], *variants]
    elif label == "fig4_5":
        grid = profiles.grid("pv")
        sizes = map(str, grid["dimensions"])
        parts = product(grid["architectures"], sizes, grid["preprocessing"], grid["min_count"])
        pairs = product(grid["compound"]["dm"], grid["compound"]["dbow"])
        variants = [";".join(part) for part in parts] + ["+".join(pair) for pair in pairs]
    elif label in PROJECTIONS:
        prefix = f"{PROJECTIONS[label]};"
        for group in profiles.grid("projections")[PROJECTIONS[label]]:
            for student, contextual in product(group["student"], group["contextual"]):
                variants.append(f"{group['dimension']};S:{student};C:{contextual}")
    elif label in WEIGHTINGS:
        prefix, grid = f"{printed(label)['no-weighting']};", profiles.grid("weighting")
        for mask, lam in product(grid["max_structural_len"], grid["lam"]):
            variants.append(f"{mask};λ={float(lam)}")
    models = printed(label)
    return models | {each: models.get(each, prefix + each) for each in variants}


def news_students() -> tuple[str, ...]:
    """Return the identities of the news paper's 48 students, in the order of its tables."""
    models = load(NEWS)["model"].drop_duplicates()
    return tuple(models[models.ne("teacher") & ~models.str.endswith(";fine-tuned")])


def names(labels: Iterable[str]) -> set[str]:
    """Return the names that the filter `only` may match in these figures and the news paper."""
    figures = [label for label in labels if label in CHAPTER_4] or CHAPTER_4
    return {*news_students(), *OWN_NEWS}.union(*map(shown, figures))
