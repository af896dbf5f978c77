"""The runner, end to end: a small checkout with two tiny notebooks, run as a person would."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from lib.config import manifest, paths, profiles
from lib.runner import run_all

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
def save(label, text="1"):
    for file in nb.promised[label].paths(nb.profile):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    nb._note(label, None)
"""
MANIFEST = """
fig1_1: {notebook: 01_first, kind: figure, section: "1", minutes: 0.1, title: One}
tab1_2: {notebook: 01_first, kind: table, section: "1", minutes: 0.1, title: Two}
fig2_1: {notebook: 02_second, kind: figure, section: "2", minutes: 0.1, title: Three}
"""
TINY = """
extends: mini
name: tiny
build: null
data_roots: [data]
tasks: {folders: {}}
"""
NAMES = {"01_first", "02_second"}
FIRST, SECOND = 'save("fig1_1")\nsave("tab1_2")', 'save("fig2_1", str(nb.profile.departures))'
# What `run_jobs` does in a notebook; `begun` gets a file for each process that sleeps.
SLEEP = """
begun = paths.ROOT / "begun"
(begun / str(os.getpid())).touch()
if len(list(begun.iterdir())) == 1:
    begin = f"open('{begun}/' + str(os.getpid()), 'x')"
    sleep = ("sleep", exec, (f"import os, time; {begin}; time.sleep(3600)",))
    jobs.run_jobs([sleep] * 2, "sleeping")
"""


def write_notebook(root: Path, name: str, *cells: str) -> None:
    notebook = nbformat.v4.new_notebook()
    sources = (PARAMETERS, START.format(name=name), SAVE, *cells)
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook.cells[0].metadata["tags"] = ["parameters"]
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
    (root / "params/manifest.yaml").write_text(MANIFEST)
    (root / "params/tiny.yaml").write_text(TINY)  # nothing is built
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
    """Notebook -> made / up to date / failed."""
    return dict(re.findall(r"\] (\w+)  (made|up to date|failed)", output))


@kernels
def test_makes_everything_then_nothing_then_what_changed(checkout):
    first = run(checkout)
    assert first.returncode == 0, first.stdout + first.stderr
    assert read_results(first.stdout) == dict.fromkeys(NAMES, "made")
    assert len([*(checkout / "figures/tiny").iterdir()]) == 7
    for folder in ("executed", "runs"):
        made = sorted(path.stem for path in (checkout / "artifacts/tiny" / folder).iterdir())
        assert made == ["01_first", "02_second"]
    assert {*read_results(run(checkout).stdout).values()} == {"up to date"}

    (checkout / "figures/tiny/tab1_2.md").unlink()
    write_notebook(checkout, "02_second", SECOND + "  # a change", "nb.finish()")
    dry = run(checkout, "--dry-run").stdout
    assert dry.count("  to run (took ") == 2 and "tab1_2.md is missing" in dry
    assert not (checkout / "figures/tiny/tab1_2.md").exists()
    assert {*read_results(run(checkout).stdout).values()} == {"made"}
    assert (checkout / "figures/tiny/tab1_2.md").exists()

    changed = run(checkout, "fig2_1", "--set", "training.documents=60", "--seeds", "3")
    assert read_results(changed.stdout) == {"02_second": "made"}, changed.stdout + changed.stderr
    (figure,) = (checkout / "artifacts/figures").rglob("fig2_1.csv")
    assert figure.read_text() == "{'seeds': [3], 'training.documents': 60}"


@kernels
def test_a_notebook_that_ran_before_first_reads_the_store_and_computes_only_alone(checkout):
    """The second lacks something; it is run again as at first."""
    lacks = "from lib.experiments.bench import Bench\nfrom lib.store import Product\n"
    lacks += "Bench(nb.profile).store.get(Product('note', {'asked': 1}), dict)\n"
    assert run(checkout).returncode == 0
    write_notebook(checkout, "01_first", FIRST + "  # a comment", "nb.finish()")
    write_notebook(checkout, "02_second", lacks + SECOND, "nb.finish()")
    again = run(checkout)
    assert "[2/2] 02_second  has something to compute\n" in again.stdout, again.stdout
    assert "[1/2] 01_first  made" in again.stdout and "[1/2] 01_first  to run" not in again.stdout
    assert "[2/2] 02_second  made" in again.stdout
    assert "has something" not in run(checkout, "--force").stdout


# Cells behind the first three, and what is said of them.
FAILURES = [
    (["raise ValueError('shapes\\ndiffer')", "nb.finish()"], "cell 5: ValueError: shapes differ"),
    (["os.kill(os.getpid(), 9)", "nb.finish()"], "the kernel died"),
    (["import sys; sys.exit(0)", "nb.finish()"], "its last cell is not nb.finish()"),
    (["nb.finish()"], "cell 5: RuntimeError: {number:02}_failing did not save fig{number}_1"),
]


@kernels
def test_failed_notebooks_are_told_in_one_line_each_and_the_others_are_made(checkout):
    """Among them what papermill alone would call complete."""
    entries = MANIFEST
    for number, (cells, _) in enumerate(FAILURES, 3):
        cells = [cell.replace("{number}", str(number)) for cell in cells]
        write_notebook(checkout, f"{number:02}_failing", *cells)
        facts = 'kind: figure, section: "3", minutes: 0.1, title: Fails'
        entries += f"fig{number}_1: {{notebook: {number:02}_failing, {facts}}}\n"
    (checkout / "params/manifest.yaml").write_text(entries)
    done = run(checkout)
    assert done.returncode == 1 and f"2 of {2 + len(FAILURES)} notebooks done" in done.stdout
    results = read_results(done.stdout)
    assert {name for name, told in results.items() if told == "made"} == NAMES
    assert {*results.values()} == {"made", "failed"} and len(results) == 2 + len(FAILURES)
    for number, (_, message) in enumerate(FAILURES, 3):
        problem = done.stdout.partition(f"{number:02}_failing failed: ")[2].splitlines()
        assert message.format(number=number) in problem[0], problem[:2]
        assert (checkout / problem[1].rpartition(" lab ")[2]).exists(), "what opens it is told"


@kernels
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
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
        assert errors.strip().splitlines()[-1] == f"run_all.sh: {run_all.STOPPED}"
    again = run(checkout)
    assert again.returncode == 0, again.stdout + again.stderr
    assert read_results(again.stdout)["01_first"] == "up to date"


@pytest.fixture
def place(checkout, monkeypatch):
    """The checkout as that of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    monkeypatch.setattr(os, "environ", kept)
    for name, folder in (("ROOT", ""), ("PARAMS", "params"), ("NOTEBOOKS", "notebooks")):
        monkeypatch.setattr(paths, name, checkout / folder)
    return checkout


REFUSED = {
    "fig9_9": "unknown tiny label or notebook 'fig9_9'; nearest: fig",
    "mini": "two profiles at once: mini and tiny",
    "--only cosin fig2_1": "unknown model in only 'cosin'",
    "--set data_roots=[nowhere]": "nowhere",
    "02 --set labels=[fig1_1]": "unknown tiny label or notebook '02'; nearest: 01",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_in_one_line_before_anything_begins(words, place, capsys):
    assert run_all.main(["tiny", *words.split()]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and REFUSED[words] in errors
    assert not [*place.rglob("executed")]


@pytest.mark.parametrize(
    ("words", "profile", "numbers"),
    [
        ("fig4_2 --set heads.epochs=2 03", "mini", "02 03"),
        ("published", "published", "published"),
        ("lab", "lab", "01 02 06 07 09 10"),
        ("fig5_3 lab", "lab", "07"),
        ("tab4_1 00_start_here", "mini", "00 01"),
    ],
)
def test_words_choose_a_profile_and_whole_notebooks(words, profile, numbers):
    options = run_all.read_arguments(words.split())
    assert options.profile == profile
    loaded = profiles.load(profile)
    runs = run_all.list_runs(loaded, options.requests)
    assert " ".join(run.name.partition("_")[0] for run in runs) == numbers
    for run in runs:
        assert run.makes == manifest.promised(manifest.load(), run.name, loaded.labels) != {}


def find_hash(name: str = "01_first", **changes) -> str:
    notebook = paths.NOTEBOOKS / f"{name}.ipynb"
    return run_all.Run(notebook, profiles.load("tiny", **changes), {}).hash_inputs()


CHANGES = {  # a file, and whether a notebook shows what is in it
    "params/claims.yaml": True,
    "params/tiny.yaml": True,
    "lib/losses/mse.py": True,  # even a comment: what runs again reads
    "data/news/documents.jsonl": True,
}


def test_a_notebook_runs_again_if_what_it_shows_may_have_changed(place):
    before = find_hash()
    assert find_hash() == before != find_hash(seeds=[5])
    for name, shown in CHANGES.items():
        with open(place / name, "a") as file:
            file.write("# more\n")
        after = find_hash()
        assert (after != before) == shown, name
        before = after
    path = place / "notebooks/01_first.ipynb"  # its outputs
    path.write_text(path.read_text().replace('"execution_count": null', '"execution_count": 1'))
    assert find_hash() == before
    write_notebook(place, run_all.REPORT)  # it shows what notebooks before it made
    before = find_hash(run_all.REPORT)
    (place / "figures/tiny").mkdir(parents=True)
    (place / "figures/tiny/fig1_1.csv").write_text("1")
    assert find_hash(run_all.REPORT) != before
