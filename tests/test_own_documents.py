"""`notebooks/own_documents.ipynb`, which people copy, runs on a folder and a student of theirs."""

import papermill
import pytest

from lib.config import paths, profiles
from lib.data.files import write_lines
from lib.experiments.bench import Bench
from lib.runner.execute import PATIENCE
from lib.store import Store

SUBJECTS = {
    "river": "The river carries water past the boats to the sea.",
    "law": "The court heard the judge and the jury of the trial.",
}


@pytest.mark.smoke
def test_it_searches_pairs_and_maps(tmp_path, artifacts, filled_store, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))
    monkeypatch.delenv("MPLBACKEND", raising=False)  # the kernel shows figures in the notebook
    rows = [{"id": "blank", "text": " "}]
    for number, (name, text) in enumerate([*SUBJECTS.items()] * 6):
        rows.append({"id": number, "text": f"{text} Note {number}.", "title": f"{name} {number}"})
    rows.append({"id": "again", "text": rows[1]["text"].replace(" ", "\n"), "title": "again"})
    write_lines(tmp_path / "notes/table.jsonl", rows)
    (tmp_path / "notes/left.docx").touch()
    bench = Bench(profiles.load("smoke", overrides={"tasks.limit": 60}), Store(filled_store))
    bench.base.load().export(tmp_path / "student")
    folders = {"folder": str(tmp_path / "notes"), "student": str(tmp_path / "student")}
    files = (paths.NOTEBOOKS / "own_documents.ipynb", tmp_path / "out.ipynb")
    parameters = folders | {"query": "ships on water"}
    executed = papermill.execute_notebook(*files, parameters, progress_bar=False, **PATIENCE)
    outputs = [output for cell in executed.cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}) for output in outputs]
    search, pairs = (
        next(data["text/plain"] for data in shown if word in data.get("text/plain", ""))
        for word in ("begins", "nearest")
    )
    assert search.count("river ") >= 5 and "law" not in search, "the nearest are of the subject"
    lines = pairs.splitlines()[1:]
    assert len(lines) == 8 and all(line.count("river") in (0, 2) for line in lines), "pairs, too"
    assert "again" not in search + pairs, "a repeated document is left out"
    printed = "".join(output.get("text", "") for output in outputs)
    assert folders["student"] in printed and "1 files not read: left.docx" in printed
    assert sum("image/png" in data for data in shown) == 1
