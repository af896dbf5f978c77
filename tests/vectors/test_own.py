"""`python -m lib.embed`, as a person uses it: with texts of every kind, and with bad ones."""

import json
import os
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib import embed, store
from lib.data import check
from lib.data.dataset_folder import content
from lib.data.files import write_lines
from lib.experiments.models import Teacher
from lib.experiments.students import Base
from lib.store import MARKER
from lib.vectors import BASE, BOTH, CHUNKS, LSA, own
from tests.vectors.conftest import draw_coins, make_text


@pytest.fixture
def quickly(monkeypatch, tmp_path):
    """Counts of letters in place of MiniLM's vectors: what is tested here is all the rest."""

    def encode(model, texts, precision=None):
        rows = np.array([[text.count(c) + 1 for c in "abcdefg)"] for text in texts], "f4")
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    monkeypatch.setattr(Base, "encode", encode)
    monkeypatch.setattr(Teacher, "encode", encode)
    monkeypatch.setattr(Base, "load", lambda model: model)
    monkeypatch.setattr(Base, "export", lambda model, folder: folder.mkdir(), raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def reviews(tmp_path):
    """A CSV of forty reviews with labels, one blank, one repeated in another case."""
    frame = pd.DataFrame({"id": [f"{n:03d}" for n in range(40)], "text": map(make_text, range(40))})
    frame = frame.assign(title=[f"T{n}" for n in range(40)], label=frame.index % 2)
    others = [{"id": "blank", "text": " "}, {"id": "again", "text": frame["text"][0].upper() + "!"}]
    pd.concat([frame, pd.DataFrame(others)]).to_csv(tmp_path / "reviews.csv", index=False)
    return tmp_path / "reviews.csv"


def write_dataset(folder, count):
    """Documents of two subjects in groups of three, as a dataset folder."""
    rows = [{"id": str(n), "text": make_text(n), "group": f"g{n // 3}"} for n in range(count)]
    write_lines(folder / "mine/documents.jsonl", rows)
    return folder / "mine"


def run(capsys, *arguments):
    """(exit code, lines of stdout, lines of stderr without bars)."""
    code = 0
    try:
        embed.main([*map(str, arguments)])
    except SystemExit as error:
        code = error.code
    printed = capsys.readouterr()
    errors = [line for line in printed.err.splitlines() if line.startswith("python -m")]
    return code, printed.out.splitlines(), errors


def test_a_table_gives_vectors_a_page_an_encoder_and_a_verdict(quickly, reviews, capsys):
    code, lines, errors = run(capsys, reviews, "--model", BOTH)
    assert (code, errors) == (0, [])
    assert lines[-1].startswith("VERDICT: ") and f"| {BOTH} |" in lines[-1]
    out = reviews.parent / "here/reviews_vectors"
    names = {"encoder", "index.html", "table.csv", "vectors.parquet", MARKER}
    assert {path.name for path in out.iterdir()} == names
    frame = pd.read_parquet(out / "vectors.parquet")
    assert frame["id"].tolist() == [*(f"{n:03d}" for n in range(40)), "again"]
    vectors = np.stack(frame["vector"])
    assert vectors.dtype == np.float32
    assert (out / "vectors.parquet").stat().st_size < 1.1 * vectors.nbytes + 4096
    assert not np.allclose(vectors[0], vectors[-1], atol=1e-3), "each text has its own vector"
    measures = {*pd.read_csv(out / "table.csv")["measure"]}
    assert measures == {"halves of documents MRR", "label accuracy"}
    assert any("blank" in line for line in lines) and any("again" in line for line in lines)
    assert not any("not read" in line for line in lines), "its labels are read"
    page = (out / "index.html").read_text()
    assert "T39" in page and '"classes":["0.0","1.0"]' in page
    code, lines, _ = run(capsys, reviews, "--json", "--model", BOTH, "--out", "é")
    report = json.loads("\n".join(lines))
    assert report["out"].endswith("é") and lines[0].isascii()
    assert code == 0 and report["model"] == BOTH and report["documents"] == 42
    assert report["difference"] == pytest.approx(report["score"] - report["base"])
    assert {row["model"] for row in report["table"]} >= {BASE, CHUNKS, LSA, BOTH}


@pytest.mark.parametrize("copies", [1, 5])
def test_labels_of_a_coin_are_not_foretold(quickly, tmp_path, capsys, copies):
    rows = draw_coins(copies, spaced=copies == 5)
    draw = np.random.default_rng(2)
    events = {content(row["text"]): f"e{draw.integers(20)}" for row in rows}
    clusters = [{"id": row["id"], "label": events[content(row["text"])]} for row in rows]
    coins = [{"id": row["id"], "label": row["label"]} for row in rows]
    write_lines(tmp_path / "mine/documents.jsonl", rows)
    write_lines(tmp_path / "mine/tasks/coin/train.jsonl", coins)
    write_lines(tmp_path / "mine/tasks/events/clusters.jsonl", clusters)
    code, lines, _ = run(capsys, tmp_path / "mine", "--json")
    table = pd.DataFrame(json.loads("\n".join(lines))["table"])
    assert code == 0 and table["measure"].nunique() == 3
    surely = table["low"].fillna(table["value"]) > table["guessing"] + 0.02
    told = table[surely & ~table["measure"].str.startswith("halves")]
    assert told.empty, told[["measure", "model", "value", "low", "guessing"]]


def test_texts_that_differ_in_a_sign_are_judged_as_they_are(quickly, tmp_path, capsys):
    rows = [{"text": f"{make_text(n)} :{sign}", "label": sign} for n in range(40) for sign in "()"]
    write_lines(tmp_path / "signs.jsonl", rows)
    _, lines, _ = run(capsys, tmp_path / "signs.jsonl", "--json")
    table = pd.DataFrame(json.loads("\n".join(lines))["table"])
    judged = table[table["measure"] == "label accuracy"].set_index("model")
    assert judged.at[BASE, "value"] > 0.95


def test_it_goes_on_from_what_was_embedded(quickly, reviews, capsys, monkeypatch):
    made, whole = [], Base.encode

    def stop(model, texts):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(len(texts))
        return whole(model, texts)

    monkeypatch.setattr(store, "PIECE", 10)
    monkeypatch.setattr(Base, "encode", stop)
    code, lines, errors = run(capsys, reviews)
    assert code == 1 and "continues" in errors[-1] and not any("VERDICT" in line for line in lines)
    assert not (reviews.parent / "here/reviews_vectors").exists()
    again = []
    monkeypatch.setattr(Base, "encode", lambda m, t: (again.append(len(t)), whole(m, t))[1])
    assert run(capsys, reviews)[0] == 0
    assert sum(made) + sum(again) == 3 * 40 + 1, "halves and whole texts, none of them twice"
    again.clear()
    assert run(capsys, reviews)[0] == 0 and not again, "all is kept, and the folder replaced"


def test_a_task_is_judged_or_told_of(quickly, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(own, "FITTED", 10)
    folder = write_dataset(tmp_path, 12)
    clusters = [{"id": str(n), "label": f"e{n // 3}"} for n in range(12)]
    write_lines(folder / "tasks/events/clusters.jsonl", clusters)
    write_lines(folder / "tasks/mistaken/train.jsonl", [{"id": "99", "label": "b"}])
    write_lines(folder / "tasks/one/relevant.json", [{"0": ["1"]}])
    with (folder / "documents.jsonl").open("a") as file:
        file.write('{"id": "stop words", "text": "the of and"}')
    code, lines, _ = run(capsys, folder, "--model", LSA)
    assert any("zeros for 1 texts" in line and "stop words" in line for line in lines), lines
    assert code == 0 and any(line.strip().startswith("events MAP") for line in lines), lines
    assert "note: words are fitted to 10 of 13 texts" in lines
    card = next(tmp_path.rglob("README.md")).read_text()
    assert "all 13 documents, its words to 10 of them." in card
    for name in ("mistaken", "one"):
        assert any(line.startswith(f"note: {name} is not judged: ") for line in lines), lines


def test_a_limit_leaves_no_room_for_what_is_not_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "TEXTS", 100)
    folder = write_dataset(tmp_path, 149)
    with (folder / "documents.jsonl").open("a") as file:
        file.write(json.dumps({"id": "149", "text": make_text(0).upper()}) + "\n")
    for part, split in enumerate(("train", "validation", "test")):
        rows = [{"id": str(n), "label": n % 2} for n in range(50 * part, 50 * part + 50)]
        write_lines(folder / f"tasks/kind/{split}.jsonl", rows)
    tasks, labels = own.OwnTexts._read_tasks(SimpleNamespace(folder=folder))
    assert tasks["kind"].examples["split"].value_counts().to_dict() == {"train": 50, "test": 50}
    assert "cut to" not in capsys.readouterr().out
    assert len(labels) == 148, "the page shows all but those of copies with different labels"


def test_nothing_of_a_persons_is_replaced_and_refusals_are_one_line(
    quickly, tmp_path, capsys, artifacts
):
    folder, other = write_dataset(tmp_path, 4), tmp_path / "other"
    assert run(capsys, folder, "--out", other)[0] == 0
    (other / "thesis.doc").write_text("mine")
    outs = [("--out", out) for out in (other, folder, artifacts, artifacts / "store")]
    before = {path.name for path in os.scandir(".")}
    for options in (*outs, ("--model", "student"), ("--student", tmp_path)):
        code, lines, errors = run(capsys, folder, *options)
        told = "not written by" if options[0] == "--out" else ""
        assert code == 2 and lines == [] and len(errors) == 1 and told in errors[0], errors
    assert {path.name for path in os.scandir(".")} == before
