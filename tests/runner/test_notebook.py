"""The frame of a notebook: parameters are checked, promises are kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import pandas as pd
import papermill
import pytest

from lib.config import manifest, paths, profiles
from lib.runner import notebook
from lib.runner.execution import PATIENCE
from lib.store import progress, provenance

NAME = "02_structural_loss"
PARAMETERS = {"profile": "mini", "seeds": None, "only": "", "overrides": {}}
SHELL = {"In": [""], "Out": {}, "exit": object(), "_i": "1", "notebook": os}


@pytest.fixture(autouse=True)
def new_kernel(monkeypatch, tmp_path):
    """Every test is a new kernel: no runner around, and the environment is put back."""
    for name in ("THESIS_PROGRESS", "THESIS_PRODUCTS", "THESIS_JOBS", "THESIS_KEEP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    os.environ["THESIS_ARTIFACTS"] = str(tmp_path)


def start(**changed):
    return notebook.start(NAME, SHELL | PARAMETERS | changed)


def touch_files(folder: Path, label: str) -> list[Path]:
    files = [folder / name for name in manifest.load()[label].files]
    for file in files:
        file.write_text("x")
    return files


def test_start_gives_the_checked_profile():
    profile = start(seeds="0,1", overrides=["heads.epochs=2"]).profile
    assert profile.departures == {"seeds": [0, 1], "heads.epochs": 2}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"typo": 1}, "unknown parameter 'typo'; nearest: .*restart the kernel"),
        ({"seed": [1]}, "unknown parameter 'seed'; nearest: seeds"),
        ({"seeds": "a"}, "seeds: expected whole numbers such as 0,1, got 'a'"),
        ({"profile": "mnii"}, "unknown profile 'mnii'; nearest: mini"),
        ({"overrides": {"training.document": 6}}, "nearest: training.documents"),
        ({"only": "cosin"}, "only: no model is called 'cosin'; nearest: cosine"),
        ({"only": "cosine, DM;*"}, "no model is called 'DM;\\*'"),  # of notebook 04
        ({"profile": "published"}, "'published' is not for this notebook"),
    ],
)
def test_start_rejects_what_is_no_parameter(changed, expected):
    with pytest.raises(profiles.ParameterError, match=expected):
        start(**changed)


def test_start_wants_the_parameters_cell_first():
    with pytest.raises(profiles.ParameterError, match="'profile' is not set: run the parameters"):
        notebook.start(NAME, dict(SHELL))


def test_the_first_cell_run_again_finds_the_notebooks_own_variables():
    assert start(nb=start(), table=[1, 2]).profile.name == "mini"


def test_finish_wants_every_promised_label(tmp_path, capsys):
    nb = start()
    for label in manifest.promised(manifest.load(), NAME).keys() - {"fig4_3"}:
        nb.saved[label] = touch_files(tmp_path, label)
    with pytest.raises(RuntimeError, match=r"did not save fig4_3.svg, fig4_3.csv: run all cells"):
        nb.finish()
    nb.saved["fig4_3"] = touch_files(tmp_path, "fig4_3")
    nb.finish()
    assert capsys.readouterr().out.startswith(f"{notebook.MARKER} {NAME}")


def test_finish_notices_a_file_that_is_gone_or_that_nobody_listed(tmp_path):
    nb = start(only="cosine")  # which may leave a figure nothing to show
    nb.saved["fig4_2"] = files = touch_files(tmp_path, "fig4_2")
    nb.finish()
    files[0].unlink()
    with pytest.raises(RuntimeError, match=r"did not save fig4_2.svg"):
        nb.finish()
    nb.saved["fig4_2"] = [*touch_files(tmp_path, "fig4_2"), *touch_files(tmp_path, "fig4_5")]
    with pytest.raises(RuntimeError, match=r"saved fig4_5.csv, fig4_5.svg, which params/manifest"):
        nb.finish()


def test_saved_files_are_noted_with_the_products_behind_them(tmp_path):
    nb = start(seeds=[5])
    note = paths.store() / "student" / "a.json"
    cache = SimpleNamespace(used={("student", "a"): note}, kept={("student", "a"): note})
    nb.__dict__["bench"] = SimpleNamespace(cache=cache)
    frame = pd.DataFrame({"model": ["cosine"], "accuracy": [0.5]})
    nb.save(plt.figure(), "fig4_2", frame, records=frame)
    nb.save_table(frame, "tab4_3", caption="Heads")
    for label in ("fig4_2", "tab4_3"):
        said = provenance.read(label, nb.profile)
        assert {*said["files"]} == {*manifest.load()[label].files}
        assert said["stale"] == ["student/a"]
    assert "Heads" in (paths.figures(nb.profile) / "tab4_3.md").read_text()

    nb.promised = {label: nb.promised[label] for label in nb.saved}
    os.environ["THESIS_PRODUCTS"] = str(tmp_path / "products")
    nb.finish()
    assert json.loads((tmp_path / "products").read_text()) == ["student/a.json"]


def test_a_notebook_that_asks_for_no_bench_makes_none(tmp_path):
    nb = start(seeds=[5])
    nb.save_table(pd.DataFrame({"model": ["cosine"]}), "tab4_3")
    assert "bench" not in nb.__dict__ and "stale" not in provenance.read("tab4_3", nb.profile)


@pytest.mark.smoke
def test_papermill_stops_at_an_unknown_parameter_with_one_line(tmp_path, monkeypatch):
    """The real thing: papermill itself would only warn, run to the end and exit 0."""
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    cells = [
        "\n".join(f"{name} = {value!r}" for name, value in PARAMETERS.items()),
        f'from lib.runner import notebook\nnb = notebook.start("{NAME}", globals())',
        "print('reached')",
    ]
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    source.cells[0].metadata["tags"] = ["parameters"]
    options = {"kernel_name": "python3", "language": "python", "progress_bar": False}
    target = tmp_path / "out.ipynb"
    with pytest.raises(papermill.PapermillExecutionError, match="unknown parameter 'typo'"):
        papermill.execute_notebook(source, target, {"typo": 1}, **options, **PATIENCE)
    executed = nbformat.read(target, 4)
    outputs = [part for cell in executed.cells for part in cell.get("outputs", [])]
    (error,) = [part for part in outputs if part.output_type == "error"]
    assert len(error.traceback) == 1 and "\n" not in error.traceback[0]
    assert not executed.cells[-1].outputs, "the cell after the check must not have run"


def test_interrupts_are_one_line_and_tables_are_for_people_once_a_notebook_has_started(tmp_path):
    (tmp_path / "half_loaded.py").write_text("raise KeyboardInterrupt")
    program = f"""
from IPython.core.interactiveshell import InteractiveShell
from lib.runner import notebook
shell = InteractiveShell()
notebook.start("{NAME}", {{**{PARAMETERS}, "get_ipython": lambda: shell}})
for cell in ("def work():\\n    raise KeyboardInterrupt\\nwork()", "import half_loaded"):
    shell.run_cell(cell)
import pandas as pd
frame = pd.DataFrame({{"vocabulary_size": [12345]}})
print("12,345" in shell.display_formatter.format(frame)[0]["text/html"], repr(frame)[-5:])
"""
    path = os.pathsep.join([str(paths.ROOT), str(tmp_path)])
    variables = {**os.environ, "PYTHONPATH": path, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "Interrupted: the workers have ended; "
        "what was computed is kept, run the cell again to go on",
        "Interrupted: packages were loading: restart the kernel and run all cells",
        "True 12345",
    ], done.stderr


def test_progress_is_a_bar_for_a_person_and_lines_for_the_runner(tmp_path, monkeypatch, capsys):
    assert list(progress.track(["a", "b"], "reading", 2)) == ["a", "b"]
    assert "reading" in capsys.readouterr().err
    file = tmp_path / "progress"
    monkeypatch.setenv("THESIS_PROGRESS", str(file))

    def read_last() -> str:
        return file.read_text().strip().rpartition("\n")[2]

    seen = [read_last() for _ in progress.track(iter("xy"), "students", 2)]
    assert [*seen, read_last()] == ["students 0/2", "students 1/2", "students 2/2"]
    assert capsys.readouterr().err == ""


def test_opening_a_notebook_costs_no_heavy_import():
    heavy = "{'torch', 'transformers', 'gensim', 'pandas', 'matplotlib', 'numpy'}"
    check = (
        f"import sys, lib.runner.notebook, lib.runner.run_all; print(*{heavy} & set(sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
