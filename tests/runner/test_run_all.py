"""The runner, end to end: a small checkout with two tiny notebooks, run as a person would."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import psutil
import pytest

from lib.config import manifest, paths, profiles
from lib.runner import run_all

kernels = pytest.mark.smoke  # starts notebooks' kernels: seconds each
OWN = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
PARAMETERS = 'profile = "mini"\nseeds = None\nonly = ""\noverrides = {}'
START = """
import os
from lib import jobs
from lib.config import paths
from lib.runner import notebook
nb = notebook.start("NAME", {name: globals()[name] for name in notebook.PARAMETERS})

def save(label, text="1"):
    for file in nb.promised[label].paths(nb.profile):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    nb._note(label, None)
"""
ENTRY = "{}: {{notebook: {}, kind: {}, minutes: 0.1, title: A title}}\n"
LABELS = {"fig1_1": ("01_first", "figure"), "tab1_2": ("01_first", "table")}
LABELS |= {"fig2_1": ("02_second", "figure")}
MANIFEST = "".join(ENTRY.format(label, *made) for label, made in LABELS.items())
TINY = "extends: mini\nname: tiny\nbuild: null\ndata_roots: [data]\ntasks: {folders: {}}"
TINY += "\nstructural_teacher: {model: models/mine}"
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


def write_notebook(root, name, *cells):
    notebook = nbformat.v4.new_notebook()
    sources = (PARAMETERS, *(cell.replace("NAME", name) for cell in cells))
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    notebook.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(notebook, root / "notebooks" / f"{name}.ipynb")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with the real lib and params, a manifest of three labels, and their notebooks."""
    root = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("lib", "params"):
        shutil.copytree(paths.ROOT / name, root / name, ignore=ignored)
    for name in ("requirements.lock", "pyproject.toml"):  # without the second it is no checkout
        shutil.copy(paths.ROOT / name, root)
    (root / "params/manifest.yaml").write_text(MANIFEST)
    (root / "params/tiny.yaml").write_text(TINY)  # nothing is built
    for folder in ("notebooks", "data/wikipedia", "data/news", "begun"):
        (root / folder).mkdir(parents=True)
    for name in ("wikipedia", "news"):
        (root / "data" / name / "documents.jsonl").write_text("{}")
    write_notebook(root, "01_first", START, FIRST, "nb.finish()")
    write_notebook(root, "02_second", START, SECOND, "nb.finish()")
    monkeypatch.setattr(os, "environ", dict(OWN))
    for name, folder in (("ROOT", ""), ("PARAMS", "params"), ("NOTEBOOKS", "notebooks")):
        monkeypatch.setattr(paths, name, root / folder)
    return root


def start(root, *words):
    variables = OWN | {"PYTHONPATH": str(root), "THESIS_JOBS": "2"}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "tiny", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=variables, cwd=root, **pipes)


def run(root, *words, code=0):
    """What is printed, and notebook -> made / up to date / failed."""
    process = start(root, *words)
    output, errors = process.communicate()
    assert process.returncode == code, output + errors
    return output, dict(re.findall(r"\] (\w+)  (made|up to date|failed)", output))


@kernels
def test_it_makes_everything_goes_on_when_it_was_ended_and_makes_what_changed(
    checkout, monkeypatch, capsys
):
    """Its end, by Ctrl-C or a kill, ends everything: the kernel and two workers."""
    write_notebook(checkout, "02_second", START, SLEEP, SECOND, "nb.finish()")
    for number, found in ((signal.SIGINT, "to run"), (signal.SIGKILL, "up to date")):
        process = start(checkout)
        while len(pids := [file.name for file in (checkout / "begun").iterdir()]) < 3:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        others = [psutil.Process(int(pid)) for pid in pids]
        process.send_signal(number)
        output, errors = process.communicate()
        assert not psutil.wait_procs(others, timeout=1800)[1]
        assert f"01_first  {found}" in output and "02_second  made" not in output
        if number != signal.SIGKILL:
            assert process.returncode == 128 + number
            assert errors.strip().splitlines()[-1] == f"run_all.sh: {run_all.STOPPED}"
            [file.unlink() for file in (checkout / "begun").iterdir()]
    output, results = run(checkout)
    assert results == {"01_first": "up to date", "02_second": "made"}
    assert len([*(checkout / "figures/tiny").iterdir()]) == 7
    assert output.endswith("notebooks as they ran in artifacts/tiny/executed\n")
    monkeypatch.chdir(checkout)
    assert run_all.main(["tiny"]) == 0 and capsys.readouterr().out.count("up to date") == 2
    missing = checkout / "figures/tiny/tab1_2.md"
    missing.unlink()
    write_notebook(checkout, "02_second", START, SECOND + "  # a change", "nb.finish()")
    assert run_all.main(["tiny", "--dry-run"]) == 0
    dry = capsys.readouterr().out
    assert dry.count("  to run (took ") == 2 and "tab1_2.md is missing" in dry
    assert "notebooks/02_second.ipynb has changed" in dry and not missing.exists()
    assert run(checkout, "tab1_2")[1] == {"01_first": "made"} and missing.exists()
    changes = ("--set", "training.documents=60", "--seeds", "3")
    assert run(checkout, "fig2_1", *changes)[1] == {"02_second": "made"}
    (figure,) = (checkout / "artifacts/figures").rglob("fig2_1.csv")
    assert figure.read_text() == "{'seeds': [3], 'training.documents': 60}"


FAILURES = [  # cells behind the parameters, and what is said of them
    (["raise ValueError('shapes\\ndiffer')", "nb.finish()"], "cell 3: ValueError: shapes differ"),
    (["import os; os.kill(os.getpid(), 9)", "nb.finish()"], "the kernel died"),
    (["import sys; sys.exit(0)", "nb.finish()"], "its last cell is not nb.finish()"),
    ([START, "nb.finish()"], "cell 4: RuntimeError: {number:02}_failing did not save"),
]


@kernels
def test_failed_notebooks_are_told_in_one_line_each_and_the_others_are_made(checkout):
    """Among them what papermill alone would call complete."""
    entries = MANIFEST
    for number, (cells, _) in enumerate(FAILURES, 3):
        write_notebook(checkout, f"{number:02}_failing", *cells)
        entries += ENTRY.format(f"fig{number}_1", f"{number:02}_failing", "figure")
    (checkout / "params/manifest.yaml").write_text(entries)
    output, results = run(checkout, code=1)
    assert "2 of 6 notebooks done" in output
    assert [*results.values()] == ["made", "made", "failed", "failed", "failed", "failed"]
    for number, (_, message) in enumerate(FAILURES, 3):
        problem = output.partition(f"{number:02}_failing failed: ")[2].splitlines()
        assert message.format(number=number) in problem[0], problem[:2]
        assert (checkout / problem[1].rpartition(" lab ")[2]).exists(), "what opens it is told"


REFUSED = {
    "mini": "unknown tiny label, notebook or profile 'mini'",
    "publisher": "nearest: published",
    "--dask=": "--dask: expected the address of a scheduler",
    "--only cosin fig2_1": "unknown model in only 'cosin'",
    "--set data_roots=[nowhere]": "nowhere",
    "02 --set labels=[fig1_1]": "unknown tiny label, notebook or profile '02'; nearest: 01",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_is_refused_in_one_line_before_anything_begins(words, checkout, capsys):
    assert run_all.main(["tiny", *words.split()]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1 and REFUSED[words] in errors
    assert not [*checkout.rglob("executed")]


CHOSEN = {
    "fig4_2 --set heads.epochs=2 03": "02 03",
    "published": "published",
    "lab": "01 02 06 07 09 10",
    "fig5_3 lab": "07",
    "tab4_1 00_start_here": "00 01",
}


@pytest.mark.parametrize("words", CHOSEN)
def test_words_choose_a_profile_and_whole_notebooks(words):
    given = run_all.read_arguments(words.split())
    profile = profiles.load(given.profile)
    runs = run_all.list_runs(profile, given.requests)
    assert " ".join(run.path.stem.partition("_")[0] for run in runs) == CHOSEN[words]
    for run in runs:
        assert run.makes == manifest.promised(manifest.load(), run.path.stem, profile.labels) != {}
    with pytest.raises(profiles.ParameterError, match="fig4_33.*fig4_3"):
        manifest.promised(manifest.load(), "01_data_stats", ["fig4_1", "fig4_33"])


def test_an_option_that_comes_twice_counts_twice():
    given = run_all.read_arguments("--only cosine --seeds 0 --only MSE --seeds 1".split())
    assert (given.only, given.seeds) == ("cosine,MSE", "0,1")


CHANGED = ["params/claims.yaml", "lib/losses/mse.py", "data/news/documents.jsonl"]
CHANGED += ["data/wikipedia/tasks/topic/train.jsonl", "models/mine/1_Pooling/config.json"]
CHANGED += ["notebooks/{}.ipynb", "figures/tiny/fig1_1.csv"]


@pytest.mark.parametrize("name", ["01_first", run_all.REPORT])
def test_what_failed_or_whose_sources_changed_runs_again(checkout, monkeypatch, name):
    def find_reason(**changes):
        return run_all.Run(path, profiles.load("tiny", **changes), {}).find_reason()

    (checkout / "data/news").rename(checkout / "linked")
    (checkout / "data/news").symlink_to(checkout / "linked", target_is_directory=True)
    (checkout / "data/wikipedia/tasks").mkdir()
    (checkout / "data/wikipedia/tasks/topic").symlink_to(checkout / "linked")
    write_notebook(checkout, name)
    path, outcome = paths.NOTEBOOKS / f"{name}.ipynb", ""
    run = run_all.Run(path, profiles.load("tiny"), {})
    monkeypatch.setattr("lib.runner.execute.execute", lambda *_: run.target.touch() or outcome)
    run.target.parent.mkdir(parents=True)
    assert "has not run to its end" in find_reason()
    run.execute({}, "")
    assert find_reason() == "" != find_reason(seeds=[5])
    drawn, noted = run_all.Run(path, profiles.load("tiny"), {}), os.path.getmtime(run.note)
    drawn.files = {figure := checkout / "own.csv"}
    figure.touch()
    for seconds, again in ((noted - 1, False), (noted + 1, True)):
        os.utime(figure, (seconds, seconds))
        assert ("something else" in drawn.find_reason()) == again
    for variable in ("THESIS_DATA", "THESIS_KEEP"):  # even if they are older
        monkeypatch.setenv(variable, "1")
        assert "with these settings" in find_reason()
        monkeypatch.delenv(variable)
    for file in CHANGED:
        changed = checkout / file.format(name)
        changed.parent.mkdir(parents=True, exist_ok=True)
        before = changed.stat().st_mtime_ns if changed.exists() else None
        shown = "fig1_1" not in file or name == run_all.REPORT  # which shows figures
        for seconds in (time.time() + 9, 0):  # a newer file, and an older one in its place
            changed.touch()
            os.utime(changed, (seconds, seconds))
            assert (f"{changed.name} has changed" in find_reason()) == shown
        os.utime(changed, ns=(before, before)) if before else changed.unlink()
        assert find_reason() == ""
    outcome = "failed"
    run.execute({}, "")
    assert "has not run to its end" in find_reason()
