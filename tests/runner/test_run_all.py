"""The runner, end to end: a small checkout with two tiny notebooks, run as a person would."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from lib import store
from lib.config import manifest, paths, profiles
from lib.runner import command_line, run_all
from lib.runner.runs import REPORT, Run

kernels = pytest.mark.smoke  # starts notebooks' kernels: seconds each
PARAMETERS = 'profile = "mini"\nseeds = None\nonly = ""\noverrides = {}'
START = """
import os
from lib import jobs
from lib.config import paths
from lib.runner import notebook
nb = notebook.start("{name}", {{name: globals()[name] for name in notebook.PARAMETERS}})
"""
SAVE = """
def save(label, suffixes, text="1"):
    folder = paths.figures(nb.profile)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / (label + suffix) for suffix in suffixes]
    for file in files:
        file.write_text(text)
    nb._note(label, files, None)
"""
MANIFEST = """
fig1_1: {notebook: 01_first, kind: figure, section: "1", minutes: 0.1, title: One}
tab1_2: {notebook: 01_first, kind: table, section: "1", minutes: 0.1, title: Two}
fig2_1: {notebook: 02_second, kind: figure, section: "2", minutes: 0.1, title: Three}
"""
LABELS = {"fig1_1", "tab1_2", "fig2_1"}
FIRST = 'save("fig1_1", [".svg", ".csv"])\nsave("tab1_2", [".csv", ".md", ".tex"])'
SECOND = 'save("fig2_1", [".svg", ".csv"], str(nb.profile.departures))'
# What `run_jobs` does in a notebook; `begun` gets a file for each process that sleeps.
SLEEP = """
begun = paths.ROOT / "begun"
(begun / str(os.getpid())).touch()
if len(list(begun.iterdir())) == 1:
    begin = f"open('{begun}/' + str(os.getpid()), 'x')"
    sleep = ("sleep", exec, (f"import os, time; {begin}; time.sleep(3600)",))
    jobs.run_jobs([sleep] * 2, "sleeping")
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


def start(root: Path, *words: str) -> subprocess.Popen[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    kept |= {"PYTHONPATH": str(root), "THESIS_JOBS": "2"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "tiny", *words]
    return subprocess.Popen(command, env=kept, cwd=root, **streams)


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    process = start(root, *words)
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
    for folder in ("executed", "runs"):
        made = sorted(path.stem for path in (checkout / "artifacts/tiny" / folder).iterdir())
        assert made == ["01_first", "02_second"]
    assert {*read_results(run(checkout).stdout).values()} == {"reused"}

    (checkout / "figures/tiny/tab1_2.md").unlink()
    write_notebook(checkout, "02_second", SECOND + "  # a change", "nb.finish()")
    repaired = run(checkout)
    assert "01_first  runs, because its files are missing or changed: tab1_2.md" in repaired.stdout
    assert "02_second  runs, because its cells, the parameters, lib" in repaired.stdout
    assert (checkout / "figures/tiny/tab1_2.md").exists()

    assert run(checkout, "--dry-run").stdout.count("up to date") == 2
    with open(checkout / "lib/losses/mse.py", "a") as file:
        file.write("# a comment\n")
    dry = run(checkout, "--dry-run").stdout
    assert dry.count("would run (took 00:") == 2 and dry.count("last time") == 2

    changed = run(checkout, "fig2_1", "--set", "training.documents=60", "--seeds", "3")
    assert read_results(changed.stdout) == {"fig2_1": "made"}, changed.stdout + changed.stderr
    (figure,) = (checkout / "artifacts/figures").rglob("fig2_1.csv")
    assert figure.read_text() == "{'seeds': [3], 'training.documents': 60}"


# Cells behind the first three, and what is said of them.
FAILURES = [
    (["raise ValueError('\\n---\\nshapes differ')", "nb.finish()"], "4/5: ValueError: shapes"),
    (["raise ValueError", "nb.finish()"], "cell 4/5: ValueError: no message"),
    (["os.kill(os.getpid(), 9)", "nb.finish()"], "cell 4/5: DeadKernelError: the kernel died"),
    (["import sys; sys.exit(0)", "nb.finish()"], "code cells did not run"),
    (['save("fig{number}_1", [".csv"])', "nb.finish()"], "did not save fig{number}_1.svg"),
    (['save("fig{number}_1", [".svg", ".csv"])'], "its last cell is not nb.finish()"),
    (["nb.finish()"], "tagged 'parameters', found 0"),
]


@kernels
def test_failed_notebooks_are_told_in_one_line_each_and_the_others_are_made(checkout):
    """Among them what papermill alone would call complete."""
    entries = MANIFEST
    for number, (cells, message) in enumerate(FAILURES, 3):
        cells = [cell.replace("{number}", str(number)) for cell in cells]
        tag = "x" if "tagged" in message else "parameters"
        write_notebook(checkout, f"{number:02}_failing", *cells, tag=tag)
        facts = 'kind: figure, section: "3", minutes: 0.1, title: Fails'
        entries += f"fig{number}_1: {{notebook: {number:02}_failing, {facts}}}\n"
    (checkout / "params/manifest.yaml").write_text(entries)
    done = run(checkout)
    assert done.returncode == 1 and f"2 of {2 + len(FAILURES)} notebooks done" in done.stdout
    results = read_results(done.stdout)
    assert {label for label, told in results.items() if told == "made"} == LABELS
    assert {*results.values()} == {"made", "failed"} and len(results) == 3 + len(FAILURES)
    for number, (_, message) in enumerate(FAILURES, 3):
        problem = done.stdout.partition(f"{number:02}_failing failed\n")[2].splitlines()
        assert message.replace("{number}", str(number)) in problem[0], problem[:2]
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
    ("--jobs", "2", "--dask", "tcp://x:1"): "--dask: not allowed with argument --jobs",
    ("--dask", "tcp://127.0.0.1:1"): "--dask: no scheduler answers",
    ("--seeds", "a"): "seeds.0: Input should be a valid integer",
    ("--only", "cosin", "fig2_1"): "only: no model is called 'cosin'",
    ("--budget", "gpu"): "--budget is for lab, not for tiny",
    ("--fast",): "unrecognized arguments: --fast",
    ("--set", "data_roots=[nowhere]"): "nowhere",
    ("--dry-run", "--set", "tasks.folders={mine: {folder: news/mine}}"): "news/tasks/mine: ",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_what_cannot_be_is_refused_in_one_line_before_anything_begins(words, checkout):
    done = run(checkout, *words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("run_all.sh: ") and REFUSED[words] in done.stderr
    assert not [*checkout.rglob("executed")]


@pytest.mark.parametrize(
    ("words", "profile", "names"),
    [
        ("fig4_2 --set heads.epochs=2 03", "mini", ["02_structural_loss", "03_composite_analysis"]),
        ("published", "published", ["published"]),
        ("lab lab", "lab", ["lab"]),  # the profile, and its notebook by name
        ("fig5_3 lab", "lab", ["07_final_evaluation"]),
        ("--budget gpu 07 lab", "lab_gpu", ["07_final_evaluation"]),
    ],
)
def test_words_choose_a_profile_and_whole_notebooks(words, profile, names):
    options = command_line.read_arguments(words.split())
    assert options.profile == profile
    asked = command_line.select_notebooks(profiles.load(profile), options.requests)
    assert [path.stem for path in asked] == names
    for path, makes in asked.items():
        promised = manifest.promised(manifest.load(), path.stem)
        assert makes == [*promised.values()] and makes


@pytest.fixture
def place(checkout, monkeypatch):
    """The checkout as that of this process, and the hash of a notebook's inputs there."""
    monkeypatch.setattr(paths, "ROOT", checkout)
    monkeypatch.setattr(paths, "PARAMS", checkout / "params")
    monkeypatch.delenv("THESIS_DATA", raising=False)

    def find_hash(name: str = "01_first", **changes) -> str:
        notebook = checkout / "notebooks" / f"{name}.ipynb"
        return Run(notebook, profiles.load("tiny", **changes), []).hash_inputs()

    return checkout, find_hash


CHANGES = {  # a file, and whether a notebook shows what is in it
    "notebooks/01_first.ipynb": False,  # its outputs
    "params/claims.yaml": True,
    "params/published/tab4_3.csv": True,
    "params/tiny.yaml": False,  # a comment; values count as those of the profile
    "params/lab.yaml": False,
    "requirements.lock": True,
    "lib/figures/table.md.j2": True,
    "data/news/documents.jsonl": True,
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_notebook_runs_again_if_what_it_shows_may_have_changed(name, place):
    root, find_hash = place
    before = find_hash()
    assert find_hash() == before
    if name.endswith("ipynb"):
        notebook = nbformat.read(root / name, 4)
        notebook.cells[0].execution_count = 1
        nbformat.write(notebook, root / name)
    else:
        with open(root / name, "a") as file:
            file.write("# more\n")
    assert (find_hash() != before) == CHANGES[name]


def test_settings_lib_and_figures_that_a_report_shows_count_too(place, monkeypatch):
    root, find_hash = place
    write_notebook(root, REPORT)
    hashes = [find_hash(REPORT), find_hash(REPORT, seeds=[5])]
    (root / "figures/tiny").mkdir(parents=True)
    (root / "figures/tiny/fig1_1.csv").write_text("1")
    hashes.append(find_hash(REPORT))
    monkeypatch.setattr(store, "read_sources", lambda: {"losses/mse.py": "# a comment"})
    hashes.append(find_hash(REPORT))
    assert len({*hashes}) == 4
