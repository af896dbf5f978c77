"""The hidden solutions of the exercises in notebooks 04 to 09 run, and print what the text below them says."""

from __future__ import annotations

import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from lib import losses
from lib.config import paths

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


def bound() -> dict:
    """What the notebooks have when a reader comes to the exercise, from the committed figures of mini."""
    grid = pd.read_csv(paths.ROOT / "figures/mini/fig4_5.csv")
    single = grid[~grid["model"].str.contains("+", regex=False)].copy()
    single[["architecture", "dimension", "pre-processing", "min_count"]] = [name.split(";") for name in single["model"]]
    table = pd.read_csv(paths.ROOT / "figures/mini/tab5_7.csv")
    decorrelated = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    given = {"np": np, "torch": torch, "losses": losses, "single": single, "table": table, "share": 3918 / 8493}
    return given | {"decorrelated": decorrelated}


@pytest.mark.parametrize("name", PRINTED)
def test_the_solution_runs_and_says_what_the_text_says(name, capsys):
    text = last_cell(name)
    assert text.startswith("## Exercise") and re.search(
        r"<details><summary>Solution</summary>\n\n.*\n\n</details>", text, re.DOTALL
    )
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    shown = []
    exec(code, bound() | {"display": shown.append})
    told = capsys.readouterr().out
    assert [part for part in PRINTED[name] if part not in told] == [] and (told or shown)
    if name == "04_pv_grid":
        ours = shown[0]["normalized"]
        assert ours.loc["stem", "DM"] > ours.loc["lowercase", "DM"] + 0.02
        assert abs(ours.loc["stem", "DBOW"] - ours.loc["lowercase", "DBOW"]) < 0.002
    if name == "07_final_evaluation":
        assert (shown[0]["mean"] == shown[0]["norm_mean"]).all()
