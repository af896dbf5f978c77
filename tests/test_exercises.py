"""The hidden solutions of the exercises run, and give what the text below them says."""

from __future__ import annotations

import ast
import builtins
import re

import numpy as np
import pandas as pd
import pytest
import torch

from lib import losses
from lib.chapters import published_noise
from lib.config import paths
from tests.test_notebooks_style import NUMBERED

NUMBERS = {  # that a solution prints, in their order
    "04_pv_grid": [],
    "05_projections": [2.00, 0.00, 2.00],
    "06_weighting": [0.020, 0.50, 0.07],
    "07_final_evaluation": [],
    "08_news_clustering": [2.0],
    "09_report": [0.0173, 0.0374],
}


def list_code(name: str) -> list[str]:
    return ["".join(cell["source"]) for cell in NUMBERED[name] if cell["cell_type"] == "code"]


def find_solution(name: str) -> str:
    text = "\n".join("".join(cell["source"]) for cell in NUMBERED[name])
    hidden = text.split("## Exercise\n")[1].split("<details><summary>Solution</summary>\n")[1]
    (solution,) = re.findall(r"```python\n(.*?)```", hidden.split("</details>")[0], re.DOTALL)
    return solution


def read_names(source: str) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def bound_names(source: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            names |= {node.name, *(argument.arg for argument in node.args.args)}
    return names


@pytest.mark.parametrize("name", NUMBERED)
def test_a_solution_reads_only_names_that_its_notebook_binds(name):
    solution = find_solution(name)
    known = set().union(*map(bound_names, [*list_code(name), solution]))
    assert read_names(solution) - known - {*dir(builtins)} == set()


def make_given_names() -> dict:
    """What notebooks have when a reader comes to the exercise, from committed figures of mini."""
    figures = paths.ROOT / "figures" / "mini"
    grid = pd.read_csv(figures / "fig4_5.csv")
    single = grid[~grid["model"].str.contains("+", regex=False)].copy()
    factors = ["architecture", "dimension", "pre-processing", "min_count"]
    single[factors] = [name.split(";") for name in single["model"]]
    decorrelated = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    return {
        "np": np,
        "torch": torch,
        "losses": losses,
        "single": single,
        "table": pd.read_csv(figures / "tab5_7.csv"),
        "reruns": published_noise.tabulate_reruns(),
        "share": 3918 / 8493,
        "decorrelated": decorrelated,
    }


@pytest.mark.parametrize("name", NUMBERS)
def test_a_solution_runs_on_what_the_notebook_has(name, capsys):
    shown = []
    exec(find_solution(name), make_given_names() | {"display": shown.append})
    printed = capsys.readouterr().out
    assert printed or shown
    numbers = [float(number) for number in re.findall(r"\d*\.\d+", printed)]
    assert numbers[: len(NUMBERS[name])] == pytest.approx(NUMBERS[name], abs=5e-4)


def list_toys(name: str, needed: set[str]) -> list[str]:
    """The cells of toy examples, which need neither bench nor records, that bind these names."""
    known, toys, chosen = {*dir(builtins)}, [], []
    for source in list_code(name):
        if "notebook.start" not in source and read_names(source) <= known | bound_names(source):
            known |= bound_names(source)
            toys.append(source)
    for source in reversed(toys):
        if bound_names(source) & needed:
            needed = needed | read_names(source)
            chosen.insert(0, source)
    return chosen


def solve(name: str) -> dict:
    """The names after a notebook's toy examples and the solution, whose last value is `shown`."""
    names: dict = {}
    for source in list_toys(name, read_names(find_solution(name))):
        exec(source, names)
    *body, last = ast.parse(find_solution(name)).body
    exec(compile(ast.Module(body, []), "solution", "exec"), names)
    return names | {"shown": eval(compile(ast.Expression(last.value), "solution", "eval"), names)}


def test_solutions_of_toy_examples_give_what_their_text_says():
    """The notebooks' own assertions compare losses by hand with the library's."""
    assert solve("01_data_stats")["needed"] == pytest.approx(2954, abs=1)
    shown = solve("02_structural_loss")["shown"]
    assert (shown["largest gradient"] == 0).all() and (shown["with a floor"] == -1).all()
    assert shown["max-margin"].is_monotonic_decreasing
    means = solve("03_composite_analysis")["frame"].groupby(["negatives", "to"])["value"].mean()
    assert means["true", "negatives"] < 0.7
    assert means["as published", "negatives"] == pytest.approx(1, abs=0.1)
