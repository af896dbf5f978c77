"""The frame of a notebook: parameters are checked, promises are kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import papermill
import pytest
import torch

from lib.config import manifest, paths, profiles
from lib.runner import notebook
from lib.store import executors, progress, provenance

PARAMETERS = {"profile": "mini", "seeds": None, "only": "", "overrides": {}}


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Every test is a new kernel: no runner around, and the environment is put back."""
    for name in ("THESIS_LABELS", "THESIS_PROGRESS", "THESIS_JOBS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "environ", os.environ.copy())


def started(**changed):
    """Start with a parameters cell and, below it, the one that papermill puts there for `changed`."""
    cells = [
        "\n".join(f"{name} = {value!r}" for name, value in given.items())
        for given in (PARAMETERS, changed)
    ]
    namespace = {**PARAMETERS, **changed, "In": ["", cells[0], f"# Parameters\n{cells[1]}"]}
    return notebook.start("02_structural_loss", namespace)


def files(folder: Path, label: str) -> list[Path]:
    made = [folder / name for name in manifest.load()[label].files]
    for file in made:
        file.write_text("x")
    return made


def test_start_gives_the_checked_profile():
    assert started(seeds="0,1", overrides=["heads.epochs=2"]).profile.departures == {
        "seeds": [0, 1],
        "heads.epochs": 2,
    }


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"typo": 1}, "unknown parameter 'typo'; nearest: "),
        ({"seed": [1]}, "unknown parameter 'seed'; nearest: seeds"),
        ({"seeds": "a"}, "seeds: expected whole numbers such as 0,1, got 'a'"),
        ({"profile": "mnii"}, "unknown profile 'mnii'; nearest: mini"),
        ({"overrides": {"training.document": 6}}, "nearest: training.documents"),
        ({"only": "cosin"}, "only: no model is called 'cosin'; nearest: cosine"),
        (
            {"only": "cosine, DM;*"},
            "only: no model is called 'DM;\\*'; nearest: ",
        ),  # of notebook 04
    ],
)
def test_start_rejects_what_is_no_parameter(changed, expected):
    with pytest.raises(profiles.ParameterError, match=expected):
        started(**changed)


def test_start_wants_the_parameters_cell_first():
    with pytest.raises(
        profiles.ParameterError, match="'profile' is not set: run the parameters cell first"
    ):
        notebook.start("02_structural_loss", {})


def test_a_cell_that_is_run_again_may_find_the_notebooks_own_variables():
    again = {
        **PARAMETERS,
        "table": [1, 2],
        "In": ["", 'profile = "mini"\nseeds = None', "table = [1, 2]"],
    }
    started()
    assert notebook.start("02_structural_loss", again).profile.name == "mini"
    again["In"].append('profile = "mini"\nsede = 1')
    with pytest.raises(profiles.ParameterError, match="unknown parameter 'sede'"):
        notebook.start("02_structural_loss", again)


def test_finish_wants_every_promised_label(tmp_path, capsys):
    nb = started()
    for label in ("tab4_3", "tab4_4", "fig4_2", "tab_heads"):
        provenance.saved[label] = files(tmp_path, label)
    with pytest.raises(
        RuntimeError, match="did not save fig4_3.svg, fig4_3.csv: run the cells above it first"
    ):
        nb.finish()
    provenance.saved["fig4_3"] = files(tmp_path, "fig4_3")
    nb.finish()
    assert capsys.readouterr().out.startswith(f"{notebook.MARKER} 02_structural_loss")


def test_finish_wants_only_what_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_LABELS", "fig4_2")
    nb = started()
    assert nb.asked(*nb.promised) == ["fig4_2"]
    provenance.saved["fig4_2"] = files(tmp_path, "fig4_2")
    nb.finish()


def test_what_nobody_asked_for_is_what_the_profile_shows():
    assert started(profile="lab").wanted == ["tab4_3", "tab4_4", "fig4_2", "fig4_3", "tab_heads"]
    shown = started(profile="lab", overrides={"shown": ["fig4_3"]})
    assert shown.wanted == ["fig4_3"] and not shown.asked("fig4_2")


def test_finish_notices_a_file_that_is_gone_or_that_nobody_listed(tmp_path):
    nb = started(only="cosine")
    made = files(tmp_path, "fig4_2")
    provenance.saved["fig4_2"] = made
    nb.finish()
    made[0].unlink()
    with pytest.raises(RuntimeError, match="did not save fig4_2.svg"):
        nb.finish()
    made[0].write_text("x")
    provenance.saved["fig9_9"] = [tmp_path / "fig9_9.svg"]
    provenance.saved["fig9_9"][0].write_text("x")
    with pytest.raises(
        RuntimeError, match="saved fig9_9.svg, which params/manifest.yaml does not list"
    ):
        nb.finish()


def test_asked_knows_the_labels_of_its_notebook():
    assert started().asked("fig4_3", "tab4_3") == ["fig4_3", "tab4_3"]
    with pytest.raises(
        ValueError, match="unknown label of 02_structural_loss 'fig4_22'; nearest: fig4_2"
    ):
        started().asked("fig4_2", "fig4_22")


def test_jobs_follow_the_environment_and_start_refuses_what_is_no_number(monkeypatch, tmp_path):
    assert 1 <= executors.jobs() <= 4
    with pytest.MonkeyPatch.context() as gpu:  # a training has it to itself
        gpu.setattr(executors, "DRIVER", tmp_path)
        gpu.setattr(torch.cuda, "is_available", lambda: True)
        gpu.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
        assert executors.jobs() == 1 and executors.jobs("3") == 3
        gpu.setattr(torch.cuda, "is_available", lambda: False)
        assert executors.jobs() == 3
    monkeypatch.setenv("THESIS_JOBS", "7")
    assert executors.jobs() == 7
    for wrong in ("abc", "0", "-1", "1.5", "²"):
        monkeypatch.setenv("THESIS_JOBS", wrong)
        with pytest.raises(
            profiles.ParameterError, match="THESIS_JOBS: expected a whole number from 1"
        ):
            started()


def test_papermill_stops_at_an_unknown_parameter_with_one_line(tmp_path, monkeypatch):
    """The real thing: papermill itself would only warn, run to the end and exit 0."""
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    cells = ["\n".join(f"{name} = {value!r}" for name, value in PARAMETERS.items())]
    cells += [
        'from lib.runner import notebook\nnb = notebook.start("02_structural_loss", globals())',
        "print('reached')",
    ]
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    source.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(source, tmp_path / "in.ipynb")
    settings = {
        "kernel_name": "python3",
        "language": "python",
        "progress_bar": False,
        "start_timeout": 120,
    }
    with pytest.raises(papermill.PapermillExecutionError, match="unknown parameter 'typo'"):
        papermill.execute_notebook(
            tmp_path / "in.ipynb", tmp_path / "out.ipynb", {"typo": 1}, **settings
        )
    executed = nbformat.read(tmp_path / "out.ipynb", 4)
    (error,) = [
        part
        for cell in executed.cells
        for part in cell.get("outputs", [])
        if part.output_type == "error"
    ]
    assert len(error.traceback) == 1 and "\n" not in error.traceback[0]
    assert not executed.cells[-1].outputs, "the cell after the check must not have run"


def test_papermills_command_ends_with_our_line(tmp_path):
    """papermill's own traceback comes before it; `_render_traceback_` keeps ours out."""
    command = [
        sys.executable,
        "-m",
        "papermill",
        paths.NOTEBOOKS / "02_structural_loss.ipynb",
        tmp_path / "out.ipynb",
    ]
    variables = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [*command, "-p", "profile", "labb"], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert (
        done.stderr.strip().splitlines()[-1]
        == "ParameterError: unknown profile 'labb'; nearest: lab"
    )


def test_an_interrupt_is_one_line_wherever_it_comes_and_ends_idle_workers(tmp_path):
    (tmp_path / "half_loaded.py").write_text("raise KeyboardInterrupt")
    program = f"""
import os
import psutil
from IPython.core.interactiveshell import InteractiveShell
from lib.runner import notebook
from lib.store import executors
shell = InteractiveShell()
notebook.start("02_structural_loss", {{**{PARAMETERS}, "get_ipython": lambda: shell}})
workers = [psutil.Process(executors.processes(1).submit(os.getpid).result())]
for cell in ("def work():\\n    raise KeyboardInterrupt\\nwork()", "import half_loaded"):
    shell.run_cell(cell)
print(len(psutil.wait_procs(workers, timeout=10)[1]), "workers")
"""
    path = os.pathsep.join([str(paths.ROOT), str(tmp_path)])
    variables = {**os.environ, "PYTHONPATH": path, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "Interrupted: the workers have ended; what was computed is kept, run the cell again to go on",
        "Interrupted: packages were loading: restart the kernel and run all cells",
        "0 workers",
    ], done.stderr


def test_track_draws_a_bar_for_a_person(capsys):
    assert list(progress.track(["a", "b"], "reading", 2)) == ["a", "b"]
    assert "reading" in capsys.readouterr().err


def test_track_writes_for_the_runner_how_far_it_is(tmp_path, monkeypatch, capsys):
    file = tmp_path / "progress"
    monkeypatch.setenv("THESIS_PROGRESS", str(file))
    seen = [last(file) for _ in progress.track(iter("xy"), "students", 2)]
    assert [*seen, last(file)] == ["students 0/2", "students 1/2", "students 2/2"]
    assert list(tmp_path.iterdir()) == [file] and capsys.readouterr().err == ""


def last(file):
    """As `run_all` reads it."""
    return file.read_text().strip().rpartition("\n")[2]


def test_opening_a_notebook_costs_no_heavy_import():
    heavy = "{'torch', 'transformers', 'gensim', 'pandas', 'matplotlib'}"
    check = f"import sys, lib.runner.notebook; print(*{heavy} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(paths.ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", check], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
