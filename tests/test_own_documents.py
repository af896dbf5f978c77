"""`notebooks/own_documents.ipynb`, which people copy, runs on a folder and a student of theirs."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import papermill
import pytest

from lib.config import paths, profiles
from lib.experiments.bench import Bench
from lib.experiments.students import Base
from lib.runner.execute import PATIENCE
from lib.store import Store
from tests.vectors.conftest import write_lines

NOTEBOOK = paths.NOTEBOOKS / "own_documents.ipynb"
SUBJECTS = (
    "The river carries water past the boats to the sea.",
    "The court heard the judge and the jury of the trial.",
)


@pytest.fixture
def bench(filled_store):
    """Stands for mini's: its base has seen less, and is there."""
    return Bench(profiles.load("smoke", overrides={"tasks.limit": 60}), Store(filled_store))


@pytest.fixture
def run_here(bench, monkeypatch):
    """A function that runs the notebook in this process; its names."""

    def run(**parameters):
        monkeypatch.setattr(Bench, "load", lambda name: bench)
        cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        first, *others = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
        names = {}
        exec(first, names)
        assert parameters.keys() <= names.keys()
        names |= parameters
        for source in others:
            exec(source, names)
        return names

    yield run
    plt.close("all")


@pytest.mark.smoke
def test_it_searches_pairs_and_maps(tmp_path, bench, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel shows figures in the notebook
    rows = [
        {
            "id": n,
            "text": f"{SUBJECTS[n % 2]} Note {n}.",
            "title": f"{'river law'.split()[n % 2]} {n}",
        }
        for n in range(12)
    ]
    rows += [
        {"id": "blank", "text": " "},
        {"id": "again", "text": rows[0]["text"].replace(" ", "\n"), "title": "again"},
    ]
    write_lines(tmp_path / "notes/documents.jsonl", rows)
    bench.base.load().export(tmp_path / "student")
    parameters = {
        "folder": str(tmp_path / "notes"),
        "student": str(tmp_path / "student"),
        "query": "ships on water",
    }
    executed = papermill.execute_notebook(
        NOTEBOOK, tmp_path / "out.ipynb", parameters, progress_bar=False, **PATIENCE
    )
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    tables = [
        output["data"]["text/plain"] for output in outputs if "text/plain" in output.get("data", {})
    ]
    search = next(table for table in tables if "begins" in table)
    pairs = next(table for table in tables if "nearest" in table)
    rivers = [line for line in search.splitlines() if "river" in line]
    assert len(rivers) == 5 and "law" not in search, "the nearest to the query are of its subject"
    lines = pairs.splitlines()[1:]
    assert len(lines) == 8 and all(line.count("river") in (0, 2) for line in lines), (
        "each is paired with its own subject"
    )
    assert "again" not in search + pairs, "a repeated document is left out"
    printed = "".join(output.get("text", "") for output in outputs)
    assert str(tmp_path / "student") in printed, "which encoder was read"
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1


@pytest.mark.parametrize("texts", [["the only one"] * 5, [" ", "\u200b"]], ids=["one", "none"])
def test_fewer_than_two_documents_are_one_line(run_here, tmp_path, monkeypatch, texts):
    """Before anything is loaded or drawn."""
    monkeypatch.setattr(Base, "load", lambda _: pytest.fail("a student is loaded"))
    rows = [{"id": n, "text": text} for n, text in enumerate(texts)]
    write_lines(tmp_path / "notes/documents.jsonl", rows)
    with pytest.raises(profiles.ParameterError, match="two are needed"):
        run_here(folder=str(tmp_path / "notes"))


def test_as_it_is_it_reads_what_mini_writes(run_here):
    assert len(run_here(most=12)["texts"]) == 12
