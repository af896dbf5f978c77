"""The frame of a notebook: parameters are checked, promises are kept."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.runner import notebook

NAME = "02_structural_loss"
PARAMETERS = {"profile": "mini", "seeds": None, "only": "", "overrides": {}}
SHELL = {"In": [""], "Out": {}, "exit": object(), "_i": "1", "notebook": os}


@pytest.fixture(autouse=True)
def new_kernel(monkeypatch, tmp_path):
    """Every test is a new kernel: no runner around, and the environment is put back."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    monkeypatch.setattr(os, "environ", kept | {"THESIS_ARTIFACTS": str(tmp_path)})


def start(**changed):
    return notebook.start(NAME, SHELL | PARAMETERS | changed)


def test_start_gives_the_checked_profile_also_if_its_cell_runs_again():
    nb = start(seeds="0,1", overrides=["heads.epochs=2"])
    assert nb.profile.departures == {"seeds": [0, 1], "heads.epochs": 2}
    assert start(nb=nb, table=[1, 2]).profile.name == "mini"


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"typo": 1}, "unknown parameter 'typo'; nearest: .*restart the kernel"),
        ({"overrides": {"training.document": 6}}, "unknown key training.document; nearest"),
        ({"profile": "published"}, "'published' is not for this notebook"),
    ],
)
def test_start_rejects_what_is_no_parameter(changed, expected):
    with pytest.raises(profiles.ParameterError, match=expected):
        start(**changed)


def test_after_a_refusal_no_cell_goes_on_with_what_an_earlier_call_gave():
    cells = SHELL | PARAMETERS | {"nb": start(), "bench": 1, "P": 2, "profile": "smok"}
    with pytest.raises(profiles.ParameterError, match="nearest: smoke"):
        notebook.start(NAME, cells)
    assert cells["nb"] is cells["bench"] is cells["P"] is None
    assert notebook.start(NAME, cells | {"table": [1, 2], "profile": "smoke"})


def test_finish_wants_what_the_manifest_promises(capsys):
    nb = start()
    nb.saved = sorted(nb.promised.keys() - {"fig4_3"})
    with pytest.raises(RuntimeError, match="did not save fig4_3: run all cells above"):
        nb.finish()
    nb.saved.append("fig4_3")
    nb.finish()
    assert capsys.readouterr().out.startswith(f"{notebook.MARKER} {NAME}")
    start(only="cosine").finish()  # then a figure may have nothing to show


def test_a_figure_is_saved_with_its_provenance(tmp_path):
    nb = start(seeds=[5])
    nb.save_table(pd.DataFrame({"model": ["cosine"]}), "tab4_3", caption="Heads")
    assert "Heads" in (paths.figures(nb.profile) / "tab4_3.md").read_text()
    store = SimpleNamespace(used={"b/2", "a/1"}, outdated={"a/1"})
    nb.__dict__["bench"] = SimpleNamespace(store=store)
    records = pd.DataFrame({"fingerprint": ["aa", "ab", "bb"], "seed": [0, 0, 2]})
    nb.save(plt.figure(), "fig4_2", records, records=records)
    assert nb.saved == ["tab4_3", "fig4_2"]
    notes = [next(tmp_path.rglob(f"{label}.json")).read_text() for label in nb.saved]
    table, figure = map(json.loads, notes)
    assert table["used"] == table["outdated"] == [], "a notebook that asks for no bench makes none"
    assert (figure["used"], figure["outdated"]) == (["a/1", "b/2"], ["a/1"])
    assert figure["departures"] == {"seeds": [5]} and {"commit", "dirty"} <= {*figure}
    assert (figure["fingerprint"], figure["seed"]) == (["aa", "ab", "bb"], [0, 2])
    assert figure["versions"]["pandas"] == pd.__version__ and "seed" not in table


def test_opening_a_notebook_costs_no_heavy_import():
    heavy = "{'torch', 'transformers', 'gensim', 'pandas', 'matplotlib', 'numpy'}"
    modules = "lib.runner.notebook, lib.runner.run_all"
    program = f"import sys, {modules}; print(*{heavy} & set(sys.modules))"
    environment = os.environ | {"PYTHONPATH": str(paths.ROOT)}
    assert subprocess.check_output([sys.executable, "-c", program], env=environment) == b"\n"
