"""All notebooks, at the smallest scale, through the runner: what they leave behind is what
counts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from lib import jobs, published
from lib.config import manifest, paths, profiles
from lib.experiments.bench import Bench

pytestmark = pytest.mark.smoke
ENTRIES = manifest.load()


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return tmp_path_factory.mktemp("smoke")


def run(artifacts, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "THESIS_ARTIFACTS": str(artifacts), "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "smoke", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def first(artifacts):
    """Without workers, whose start takes as long as what they do here."""
    return run(artifacts, "--force", "--jobs", "1")


def test_every_notebook_is_done(first):
    assert first.returncode == 0, first.stdout + first.stderr
    assert "failed" not in first.stdout


def test_the_published_figures_are_drawn_again(tmp_path):
    copy = tmp_path / "checkout"  # figures/published is committed, and drawn where the code is
    left_out = shutil.ignore_patterns(".*", "artifacts", "tests", "docs", "__pycache__")
    shutil.copytree(paths.ROOT, copy, ignore=left_out)
    environment = {**os.environ, "THESIS_ARTIFACTS": str(tmp_path), "PYTHONPATH": str(copy)}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "published"]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_label_is_made_with_its_provenance(first, artifacts):
    figures, wrong = paths.figures(profiles.load("smoke")), []
    for label, entry in ENTRIES.items():
        files = [figures / name for name in entry.files]
        wrong += [file.name for file in files if not file.is_file() or file.stat().st_size <= 50]
        note = artifacts / "smoke" / "provenance" / f"{label}.json"
        noted = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
        if noted.get("profile") != "smoke" or noted.get("label") != label:
            wrong.append(note.name)
    assert ENTRIES and wrong == []


def test_nothing_is_made_that_no_label_promises(first):
    promised = {name for entry in ENTRIES.values() for name in entry.files}
    made = {path.name for path in paths.figures(profiles.load("smoke")).iterdir()}
    assert made - promised == set(), "orphans: list them in params/manifest.yaml or delete them"


def test_a_boxplots_csv_tells_everything_alone(first):
    frame = pd.read_csv(paths.figures(profiles.load("smoke")) / "fig4_3.csv")
    assert [
        column
        for column in frame
        if column in ("model", "task", "value", "published", "seeds", "noise")
    ] == ["model", "task", "value", "published", "seeds", "noise"]
    assert frame["value"].between(0, 1).all() and frame["task"].nunique() == 6
    assert frame["value"].nunique() > 5, "real scores, not a constant"
    assert {*frame.loc[frame["model"] == "cosine", "seeds"]} == {
        len(profiles.load("smoke").reference_seeds)
    }


def test_the_executed_notebooks_hold_outputs_and_no_errors(first, artifacts):
    executed = sorted((artifacts / "smoke" / "executed").glob("*.ipynb"))
    assert len(executed) == 11
    for path in executed:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert outputs and not [output for output in outputs if output["output_type"] == "error"], (
            path
        )


def test_every_figure_is_shown_in_its_executed_notebook(first, artifacts):
    """A notebook may draw more than it saves, but not less."""
    promised: dict[str, int] = {}
    for entry in ENTRIES.values():
        promised.setdefault(entry.notebook, 0)
        promised[entry.notebook] += entry.kind in ("figure", "drawing")
    for name, count in promised.items():
        path = artifacts / "smoke" / "executed" / f"{name}.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert sum("image/png" in output.get("data", {}) for output in outputs) >= count, name


def test_the_line_that_00_prints_loads_its_export_from_any_folder(first, artifacts):
    (path,) = (artifacts / "smoke" / "executed").glob("00_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    printed = "".join(
        "".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", [])
    )
    assert "the same embeddings: True" in printed
    (folder,) = re.findall(r'SentenceTransformer\("(.+?)"\)\.encode', printed)
    assert os.path.isabs(folder) and os.path.isfile(os.path.join(folder, "modules.json"))


def test_a_second_run_starts_no_kernel(first, artifacts):
    second = run(artifacts)
    assert second.returncode == 0, second.stdout + second.stderr
    assert "runs, because" not in second.stdout
    notebooks = {entry.notebook for entry in ENTRIES.values()}
    assert second.stdout.count("up to date") == len(notebooks)


def test_two_runs_give_the_same_records(first, artifacts, tmp_path, monkeypatch):
    """A student of each teacher anew, by workers and under another artifact root."""
    monkeypatch.setenv("THESIS_JOBS", "2")
    models = ["cosine", published.list_references(["fig4_7"])[0]]
    names, frames = ["model", "task", "value", "embedding_fingerprint", "fingerprint"], []
    for root, reading in ((artifacts, True), (tmp_path, False)):
        monkeypatch.setenv("THESIS_ARTIFACTS", str(root))
        bench = Bench.load("smoke")
        bench = bench.reading() if reading else bench
        frames.append(bench.run(models, seeds=[0])[names])
    jobs.end_workers()
    assert {*frames[0]["model"]} == {*models} and frames[0].equals(frames[1])
