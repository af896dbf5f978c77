"""The runner, end to end: a small checkout of its own with four tiny notebooks, run in processes as a person would."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest

from lib.config import paths, profiles
from lib.ledger import costs
from lib.runner import ahead, run_all, run_notebook, schedule

kernels = pytest.mark.smoke  # starts notebooks' kernels: seconds each
ROOT = Path(__file__).resolve().parents[2]
PARAMETERS = 'profile = "mini"\nseeds = None\nonly = ""\noverrides = {}'
IMPORTS = "from lib.config import paths\nfrom lib.runner import notebook\nfrom lib.store import provenance\n"
START = IMPORTS + 'nb = notebook.start("{name}", globals())'
SAVE = """
def save(label, suffixes, text="1"):
    folder = paths.figures(nb.profile)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / (label + suffix) for suffix in suffixes]
    for file in files:
        file.write_text(text)
    provenance.write(label, profile=nb.profile, files=files)
"""
MANIFEST = """
fig1_1: {notebook: 01_first, kind: figure, section: "1", minutes: 0.1, title: One}
tab1_2: {notebook: 01_first, kind: table, section: "1", minutes: 0.1, title: Two}
fig2_1: {notebook: 02_second, kind: figure, section: "2", minutes: 0.1, title: Three}
"""
FIRST = (
    ("fig1_1", 'save("fig1_1", [".svg", ".csv"])'),
    ("tab1_2", 'save("tab1_2", [".csv", ".md", ".tex"])'),
)
DOCUMENTS = str(profiles.load("mini").training.documents)  # what the second notebook's figure says
SECOND = 'save("fig2_1", [".svg", ".csv"], str(nb.profile.training.documents))'


def write_notebook(
    root: Path, name: str, *cells: str | tuple[str, str], tags: tuple[str, ...] = ("parameters",)
) -> Path:
    """cells: sources, or with its tag (tag, source)."""
    notebook = nbformat.v4.new_notebook()
    for cell in (PARAMETERS, START.format(name=name), SAVE, *cells):
        *tag, source = cell if isinstance(cell, tuple) else (cell,)
        notebook.cells.append(nbformat.v4.new_code_cell(source, metadata={"tags": tag}))
    notebook.cells[0].metadata["tags"] = list(tags)
    path = root / "notebooks" / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with the real lib and params, a manifest of three labels, and two notebooks that make them."""
    root = tmp_path / "checkout"
    shutil.copytree(ROOT / "lib", root / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "params", root / "params")
    shutil.copy(ROOT / "requirements.lock", root)
    (root / "params" / "manifest.yaml").write_text(MANIFEST)
    (root / "notebooks").mkdir()
    write_notebook(root, "01_first", *FIRST, "nb.finish()")
    write_notebook(root, "02_second", SECOND, "nb.finish()")
    return root


def command(*words: str) -> list[str]:
    return [sys.executable, "-P", "-m", "lib.runner.run_all", *words]


def variables(root: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}
    return {**kept, "PYTHONPATH": str(root), **more}


def run(root: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words),
        env=variables(root, **more),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
    )


def results(output: str) -> dict[str, str]:
    """label -> made / reused / failed, read from the table at the end."""
    rows = [line.split() for line in output.split("label ")[-1].splitlines()[1:]]
    return {
        row[0]: row[2]
        for row in rows[: next((i for i, row in enumerate(rows) if not row), len(rows))]
    }


@kernels
def test_makes_everything_then_reuses_everything_then_repairs(checkout):
    first = run(checkout)
    assert first.returncode == 0, first.stdout + first.stderr
    assert results(first.stdout) == {"fig1_1": "made", "tab1_2": "made", "fig2_1": "made"}
    assert sorted(path.name for path in (checkout / "figures/mini").iterdir()) == sorted(
        [
            "fig1_1.svg",
            "fig1_1.csv",
            "tab1_2.csv",
            "tab1_2.md",
            "tab1_2.tex",
            "fig2_1.svg",
            "fig2_1.csv",
        ]
    )
    executed = sorted(path.name for path in (checkout / "artifacts/mini/executed").iterdir())
    assert executed == ["01_first.ipynb", "02_second.ipynb"], (
        "nothing half written may stay beside the executed notebooks"
    )

    begin = time.monotonic()
    second = run(checkout)
    assert time.monotonic() - begin < 10
    assert results(second.stdout) == {"fig1_1": "reused", "tab1_2": "reused", "fig2_1": "reused"}

    (checkout / "figures/mini/fig1_1.svg").write_text("damaged")
    (checkout / "figures/mini/tab1_2.md").unlink()
    plan = run(checkout, "--dry-run").stdout
    assert "because not as its last run left them: fig1_1.svg, tab1_2.md\n" in plan
    assert (checkout / "figures/mini/fig1_1.svg").read_text() == "damaged", (
        "a dry run changes nothing"
    )
    told = checkout / "artifacts/mini/provenance/fig2_1.json"
    whole = told.read_text()
    told.write_text(whole[:-9])
    assert (
        "because not as its last run left them: fig2_1.json\n"
        in run(checkout, "02", "--dry-run").stdout
    )
    told.write_text(whole)
    (note,) = checkout.rglob("runs/02_second.json")
    whole = note.read_text()
    for damage in (
        "[]",
        "[" * 100_000,
        '{"inputs": 5}',
        json.dumps(json.loads(whole) | {"inputs": {"lib": [1]}}),
    ):
        note.write_text(damage)
        plan = run(checkout, "02", "--dry-run")
        assert plan.returncode == 0 and not plan.stderr and "be reused" not in plan.stdout
    note.write_text(whole)
    third = run(checkout)
    assert results(third.stdout) == {"fig1_1": "made", "tab1_2": "made", "fig2_1": "reused"}
    assert (checkout / "figures/mini/fig1_1.svg").read_text() == "1"

    variants = checkout / "lib" / "distillation" / "variants.py"
    variants.write_text(variants.read_text() + "\nADDED = 1\n")
    write_notebook(checkout, "02_second", SECOND, "1 + 1", "nb.finish()")
    plan = run(checkout, "--dry-run").stdout
    assert "because changed: lib\n" in plan and "because changed: notebook, lib\n" in plan


@kernels
def test_one_label_runs_one_notebook_and_asks_it_for_that_label_alone(checkout):
    done = run(checkout, "mini", "fig1_1")
    assert results(done.stdout) == {"fig1_1": "made"}
    assert sorted(path.name for path in (checkout / "figures/mini").iterdir()) == [
        "fig1_1.csv",
        "fig1_1.svg",
    ]
    owed = "not as its last run left them: tab1_2.csv, tab1_2.md, tab1_2.tex"
    assert owed in run(checkout, "01", "--dry-run").stdout, "the rest of the notebook is still owed"


@kernels
def test_a_modified_run_leaves_the_plain_figures_alone(checkout):
    assert run(checkout, "fig2_1").returncode == 0
    done = run(checkout, "--set", "training.documents=60", "fig2_1")
    assert done.returncode == 0, done.stderr
    assert (checkout / "figures/mini/fig2_1.csv").read_text() == DOCUMENTS
    (modified,) = (checkout / "artifacts/figures").glob("mini-*/fig2_1.csv")
    assert modified.read_text() == "60"


@kernels
def test_one_failed_notebook_does_not_stop_the_rest(checkout):
    write_notebook(checkout, "01_first", 'raise ValueError("no such luck")', *FIRST, "nb.finish()")
    done = run(checkout)
    assert done.returncode == 1
    assert results(done.stdout) == {"fig1_1": "failed", "tab1_2": "failed", "fig2_1": "made"}
    assert "cell 4/7: ValueError: no such luck" in done.stdout, (
        "counted as in the file, without papermill's own cell"
    )
    failed = "artifacts/mini/executed/01_first.ipynb"
    assert f"jupyter lab {failed}" in done.stdout and (checkout / failed).exists()


WAYS_TO_FAIL = {
    "11_exits": (["import sys\nsys.exit(0)", "MAKE", "nb.finish()"], "did not run"),
    "12_dies": (
        ["import os\nos._exit(0)", "MAKE", "nb.finish()"],
        "cell 4/6: the kernel died: killed, most likely for want of memory",
    ),
    "13_stops_short": (["MAKE"], "its last cell is not nb.finish()"),
    "14_saves_nothing": (["nb.finish()"], "did not save fig14_saves_nothing"),
    "15_removes": (["MAKE", "made[0].unlink()", "nb.finish()"], "did not save fig15_removes.svg"),
    "16_saves_more": (
        ["MAKE", 'save("fig9_9", [".svg"])', "nb.finish()"],
        "saved fig9_9.svg, which params/manifest",
    ),
    "18_magic": (
        ["%nosuchmagic", "nb.finish()"],
        "cell 4/5: UsageError: Line magic function `%nosuchmagic` not found",
    ),
    "17_untagged": (
        ["MAKE", "nb.finish()"],
        "expected exactly one cell tagged 'parameters', found 0",
    ),
}


@kernels
def test_what_only_looks_complete_is_not_done(checkout):
    lines = []
    for name, (cells, _) in WAYS_TO_FAIL.items():
        make = f'save("fig{name}", [".svg", ".csv"])\nmade = provenance.saved["fig{name}"]'
        sources = [make if cell == "MAKE" else cell for cell in cells]
        write_notebook(
            checkout, name, *sources, tags=() if name == "17_untagged" else ("parameters",)
        )
        lines.append(
            f'fig{name}: {{notebook: {name}, kind: figure, section: "1", minutes: 1, title: x}}\n'
        )
    (checkout / "params" / "manifest.yaml").write_text(MANIFEST + "".join(lines))
    done = run(checkout, *WAYS_TO_FAIL)
    assert done.returncode == 1
    assert set(results(done.stdout).values()) == {"failed"}
    for name, (_, said) in WAYS_TO_FAIL.items():
        told = done.stdout.split(f"{name} failed")[1].split("\n\n")[0]
        assert said in told, done.stdout
    plan = run(checkout, *WAYS_TO_FAIL, "--dry-run").stdout
    assert plan.count("it has not run to its end") == len(WAYS_TO_FAIL), (
        "none may count as done the next time"
    )


@kernels
def test_a_page_is_made_anew_when_what_it_shows_was_made(checkout):
    page = """path = manifest.load()["report"].paths(nb.profile)[0]
path.parent.mkdir(exist_ok=True)
path.write_text((paths.figures(nb.profile) / "fig2_1.csv").read_text())
provenance.saved["report"] = [path]"""
    write_notebook(checkout, "09_report", "from lib.config import manifest", page, "nb.finish()")
    line = 'report: {notebook: 09_report, kind: page, section: "-", minutes: 1, title: Report}\n'
    (checkout / "params" / "manifest.yaml").write_text(MANIFEST + line)
    words = ["fig2_1", "report"]
    assert results(run(checkout, *words).stdout) == {"fig2_1": "made", "report": "made"}
    assert results(run(checkout, *words).stdout) == {"fig2_1": "reused", "report": "reused"}
    write_notebook(checkout, "02_second", SECOND.replace("str(", "'new ' + str("), "nb.finish()")
    assert "it shows what the notebooks before it make" in run(checkout, *words, "--dry-run").stdout
    assert results(run(checkout, *words).stdout) == {"fig2_1": "made", "report": "made"}
    assert (checkout / "artifacts/mini/site/index.html").read_text() == f"new {DOCUMENTS}"
    for profile, told in (
        ("mini", "would be reused"),
        ("lab", "changed: results"),
    ):  # a page shows others' claims, too
        (checkout / f"figures/{profile}").mkdir(exist_ok=True)
        (checkout / f"figures/{profile}/tab_claims.csv").write_text("id,verdict\n")
        assert told in run(checkout, "report", "--dry-run").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mni"], "unknown label, notebook or profile 'mni'; nearest: mini"),
        (["mini", "fig2_11"], "nearest: fig2_1"),
        (["--forse"], "unrecognized arguments: --forse"),
        (["mini", "lab"], "two profiles at once"),
        (["mini", "--size", "big"], "unknown profile 'mini_big'; nearest: mini"),
        (
            ["lab", "--budget", "tpu"],
            "expected lab --budget cpu or lab --budget gpu, got lab --budget tpu",
        ),
        (
            ["--budget", "gpu"],
            "expected lab --budget cpu or lab --budget gpu, got mini --budget gpu",
        ),
        (
            ["--set", "training.document=4"],
            "params/mini.yaml: training.document: unknown key; nearest: training.documents",
        ),
        (
            ["--set", "training.documents=four"],
            "training.documents: expected a valid integer, got 'four'",
        ),
        (["--jobs", "0"], "--jobs: expected a whole number from 1 to 9999, got '0'"),
        (["--jobs", "99999"], "--jobs: expected a whole number from 1 to 9999, got '99999'"),
        (["--jobs", "²"], "--jobs: expected a whole number from 1 to 9999, got '²'"),
        (["--jobs", ""], "--jobs: expected a whole number from 1 to 9999, got ''"),
        (["--seeds", "0,0"], "seeds: expected each once"),
        (["--seeds", "a"], "seeds: expected whole numbers such as 0,1, got 'a'"),
        (["--seeds", ""], "seeds: expected whole numbers such as 0,1, got ''"),
        (["--set", "seeds=a"], "seeds: expected whole numbers such as 0,1, got 'a'"),
        (["--set", "seeds=1.5"], "seeds.0: expected a valid integer, got 1.5"),
        (["--only", "cosinus"], "only: no model is called 'cosinus'; nearest: cosine"),
    ],
)
def test_a_wrong_request_is_one_clear_line_and_runs_nothing(checkout, words, said):
    done = run(checkout, *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and said in done.stderr
    assert not (checkout / "artifacts").exists()


@pytest.mark.parametrize(
    ("words", "profile", "figures"),
    [
        ([], "lab", {"fig4_1", "fig4_10", "fig4_12"}),
        (["--budget", "cpu"], "lab", {"fig4_1", "fig4_10", "fig4_12"}),
        (["fig4_11"], "lab", {"fig4_11"}),
        (["--budget", "gpu"], "lab_gpu", {"fig4_1", "fig4_10", "fig4_11", "fig4_12"}),
    ],
)
def test_a_budget_names_its_profile_and_what_it_shows(
    monkeypatch, tmp_path, words, profile, figures
):
    """Without a request; asked for by its label, a figure that the budget leaves out is made all the same."""
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    options = schedule.arguments(["lab", *words])
    assert options.profile == profile
    for name in profiles.load(profile).corpus.names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "documents.jsonl").touch()
    plans = schedule.plans(options, profiles.load(options.profile))
    planned = {entry.label for plan in plans for entry in plan.wanted}
    assert {label for label in planned if label.startswith("fig4_1")} == figures


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["corpus.folders=[nowhere]"],
            "nowhere: no such dataset folder, or no documents.jsonl in it",
        ),
        (
            ["tasks.folders={MINE: own/mine}"],
            "own/tasks/mine: expected a folder with train.jsonl and test.jsonl",
        ),
        (
            ["tasks.folders={MINE: nowhere/mine}"],
            "nowhere/tasks/mine: expected a folder with train.jsonl",
        ),
        (["data_root=nowhere"], "the data root 'nowhere' is not a folder"),
        (
            ["tasks.folders={MINE: own/found}"],
            "tasks.folders names no classification; notebooks from 02 on judge",
        ),
    ],
)
def test_missing_data_is_one_clear_line_and_runs_nothing(checkout, tmp_path, words, said):
    for file in ("documents.jsonl", "tasks/topic/train.jsonl", "tasks/found/relevant.json"):
        (tmp_path / "own" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / file).write_text("{}")
    own = [
        "build=null",
        f"data_root={tmp_path}",
        "corpus.folders=[own]",
        "tasks.folders={MINE: own/topic}",
    ]
    assert run(checkout, "--dry-run", "--set", *own).returncode == 0
    done = run(checkout, "--set", *own, *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr
    assert not (checkout / "artifacts").exists()
    if "found" in words[0]:
        assert run(checkout, "01", "--dry-run", "--set", *own, *words).returncode == 0, (
            "describes the data"
        )


@pytest.mark.parametrize("jobs", ["abc", "0", "²"])
def test_a_wrong_number_of_jobs_is_found_at_once(checkout, jobs):
    begin = time.monotonic()
    done = run(checkout, THESIS_JOBS=jobs)
    assert time.monotonic() - begin < 5 and done.returncode == 2
    assert (
        done.stderr
        == f"run_all.sh: THESIS_JOBS: expected a whole number from 1 to 9999, got {jobs!r}\n"
    )
    assert not (checkout / "artifacts").exists()


ERRORS = {  # name and message as a cell raises them -> what a person reads
    ("ValueError", "\n\n  ----\n  no such luck\nat all"): "ValueError: no such luck",
    ("KeyboardInterrupt", ""): "KeyboardInterrupt, without a message",
    ("CellExecutionError", ""): "",
}


def test_an_error_is_one_line_that_says_something():
    assert {error: run_notebook.one_line(*error) for error in ERRORS} == ERRORS


def test_a_folder_that_cannot_be_written_is_one_clear_line(checkout, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    done = run(checkout, "fig1_1", THESIS_ARTIFACTS=str(blocked / "artifacts"))
    assert done.returncode == 1
    assert (
        done.stderr.count("\n") == 1
        and str(blocked) in done.stderr
        and "THESIS_ARTIFACTS" in done.stderr
    )


SLEEPER = """
import subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
(paths.artifacts() / "running").write_text(str(worker.pid))
time.sleep(600)
"""


def start_sleeper(root: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """A run whose notebook sleeps beside a worker; returns it with every process below it once all are there."""
    write_notebook(root, "01_first", SLEEPER, *FIRST, "nb.finish()")
    words = command("01_first")
    process = subprocess.Popen(
        words,
        env=variables(root),
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(
        lambda: (root / "artifacts/running").exists() and (root / "artifacts/running").read_text()
    )
    below = psutil.Process(process.pid).children(recursive=True)
    assert len(below) >= 3, "the keeper, the kernel and the worker"
    return process, below


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


@kernels
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_a_stopped_run_leaves_no_process_and_no_lock(checkout, number, code):
    process, below = start_sleeper(checkout)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    if number != signal.SIGKILL:
        assert errors.strip().startswith("run_all.sh: stopped")
        assert not list(checkout.glob("artifacts/mini/executed/*"))
    wait_for(lambda: not alive(below), seconds=15)
    write_notebook(checkout, "01_first", *FIRST, "nb.finish()")
    again = run(checkout, "01_first")
    assert again.returncode == 0 and "waiting" not in again.stdout


@kernels
@pytest.mark.skipif(
    run_all.executors.DRIVER.exists(), reason="a GPU may be at work: nothing is trained beside it"
)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_idle_cores_train_what_later_notebooks_ask_for(checkout, number):
    """The second notebook only sleeps, the third asks for Figure 4.2: its models are trained meanwhile, at a low
    priority, by processes that outlive the first notebook and end with the run."""
    more = MANIFEST.splitlines()[-1].replace("fig2_1", "fig4_2").replace("02_second", "03_third")
    (checkout / "params/manifest.yaml").write_text(MANIFEST + more)
    write_notebook(checkout, "02_second", SLEEPER, SECOND, "nb.finish()")
    write_notebook(checkout, "03_third", SECOND.replace("fig2_1", "fig4_2"), "nb.finish()")
    process = subprocess.Popen(
        command("smoke"), env=variables(checkout), cwd=checkout, stdout=subprocess.DEVNULL
    )
    try:
        wait_for((checkout / "artifacts/running").exists)
        wait_for(lambda: [*checkout.glob("artifacts/store/embeddings/*.note")], seconds=110)
        below = alive(psutil.Process(process.pid).children(recursive=True))
        names = {each.pid: " ".join(each.cmdline()) for each in below if each.nice() >= ahead.NICE}
        (main,) = (pid for pid, name in names.items() if "lib.runner.ahead" in name)
        assert len(names) > 1, "its workers"
        for file, said in (("autogroup", f"nice {ahead.NICE}"), ("oom_score_adj", "1000")):
            if (
                path := Path(f"/proc/{main}/{file}")
            ).exists():  # else a niced session takes half of the cores
                assert path.read_text().strip().endswith(said)
    finally:
        process.send_signal(number)
        process.wait(timeout=20)
    wait_for(lambda: not alive(below), seconds=15)


def test_training_ahead_ends_with_the_last_notebook(monkeypatch):
    """And with an error of the runner's own; each notebook's end spares it, with what is below it."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    shell = [sys.executable, "-c", f"import subprocess; subprocess.run({sleep!r})"]
    spared, other = subprocess.Popen(shell), subprocess.Popen(shell)
    monkeypatch.setattr(run_all, "train_ahead", lambda *_: spared)
    wait_for(
        lambda: (
            len(psutil.Process(spared.pid).children() + psutil.Process(other.pid).children()) == 2
        )
    )
    below = psutil.Process(spared.pid).children()

    def execute(plan, options, heading, pid):
        run_notebook.end_children(pid)
        assert len(alive([psutil.Process(spared.pid), *below])) == 2 and other.poll() is not None
        raise OSError("disk full")

    monkeypatch.setattr(run_all, "execute", execute)
    plan = SimpleNamespace(name="01_first", reasons=["new"], judge=lambda force: None)
    with pytest.raises(OSError, match="disk full"):
        run_all.run([plan], SimpleNamespace(force=False))
    assert spared.poll() is not None and not alive(below)


def test_a_label_that_fails_ahead_does_not_keep_others_from_being_trained(monkeypatch, capsys):
    trained = []

    def train(label, profile):
        trained.append((label, profile.training.documents, profile.seeds, profile.only))
        raise ValueError(f"{label} failed")

    parameters = {
        "profile": "smoke",
        "seeds": "0,1",
        "only": "cosine",
        "overrides": ["training.documents=30"],
    }
    job = {"parameters": parameters, "labels": ["fig4_2", "fig4_3"], "runner": os.getppid()}
    monkeypatch.setattr(sys, "argv", ["ahead", json.dumps(job)])
    monkeypatch.setattr(costs, "train", train)
    for name in ("adopt_orphans", "end_with", "yield_to_others"):
        monkeypatch.setattr(ahead, name, lambda *_: None)
    ahead.main()
    assert trained == [(label, 30, (0, 1), "cosine") for label in job["labels"]]
    assert "ValueError: fig4_3 failed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "variables", "expected"),
    [
        (["fig3_1", "fig4_2", "fig4_5"], {}, ["fig4_2", "fig4_5"]),
        (["fig4_2"], {}, None),
        (["fig4_2", "fig4_5", "--jobs", "2"], {}, None),
        (["fig4_2", "fig4_5"], {"THESIS_JOBS": "2"}, None),
        (["fig4_2", "fig4_5", "--dask", "tcp://nowhere:1"], {}, None),
        (["fig4_2", "fig4_5"], {"THESIS_DASK": "tcp://nowhere:1"}, None),
        (["fig4_2", "fig4_5"], {"GPU": "there"}, None),
        (["thesis", "fig4_2", "fig4_5"], {}, None),
    ],
)
def test_no_more_processes_work_than_a_person_asked_for(
    monkeypatch, tmp_path, words, variables, expected
):
    for name in ("THESIS_JOBS", "THESIS_DASK"):
        monkeypatch.setenv(name, variables.get(name, ""))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(
        run_all.executors, "DRIVER", tmp_path / ("" if "GPU" in variables else "no GPU")
    )
    started = []
    monkeypatch.setattr(
        run_all.subprocess, "Popen", lambda *command, **options: started.append((command, options))
    )
    monkeypatch.setattr(
        run_all.executors, "jobs", lambda asked: 3
    )  # torch is not asked for the GPU
    options = schedule.arguments([*words, "--seeds", "0,1"])
    run_all.train_ahead(schedule.plans(options, profiles.load(options.profile)), options)
    assert bool(started) == bool(expected)
    for (command,), given in started:
        job = json.loads(command[-1])
        assert job["labels"] == expected and job["runner"] == os.getpid()
        assert job["parameters"] == {"profile": "mini", "seeds": "0,1", "only": "", "overrides": []}
        assert given["env"]["THESIS_JOBS"] == "2", "the notebook at work has one core"


@kernels
def test_the_second_of_two_runs_waits_for_the_first(checkout):
    first, _ = start_sleeper(checkout)
    words = command("fig2_1")
    second = subprocess.Popen(
        words, env=variables(checkout), cwd=checkout, stdout=subprocess.PIPE, text=True
    )
    try:
        line = second.stdout.readline()
        assert line == "another run is at work on artifacts/mini, waiting\n"
        time.sleep(1)
        assert second.poll() is None
        first.terminate()
        first.communicate(timeout=20)
        rest, _ = second.communicate(timeout=60)
        assert second.returncode == 0 and results(rest) == {"fig2_1": "made"}
    finally:
        for process in (first, second):
            process.kill()


@kernels
def test_the_kernel_is_this_python_whatever_lies_in_the_home(checkout, tmp_path):
    spec = tmp_path / "home/.local/share/jupyter/kernels/python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"})
    )
    startup = tmp_path / "home/.ipython/profile_default/startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("import os; os._exit(1)")
    check = f"import sys, os\nassert sys.executable == {sys.executable!r}"
    write_notebook(checkout, "01_first", check, *FIRST, "nb.finish()")
    done = run(checkout, "01_first", HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stdout


@kernels
def test_the_status_line_names_the_cell_the_step_and_the_time(checkout):
    slow = "from lib.store import progress\nimport time\n"
    slow += "for _ in progress.track(range(8), 'training students', 8):\n    time.sleep(1)"
    write_notebook(checkout, "01_first", slow, *FIRST, "nb.finish()")
    done = run(checkout, "01_first")
    lines = [line for line in done.stdout.splitlines() if "training students" in line]
    assert lines, done.stdout
    assert "[1/1] 01_first  cell 4/7: training students" in lines[0]
    assert re.search(r" \d/8  00:\d\d", lines[0])


def test_what_the_data_of_thesis_lack_is_told_once_and_nothing_begins(tmp_path):
    variables = {
        "THESIS_ARTIFACTS": tmp_path / "artifacts",
        "HF_HOME": tmp_path / "home",
        "HF_HUB_OFFLINE": "1",
    }
    variables = {
        **os.environ,
        **{key: str(value) for key, value in variables.items()},
        "PYTHONPATH": str(paths.ROOT),
    }
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "thesis", "01", "02"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 2 and "runs, because" not in done.stdout, done.stdout + done.stderr
    assert done.stderr.count("hf://datasets/legacy-datasets/wikipedia") == 1
