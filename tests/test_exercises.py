"""The hidden solutions of the exercises run, and print or leave what the text below them says."""

from __future__ import annotations

import ast
import builtins
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from lib import losses
from lib.config import paths
from tests.test_notebooks_style import NUMBERED, bound, code, code_in_text, read

PRINTED = {
    "04_pv_grid": [],
    "05_projections": ["same     CCA 2.00, SoftCCA 0.00", "rotated  CCA 2.00", "doubled  CCA 2.00"],
    "06_weighting": ["λ = 0.020, contextual share 0.50", "gives 0.07"],
    "07_final_evaluation": [],
    "08_news_clustering": ["one cluster: 2.0", "F1 17."],
    "09_report": ["2 pairs: 0.0249", "10 pairs: 0.0129"],
}


def last_cell(name: str) -> str:
    cells = json.loads((paths.NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"][-1]


def given() -> dict:
    """What the notebooks have when a reader comes to the exercise, from the committed figures of mini."""
    grid = pd.read_csv(paths.ROOT / "figures/mini/fig4_5.csv")
    single = grid[~grid["model"].str.contains("+", regex=False)].copy()
    single[["architecture", "dimension", "pre-processing", "min_count"]] = [
        name.split(";") for name in single["model"]
    ]
    table = pd.read_csv(paths.ROOT / "figures/mini/tab5_7.csv")
    decorrelated = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    names = {
        "np": np,
        "torch": torch,
        "losses": losses,
        "single": single,
        "table": table,
        "share": 3918 / 8493,
    }
    return names | {"decorrelated": decorrelated}


@pytest.mark.parametrize("name", PRINTED)
def test_the_solution_runs_and_says_what_the_text_says(name, capsys):
    text = last_cell(name)
    assert text.startswith("## Exercise") and re.search(
        r"<details><summary>Solution</summary>\n\n.*\n\n</details>", text, re.DOTALL
    )
    (solution,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = []
    exec(solution, given() | {"display": shown.append})
    told = capsys.readouterr().out
    assert [part for part in PRINTED[name] if part not in told] == [] and (told or shown)
    if name == "04_pv_grid":
        ours = shown[0]["normalized"]
        assert ours.loc["stem", "DM"] > ours.loc["lowercase", "DM"] + 0.02
        assert abs(ours.loc["stem", "DBOW"] - ours.loc["lowercase", "DBOW"]) < 0.002
    if name == "07_final_evaluation":
        assert (shown[0]["mean"] == shown[0]["norm_mean"]).all()


def toys(cells) -> dict:
    """The names after the notebook's toy examples: its untagged cells that need neither profile nor records."""
    names: dict = {}
    for source in (
        source for cell, source in zip(codes(cells), code(cells), strict=True) if "tags" not in cell
    ):
        tree = [*ast.walk(ast.parse(source))]
        if "lib.runner" not in source and read(tree) <= {*dir(builtins), *names} | bound(tree):
            exec(source, names)
    return names


def codes(cells) -> list[dict]:
    return [cell["metadata"] for cell in cells if cell["cell_type"] == "code"]


@pytest.fixture
def solved(request, capsys):
    """What a notebook's solution prints and what it leaves, its last value as `shown`; run after the toy examples."""
    names, (solution,) = toys(NUMBERED[request.param]), code_in_text(NUMBERED[request.param])
    *body, last = ast.parse(solution).body
    capsys.readouterr()
    exec(compile(ast.Module(body, []), "solution", "exec"), names)
    names["shown"] = eval(compile(ast.Expression(last.value), "solution", "eval"), names)
    return capsys.readouterr().out, names


@pytest.mark.parametrize("solved", ["01_data_stats"], indirect=True)
def test_the_number_of_examples_that_a_small_difference_takes(solved):
    assert solved[0] == "2954 examples\n"


@pytest.mark.parametrize("solved", ["02_structural_loss"], indirect=True)
def test_every_loss_by_hand_is_the_librarys_and_a_floor_ends_growth(solved):
    """The notebook's own assertions compare; here they are seen to have run."""
    names = solved[1]
    assert {"mse", "cosine", "by_hand", "printed", "gamma"} <= names.keys()
    assert (names["shown"]["largest gradient"] == 0).all() and (
        names["shown"]["with a floor"] == -1
    ).all()
    assert names["shown"]["max-margin"].is_monotonic_decreasing


@pytest.mark.parametrize("solved", ["03_composite_analysis"], indirect=True)
def test_distances_by_hand_are_the_librarys_and_shifted_negatives_are_orthogonal(solved):
    names = solved[1]
    assert {"by_hand", "measured", "y"} <= names.keys()
    means = names["frame"].groupby(["negatives", "to"])["value"].mean()
    assert means["true", "negatives"] < 0.7 and abs(means["as published", "negatives"] - 1) < 0.1
