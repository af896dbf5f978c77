"""`notebooks/own_documents.ipynb`, which people copy, runs on a folder and a student of theirs."""

from __future__ import annotations

import json

import papermill
import pytest

from lib.config import paths
from lib.experiments.bench import Bench
from lib.runner.execution import PATIENCE

SUBJECTS = (
    "The river carries water past the boats to the sea.",
    "The court heard the judge and the jury of the trial.",
)


@pytest.mark.smoke
def test_it_searches_pairs_and_maps(tmp_path, monkeypatch):
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
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Bench.load("smoke").base_student().export(tmp_path / "student")
    parameters = {
        "folder": str(tmp_path / "notes"),
        "student": str(tmp_path / "student"),
        "query": "ships on water",
    }
    notebook = paths.NOTEBOOKS / "own_documents.ipynb"
    executed = papermill.execute_notebook(
        notebook, tmp_path / "out.ipynb", parameters, progress_bar=False, **PATIENCE
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


@pytest.mark.smoke
def test_texts_that_are_alike_and_have_no_spaces_are_shown(tmp_path, monkeypatch):
    """Two have the same vector, which no mean is left of."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    (tmp_path / "notes").mkdir()
    rows = [{"id": n, "text": text + "北京市政府" * 40} for n, text in enumerate("Aa")]
    (tmp_path / "notes/documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
    executed = papermill.execute_notebook(
        paths.NOTEBOOKS / "own_documents.ipynb",
        tmp_path / "out.ipynb",
        {"folder": str(tmp_path / "notes"), "query": "$ 'quotes' \"and\" 🥲"},
        progress_bar=False,
        **PATIENCE,
    )
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    shown = "".join(output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "A北京市政府" in shown and "a北京市政府" in shown


@pytest.mark.smoke
@pytest.mark.parametrize("texts", [["the only one"] * 5, [" ", "\u200b"]], ids=["one", "none"])
def test_fewer_than_two_documents_are_one_line(tmp_path, monkeypatch, texts):
    """Before anything is loaded or drawn."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    (tmp_path / "notes").mkdir()
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "notes/documents.jsonl").write_text("\n".join(rows))
    with pytest.raises(papermill.PapermillExecutionError) as error:
        papermill.execute_notebook(
            paths.NOTEBOOKS / "own_documents.ipynb",
            tmp_path / "out.ipynb",
            {"folder": str(tmp_path / "notes")},
            progress_bar=False,
            **PATIENCE,
        )
    assert error.value.ename == "ParameterError" and "two are needed" in error.value.evalue
    assert len(error.value.traceback) == 1
