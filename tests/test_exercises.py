"""The hidden solutions of the exercises run, and give what the text below them says."""

import ast
import contextlib
import re

import numpy as np
import pandas as pd
import pytest
import torch

from lib import losses
from lib.chapters import chapter4
from lib.config import paths
from tests.test_notebooks_style import NUMBERED

# What a solution prints first.
NUMBERS = {"05_projections": [2.00, 0.00, 2.00], "06_weighting": [0.020, 0.50, 0.07]}
NUMBERS |= {"08_news_clustering": [2.0], "09_report": [0.0173, 0.0374]}
NUMBERS |= {"04_pv_grid": [], "07_final_evaluation": []}


def read(name):
    """The sources of a notebook's code cells, and its solution."""
    text = "\n".join("".join(cell["source"]) for cell in NUMBERED[name])
    pattern = r"<summary>Solution</summary>\n.*?```python\n(.*?)```"
    (solution,) = re.findall(pattern, text.split("## Exercise\n")[1], re.DOTALL)
    cells = [cell["source"] for cell in NUMBERED[name] if cell["cell_type"] == "code"]
    return ["".join(lines) for lines in cells], solution


@pytest.fixture(scope="module")
def given():
    """What notebooks have when a reader comes to the exercise, from committed figures of mini."""
    figures = paths.ROOT / "figures" / "mini"
    grid = pd.read_csv(figures / "fig4_5.csv")
    single = grid[~grid["model"].str.contains("+", regex=False)].copy()
    factors = ["architecture", "dimension", "pre-processing", "min_count"]
    single[factors] = [name.split(";") for name in single["model"]]
    names = {"np": np, "torch": torch, "losses": losses, "single": single, "share": 3918 / 8493}
    names["decorrelated"] = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    names |= {"table": pd.read_csv(figures / "tab5_7.csv")}
    return names | {"reruns": chapter4.tabulate_reruns()}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_solution_runs_on_what_the_notebook_has(name, given, capsys):
    (cells, solution), shown = read(name), []
    used = {*given} & {*compile(solution, name, "exec").co_names}
    assert [each for each in used if not re.search(rf"\b{each}\b", "\n".join(cells))] == []
    exec(solution, given | {"display": shown.append})
    printed = capsys.readouterr().out
    assert printed or shown
    numbers = [float(number) for number in re.findall(r"\d*\.\d+", printed)]
    assert numbers[: len(NUMBERS[name])] == pytest.approx(NUMBERS[name], abs=5e-4)


def solve(name):
    """The names after a notebook's toy examples, which need no bench, and after the solution, whose
    last value is `shown`.
    """
    names, (cells, solution) = {}, read(name)
    for source in cells:
        if "notebook.start" not in source:
            with contextlib.suppress(NameError):
                exec(source, names)
    *body, last = ast.parse(solution).body
    exec(compile(ast.Module(body, []), "solution", "exec"), names)
    return names | {"shown": eval(compile(ast.Expression(last.value), "solution", "eval"), names)}


def test_solutions_of_toy_examples_give_what_their_text_says(capsys):
    assert solve("01_data_stats")["needed"] == pytest.approx(2954, abs=1)
    shown = solve("02_structural_loss")["shown"]
    assert (shown["largest gradient"] == 0).all() and (shown["with a floor"] == -1).all()
    assert shown["max-margin"].is_monotonic_decreasing
    means = solve("03_composite_analysis")["frame"].groupby(["negatives", "to"])["value"].mean()
    assert means["true", "negatives"] < 0.7
    assert means["as published", "negatives"] == pytest.approx(1, abs=0.1)
    solve("10_beyond")
    by_formula, drawn = re.findall(r"[\d.]+", capsys.readouterr().out.splitlines()[-1])
    assert float(drawn) == pytest.approx(float(by_formula), rel=0.05)
