"""All notebooks, at the smallest scale, through the runner: what they leave behind is what counts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pandas as pd
import pytest

from lib.config import manifest, paths, profiles

pytestmark = pytest.mark.smoke
ENTRIES = manifest.load()


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return tmp_path_factory.mktemp("smoke")


def run(artifacts, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "THESIS_ARTIFACTS": str(artifacts), "PYTHONPATH": str(paths.ROOT)}
    command = [sys.executable, "-P", "-m", "lib.runner.run_all", "smoke", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200)


@pytest.fixture(scope="module")
def first(artifacts):
    return run(artifacts, "--force")


def test_every_notebook_is_done(first):
    assert first.returncode == 0, first.stdout + first.stderr
    assert "failed" not in first.stdout


def test_every_label_is_made_with_its_provenance(first, artifacts):
    figures, wrong = paths.figures(profiles.load("smoke")), []
    for label, entry in ENTRIES.items():
        folder = artifacts / "smoke" / "site" if entry.kind == "page" else figures
        wrong += [
            name
            for name in entry.files
            if not (folder / name).is_file() or (folder / name).stat().st_size <= 50
        ]
        note = artifacts / "smoke" / "provenance" / f"{label}.json"
        if entry.kind != "page":  # a page's provenance is what it shows
            noted = json.loads(note.read_text(encoding="utf-8")) if note.is_file() else {}
            if noted.get("profile") != "smoke" or set(noted.get("files", ())) != set(entry.files):
                wrong.append(note.name)
    assert ENTRIES and wrong == []


def test_nothing_is_made_that_no_label_promises(first):
    promised = {name for entry in ENTRIES.values() for name in entry.files}
    made = {path.name for path in paths.figures(profiles.load("smoke")).iterdir()}
    assert made - promised == set(), "orphans: list them in params/manifest.yaml or delete them"


def test_a_boxplots_csv_tells_everything_alone(first):
    frame = pd.read_csv(paths.figures(profiles.load("smoke")) / "fig4_3.csv")
    assert ["model", "task", "value", "published", "seeds", "band"] == [
        column
        for column in frame
        if column in ("model", "task", "value", "published", "seeds", "band")
    ]
    assert frame["value"].between(0, 1).all() and frame["task"].nunique() == 6
    assert frame["value"].nunique() > 5, "real scores, not a constant"
    assert {*frame.loc[frame["model"] == "cosine", "seeds"]} == {
        len(profiles.load("smoke").reference_seeds)
    }


def test_the_executed_notebooks_hold_outputs_and_no_errors(first, artifacts):
    executed = sorted((artifacts / "smoke" / "executed").glob("*.ipynb"))
    assert len(executed) == 10
    for path in executed:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert outputs and not [output for output in outputs if output["output_type"] == "error"], (
            path
        )


def test_every_figure_is_shown_once_in_its_executed_notebook(first, artifacts):
    """By the cells tagged with its label alone: a figure that is not shown is named, whatever else a notebook draws."""
    shown = {label: 0 for label, entry in ENTRIES.items() if entry.kind in ("figure", "drawing")}
    assert len(shown) > 15
    for label in shown:
        path = artifacts / "smoke" / "executed" / f"{ENTRIES[label].notebook}.ipynb"
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        outputs = [
            output
            for cell in cells
            if cell["metadata"].get("tags") == [label]
            for output in cell["outputs"]
        ]
        shown[label] = sum("image/png" in output.get("data", {}) for output in outputs)
    assert shown == dict.fromkeys(shown, 1)


def test_the_line_that_00_prints_loads_its_export_from_any_folder(first, artifacts):
    (path,) = (artifacts / "smoke" / "executed").glob("00_*.ipynb")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    printed = "".join(
        "".join(output.get("text", "")) for cell in cells for output in cell.get("outputs", [])
    )
    assert "the same embeddings: True" in printed
    (folder,) = re.findall(r'SentenceTransformer\("(.+?)"\)\.encode', printed)
    assert os.path.isabs(folder) and os.path.isfile(os.path.join(folder, "modules.json"))


def test_a_second_run_reuses_everything_within_seconds(first, artifacts):
    begin = time.monotonic()
    second = run(artifacts)
    assert second.returncode == 0, second.stdout + second.stderr
    assert time.monotonic() - begin < 15
    assert second.stdout.count(" reused ") == len(ENTRIES)


def test_two_runs_give_the_same_bytes(first, artifacts, tmp_path):
    """Everything anew in other processes, under another artifact root: the CSVs of the first figures must repeat."""
    folder = paths.figures(profiles.load("smoke"))
    files = [folder / name for label in ("fig4_2", "fig4_1") for name in ENTRIES[label].files]
    before = {path.name: path.read_bytes() for path in files}
    again = run(tmp_path, "--force", "fig4_2", "fig4_1")
    assert again.returncode == 0, again.stdout
    assert {path.name: path.read_bytes() for path in files} == before
