"""The models in Chapter 4's figures, published or from `params/grids`, and in the news paper."""

from collections.abc import Iterable
from itertools import product

from lib.config import profiles
from lib.published import CHAPTER_4, NEWS, boxplot_rows, load

# Figure -> structural loss.
PROJECTIONS = {"fig4_7": "only-contextual", "fig4_8": "cosine", "fig4_9": "mm-MSE"}
WEIGHTINGS = {"fig4_10": "cosine", "fig4_11": "mm-MSE"}
# Our own students, which are not in the news paper.
OWN_NEWS = ("bag;cosine", "BiGRU(2)+1 linear;attentive;random tokens;cosine")


def printed(label: str) -> dict[str, str]:
    """Return name as printed -> identity, for the models of a boxplot from top to bottom."""
    return boxplot_rows(label).set_index("model")["identity"].to_dict()


def shown(label: str) -> dict[str, str]:
    """Return name -> identity of a boxplot's models: the published ones, then those of the grid."""
    return printed(label) | list_grid(label)


def names(labels: Iterable[str]) -> set[str]:
    """Return the names that the filter `only` may match: those of models in the labels' figures.

    If none of the labels shows models, these are the names in all figures of Chapter 4.
    """
    labels = {*labels}
    news = any(label.startswith("news") for label in labels)
    students = {*news_students(), *OWN_NEWS} if news else set()
    figures = labels.intersection(CHAPTER_4) or (() if students else CHAPTER_4)
    return students.union(*map(shown, figures))


def news_students() -> tuple[str, ...]:
    """Return the identities of the news paper's 48 students, in the order of its tables."""
    models = load(NEWS)["model"].drop_duplicates()
    return tuple(models[models.ne("teacher") & ~models.str.endswith(";fine-tuned")])


def list_references(labels: Iterable[str]) -> list[str]:
    """List the identities of the reference students in the grid of projections of these figures."""
    references = []
    for structural in (PROJECTIONS[label] for label in labels if label in PROJECTIONS):
        for group in profiles.grid("projections")[structural]:
            if "reference" in group:
                student, contextual = group["reference"]
                references.append(f"{structural};{group['dimension']};S:{student};C:{contextual}")
    return references


def list_grid(label: str) -> dict[str, str]:
    """Return name in the figure's style -> identity, for every variant in the figure's grid."""
    published = printed(label)
    prefix, variants = "", []  # Figures 4.2 and 4.12 have no grid
    if label == "fig4_3":
        grid = profiles.grid("structural")
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        variants = list(grid["losses"])
        variants += [f"max-margin;{distance};γ={float(gamma)}" for distance, gamma in margins]
    elif label == "fig4_5":
        grid = profiles.grid("pv")
        sizes = map(str, grid["dimensions"])
        parts = product(grid["architectures"], sizes, grid["preprocessing"], grid["min_count"])
        variants = list(map(";".join, parts))
        variants += map("+".join, product(grid["compound"]["dm"], grid["compound"]["dbow"]))
    elif label in PROJECTIONS:
        prefix = f"{PROJECTIONS[label]};"
        for group in profiles.grid("projections")[PROJECTIONS[label]]:
            for student, contextual in product(group["student"], group["contextual"]):
                variants.append(f"{group['dimension']};S:{student};C:{contextual}")
    elif label in WEIGHTINGS:
        prefix, grid = f"{published['no-weighting']};", profiles.grid("weighting")
        weights = product(grid["max_structural_len"], grid["lam"])
        variants = [f"{mask};λ={float(lam)}" for mask, lam in weights]
    return {variant: published.get(variant, prefix + variant) for variant in variants}
