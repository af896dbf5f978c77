"""The runner, end to end: a small checkout with two tiny notebooks, run in processes as a person
would."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import nbformat
import psutil
import pytest
from filelock import FileLock
from papermill.clientwrap import PapermillNotebookClient

from lib.config import paths, profiles
from lib.runner import command_line, execution, freshness, run_all
from lib.store import provenance

kernels = pytest.mark.smoke  # starts notebooks' kernels: seconds each
PARAMETERS = 'profile = "mini"\nseeds = None\nonly = ""\noverrides = {}'
START = """
import os, time
from pathlib import Path
from lib.config import paths
from lib.runner import notebook
from lib.store import parallel, provenance
nb = notebook.start("{name}", {{name: globals()[name] for name in notebook.PARAMETERS}})
"""
SAVE = """
def save(label, suffixes, text="1"):
    folder = paths.figures(nb.profile)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / (label + suffix) for suffix in suffixes]
    for file in files:
        file.write_text(text)
    provenance.write(label, profile=nb.profile, files=files)
    nb.saved[label] = files
"""
MANIFEST = """
fig1_1: {notebook: 01_first, kind: figure, section: "1", minutes: 0.1, title: One}
tab1_2: {notebook: 01_first, kind: table, section: "1", minutes: 0.1, title: Two}
fig2_1: {notebook: 02_second, kind: figure, section: "2", minutes: 0.1, title: Three}
"""
LABELS = {"fig1_1", "tab1_2", "fig2_1"}
FIRST = 'save("fig1_1", [".svg", ".csv"])\nsave("tab1_2", [".csv", ".md", ".tex"])'
SECOND = 'save("fig2_1", [".svg", ".csv"])'
# What `run_jobs` does in a notebook; `begun` gets a file for each process that sleeps.
SLEEP = """
begun = paths.ROOT / "begun"
(begun / str(os.getpid())).touch()
if len(list(begun.iterdir())) == 1:
    begin = f"open('{begun}/' + str(os.getpid()), 'x')"
    jobs = [(exec, (f"import os, time; {begin}; time.sleep(3600)",))]
    parallel.run_jobs(jobs * 2, "sleeping")
"""


def write_notebook(root: Path, name: str, *cells: str, tag: str = "parameters") -> None:
    notebook = nbformat.v4.new_notebook()
    sources = (PARAMETERS, START.format(name=name), SAVE, *cells)
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook.cells[0].metadata["tags"] = [tag]
    nbformat.write(notebook, root / "notebooks" / f"{name}.ipynb")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real lib and params, a manifest of three labels, and their notebooks."""
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(paths.ROOT / "lib", root / "lib", ignore=ignored)
    shutil.copytree(paths.ROOT / "params", root / "params")
    for name in ("requirements.lock", "pyproject.toml"):  # without the second it is no checkout
        shutil.copy(paths.ROOT / name, root)
    (root / "params" / "manifest.yaml").write_text(MANIFEST)
    tiny = "extends: mini\nname: tiny\nbuild: null\ndata_roots: [data]\n"  # nothing is built
    (root / "params" / "tiny.yaml").write_text(tiny + "tasks: {folders: {}}\n")
    for folder in ("notebooks", "data/wikipedia", "data/news", "begun"):
        (root / folder).mkdir(parents=True)
    for name in ("wikipedia", "news"):
        (root / "data" / name / "documents.jsonl").write_text("{}")
    write_notebook(root, "01_first", FIRST, "nb.finish()")
    write_notebook(root, "02_second", SECOND, "nb.finish()")
    return root


def start(root: Path, *words: str, **more: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "lib.runner.run_all", "tiny", *words],
        env={**kept, "PYTHONPATH": str(root), "THESIS_JOBS": "2", **more},
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    process = start(root, *words, **more)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def read_results(output: str) -> dict[str, str]:
    """label -> made / reused / failed, from the table at the end."""
    table = output.partition("label ")[2].partition("\n\n")[0].splitlines()[1:]
    return {row.split()[0]: row.split()[2] for row in table}


@kernels
def test_makes_everything_then_reuses_everything_then_repairs(checkout):
    first = run(checkout)
    assert first.returncode == 0, first.stdout + first.stderr
    assert read_results(first.stdout) == dict.fromkeys(LABELS, "made")
    assert len([*(checkout / "figures/tiny").iterdir()]) == 7
    executed = sorted(path.name for path in (checkout / "artifacts/tiny/executed").iterdir())
    assert executed == ["01_first.ipynb", "02_second.ipynb"]

    second = run(checkout)
    assert {*read_results(second.stdout).values()} == {"reused"}

    (checkout / "figures/tiny/tab1_2.md").unlink()
    third = run(checkout)
    assert "its files are missing or changed: tab1_2.md" in third.stdout
    assert read_results(third.stdout)["fig2_1"] == "reused"
    assert (checkout / "figures/tiny/tab1_2.md").exists()

    write_notebook(checkout, "02_second", SECOND + "  # a change", "nb.finish()")
    fourth = run(checkout)
    assert "02_second  runs, because its inputs changed: notebook" in fourth.stdout
    assert read_results(fourth.stdout)["fig1_1"] == "reused"

    (checkout / "data/wikipedia/documents.jsonl").write_text("{}\n{}")
    with open(checkout / "lib/losses/mse.py", "a") as file:
        file.write("# a change\n")
    dry = run(checkout, "--dry-run")
    assert dry.stdout.count("changed: lib, data") == 2 and dry.stdout.count("last time") == 2


@kernels
def test_a_changed_run_draws_elsewhere_with_its_values(checkout):
    """`null` asks for a base that is no language model."""
    values = "(nb.profile.training.documents, nb.profile.student.language_model)"
    cell = f'save("fig2_1", [".svg", ".csv"], str({values}))'
    write_notebook(checkout, "02_second", cell, "nb.finish()")
    changes = ["training.documents=60", "student.language_model=null"]
    done = run(checkout, "fig2_1", "--set", *changes)
    assert read_results(done.stdout) == {"fig2_1": "made"}
    (figure,) = (checkout / "artifacts/figures").rglob("fig2_1.csv")
    assert figure.read_text() == "(60, None)" and not (checkout / "figures").exists()


# Cells behind the first three, and what is said of them.
FAILURES = {
    "an error": (
        ["raise ValueError('\\n---\\nshapes differ')", "nb.finish()"],
        "cell 4/5: ValueError: shapes differ",
    ),
    "an error without words": (
        ["raise ValueError", "nb.finish()"],
        "cell 4/5: ValueError, without a message",
    ),
    "a killed kernel": (
        ["os.kill(os.getpid(), 9)", "nb.finish()"],
        "cell 4/5: the kernel died",
    ),
    "an exit": (["import sys; sys.exit(0)", "nb.finish()"], "code cells did not run"),
    "a wrong magic command": (["%nonsense", "nb.finish()"], "magic"),
    "a file that was not saved": (
        ['save("fig{number}_1", [".csv"])', "nb.finish()"],
        "did not save fig{number}_1.svg",
    ),
    "no end": (
        ['save("fig{number}_1", [".svg", ".csv"])'],
        "its last cell is not nb.finish()",
    ),
    "no parameters": (["nb.finish()"], "tagged 'parameters', found 0"),
}


@kernels
def test_failed_notebooks_are_told_in_one_line_each_and_the_others_are_made(checkout):
    """Among them what papermill alone would call complete."""
    manifest, names = MANIFEST, {}
    for number, (failure, (cells, _)) in enumerate(FAILURES.items(), 3):
        names[failure] = name = f"{number:02}_failing"
        cells = [cell.replace("{number}", str(number)) for cell in cells]
        tag = "x" if failure == "no parameters" else "parameters"
        write_notebook(checkout, name, *cells, tag=tag)
        facts = f'kind: figure, section: "3", minutes: 0.1, title: {name}'
        manifest += f"fig{number}_1: {{notebook: {name}, {facts}}}\n"
    (checkout / "params/manifest.yaml").write_text(manifest)
    done = run(checkout)
    assert done.returncode == 1 and f"2 of {2 + len(FAILURES)} notebooks done" in done.stdout
    results = read_results(done.stdout)
    assert {label for label, said in results.items() if said == "made"} == LABELS
    assert {*results.values()} == {"made", "failed"} and len(results) == 3 + len(FAILURES)
    for number, (failure, (_, message)) in enumerate(FAILURES.items(), 3):
        problem = done.stdout.partition(f"{names[failure]} failed\n")[2].splitlines()
        assert message.replace("{number}", str(number)) in problem[0], (failure, problem[:2])
        opens = problem[1].rpartition(" lab ")[2]
        assert "to see where it failed" in problem[1] and (checkout / opens).exists()


@kernels
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_runner_ends_everything_and_the_next_run_goes_on(number, checkout):
    write_notebook(checkout, "02_second", SLEEP, SECOND, "nb.finish()")
    process = start(checkout)
    while len(pids := [file.name for file in (checkout / "begun").iterdir()]) < 3:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    others = [psutil.Process(int(pid)) for pid in pids]  # the kernel and two workers
    process.send_signal(number)
    _, errors = process.communicate()
    assert not psutil.wait_procs(others, timeout=1800)[1]
    if number != signal.SIGKILL:
        assert process.returncode == 128 + number
        assert errors.strip().splitlines() == [f"run_all.sh: {run_all.STOPPED}"]
    again = run(checkout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert read_results(again.stdout)["fig1_1"] == "reused"


REFUSED = {
    ("fig9_9",): "unknown label, notebook or profile 'fig9_9'; nearest: fig",
    ("mini",): "two profiles at once: tiny and mini",
    ("--jobs", "0"): "--jobs: expected a whole number",
    ("--jobs", "2", "--dask", "tcp://x:1"): "--jobs and --dask exclude each other",
    ("--dask", "tcp://127.0.0.1:1"): "--dask: ",
    ("--set", "training.document=3"): "nearest: training.documents",
    ("--seeds", "a"): "seeds: expected whole numbers",
    ("--only", "cosin", "fig2_1"): "only: no model is called 'cosin'",
    ("--budget", "gpu"): "expected lab --budget cpu or lab --budget gpu, got tiny --budget gpu",
    ("--fast",): "unrecognized arguments: --fast",
    ("--set", "data_roots=[nowhere]"): "nowhere",
    ("--dry-run", "--set", "data_roots=[nowhere]"): "nowhere",
    ("--dry-run", "--set", "tasks.folders={mine: {folder: news/mine}}"): "news/tasks/mine: ",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_is_refused_in_one_line_before_anything_begins(words, checkout):
    done = run(checkout, *words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("run_all.sh: ") and REFUSED[words] in done.stderr
    assert not [*checkout.rglob("executed")]


def test_a_label_runs_its_whole_notebook():
    mini = profiles.load("mini")
    asked = command_line.select_notebooks(mini, ["fig4_2", "03"])
    assert [path.stem for path in asked] == ["02_structural_loss", "03_composite_analysis"]
    assert {"tab4_3", "fig4_2", "fig4_3"} <= {entry.label for entry in next(iter(asked.values()))}
    published = command_line.select_notebooks(profiles.load("published"), [])
    assert [path.stem for path in published] == ["published"]
    with pytest.raises(profiles.ParameterError, match="not among the published"):
        command_line.select_notebooks(profiles.load("published"), ["tab_claims"])


def test_a_profile_with_a_notebook_of_its_own_runs_that_unless_another_is_asked_for():
    lab = profiles.load("lab")
    asked = command_line.read_arguments(["lab", "lab"])  # the profile, and its notebook by name
    assert (asked.profile, asked.requests) == ("lab", [])
    ((path, made),) = command_line.select_notebooks(lab, []).items()
    assert path.name == "lab.ipynb"
    assert {entry.label for entry in made} >= {"fig5_3", "tab_claims", "figB_1"}
    for request in ("fig5_3", "07", "07_final_evaluation"):
        assert [path.stem for path in command_line.select_notebooks(lab, [request])] == [
            "07_final_evaluation"
        ]
    everywhere = command_line.select_notebooks(profiles.load("mini"), [])
    assert "lab" not in [path.stem for path in everywhere]


def test_the_command_line_takes_requests_anywhere():
    words = "fig4_2 --set heads.epochs=2 lab 03 --budget gpu --keep --jobs 3".split()
    options = command_line.read_arguments(words)
    assert options.profile == "lab_gpu" and options.requests == ["fig4_2", "03"]
    assert options.overrides == ["heads.epochs=2"] and options.jobs == 3 and options.keep


def test_stale_and_missing_products_are_told_with_what_they_took(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    profile = profiles.load("smoke", seeds=[5])
    (notebook,) = command_line.select_notebooks(profile, ["03"])
    for name in ("a", "b"):
        note = paths.store() / "student" / f"{name}.json"
        note.parent.mkdir(parents=True, exist_ok=True)
        facts = {"files": {}, "kind": "student", "seconds": 90, "code": {"lib.losses.mse": "old"}}
        note.write_text(json.dumps(facts))
    products = ["student/a.json", "student/b.json", "record/gone.json"]
    provenance.write_run(notebook.stem, profile, files=[], inputs={}, seconds=61, products=products)
    plans = freshness.plan_all({notebook: []}, profile)
    assert "took 01:01 last time" in (told := freshness.describe_plans(plans))
    assert "1 of the products that it used are missing" in told
    stale = freshness.describe_stale(plans)
    assert "lib.losses.mse has changed: 2 student stale (made in 03:00)" in stale
    plans[0].reasons = []  # it would not run
    assert freshness.describe_stale(plans) == ""


@pytest.mark.parametrize("typed, held", [("NFC", "NFD"), ("NFD", "NFC")])
def test_documents_that_change_are_noticed_whatever_the_form_of_their_names(tmp_path, typed, held):
    folder = tmp_path / unicodedata.normalize(held, "à/é")
    folder.mkdir(parents=True)
    root, name = unicodedata.normalize(typed, "à/é").split("/")
    changes = {"data_roots": [str(tmp_path / root)], "corpus.folders": [name]}
    profile = profiles.load("smoke", overrides=changes)
    (notebook,) = command_line.select_notebooks(profile, ["03"])
    inputs = []
    for file in ("documents.jsonl", "._documents.jsonl", "README.md"):
        (folder / file).write_text("{}")
        inputs.append(freshness.plan_all({notebook: []}, profile)[0].inputs["data"])
    assert inputs[0] == inputs[1] != inputs[2], "nothing reads what is hidden"


def test_a_run_waits_for_another_on_the_same_results(tmp_path, monkeypatch, capsys):
    other = FileLock(tmp_path / "run.lock")
    other.acquire()
    monkeypatch.setattr("builtins.print", lambda *words, **_: other.release())  # it has ended then
    with run_all.lock_run(tmp_path) as lock:
        assert lock.is_locked


def test_where_other_work_goes_on_a_notebook_has_time_to_start_and_to_print(tmp_path, monkeypatch):
    """What papermill's client takes of it: an option that is not one is passed over unsaid."""
    for name in ("THESIS_PROGRESS", "THESIS_PRODUCTS"):  # are set for the kernel, and stay
        monkeypatch.setenv(name, "")
    clients = []
    monkeypatch.setattr(PapermillNotebookClient, "execute", lambda client: clients.append(client))
    cell = nbformat.v4.new_code_cell("", metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "n.ipynb")
    execution.execute(tmp_path / "n.ipynb", {}, tmp_path / "done.ipynb", tmp_path / "log", "")
    (client,) = clients
    taken = {"start_timeout": client.startup_timeout, "iopub_timeout": client.iopub_timeout}
    assert taken == execution.PATIENCE


@pytest.mark.parametrize(
    ("name", "message", "line"),
    [
        ("ValueError", "\n----\n  shapes differ\nmore", "ValueError: shapes differ"),
        ("ValueError", "", "ValueError, without a message"),
        ("CellExecutionError", "", ""),
    ],
)
def test_an_error_is_shortened_to_its_first_line_with_words(name, message, line):
    assert execution.shorten(name, message) == line
