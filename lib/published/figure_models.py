"""The models of Chapter 4's figures, the published ones and the variants that `params/grids` adds to them, and the news
paper's students."""

from collections.abc import Iterable
from itertools import chain, product

from lib.config import profiles
from lib.published import CHAPTER_4, NEWS, boxplot_rows, load

PROJECTIONS = {
    "fig4_7": "only-contextual",
    "fig4_8": "cosine",
    "fig4_9": "mm-MSE",
}  # figure -> structural loss
WEIGHTINGS = {"fig4_10": "cosine", "fig4_11": "mm-MSE"}  # the same
OWN_NEWS = (
    "bag;cosine",
    "BiGRU(2)+1 linear;attentive;random tokens;cosine",
)  # students that the paper does not have


def printed(label: str) -> dict[str, str]:
    """Name as printed -> the one identity of that model, from top to bottom."""
    return boxplot_rows(label).set_index("model")["identity"].to_dict()


def shown(label: str) -> dict[str, str]:
    """Name as printed -> identity of every model of a boxplot: the published from top to bottom, then the grid's."""
    return printed(label) | of_grid(label)


def names(labels: Iterable[str]) -> set[str]:
    """The names that a filter can choose among: those of the labels' figures, of all figures where none has models."""
    labels = {*labels}
    students = (
        {*news_students(), *OWN_NEWS}
        if any(label.startswith("news") for label in labels)
        else set()
    )
    figures = labels.intersection(CHAPTER_4) or (() if students else CHAPTER_4)
    return students.union(*map(shown, figures))


def news_students() -> tuple[str, ...]:
    """The identities of the news paper's 48 students, each once, in the order of its tables."""
    models = load(NEWS)["model"].drop_duplicates()
    return tuple(
        model for model in models if model != "teacher" and not model.endswith(";fine-tuned")
    )


def of_grid(label: str) -> dict[str, str]:
    """Name in the figure's style -> identity of every variant of the figure's grid, which 4.2 and 4.12 do not have."""
    published, prefix, variants = printed(label), "", []
    if label == "fig4_3":
        grid = profiles.grid("structural")
        margins = product(grid["max_margin"]["distances"], grid["max_margin"]["gammas"])
        variants = [
            *grid["losses"],
            *(f"max-margin;{distance};γ={gamma}" for distance, gamma in margins),
        ]
    elif label == "fig4_5":
        grid = profiles.grid("pv")
        parts = product(
            grid["architectures"],
            map(str, grid["dimensions"]),
            grid["preprocessing"],
            grid["min_count"],
        )
        variants = [
            *map(";".join, parts),
            *map("+".join, product(grid["compound"]["dm"], grid["compound"]["dbow"])),
        ]
    elif label in PROJECTIONS:
        prefix = f"{PROJECTIONS[label]};"
        groups = profiles.grid("projections")[PROJECTIONS[label]]
        parts = (
            product([group["dimension"]], group["student"], group["contextual"]) for group in groups
        )
        variants = [
            f"{size};S:{student};C:{contextual}"
            for size, student, contextual in chain.from_iterable(parts)
        ]
    elif label in WEIGHTINGS:
        prefix, grid = f"{published['no-weighting']};", profiles.grid("weighting")
        variants = [
            f"{mask};λ={lam}" for mask, lam in product(grid["max_structural_len"], grid["lam"])
        ]
    return {variant: published.get(variant, prefix + variant) for variant in variants}
