"""`python -m lib.embed`, as a person uses it: with texts of every kind, and with bad ones."""

from __future__ import annotations

import json
import os

import numpy as np
import pandas as pd
import pytest

import lib.encoders
from lib import embed
from lib.config import environment
from lib.experiments.embedders import Teacher
from lib.experiments.students import Base
from lib.store import MARKER
from lib.vectors import models
from lib.vectors.encoder import Encoder
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA
from tests.vectors.conftest import draw_coins, make_text, write_lines


@pytest.fixture
def quickly(monkeypatch, tmp_path):
    """Counts of letters in place of MiniLM's vectors: what is tested here is all the rest."""

    def encode(model, texts, precision=None):
        rows = np.array([[text.count(c) + 1 for c in "abcdefgh"] for text in texts], "f4")
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    monkeypatch.setattr(Base, "encode", encode)
    monkeypatch.setattr(Teacher, "encode", encode)
    monkeypatch.setattr(Encoder, "_embed", encode)
    monkeypatch.setattr(Base, "load", lambda model: model)
    monkeypatch.setattr(Base, "export", lambda model, folder: folder.mkdir(), raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def reviews(tmp_path):
    """A CSV of forty reviews with labels, one blank, one repeated."""
    rows = [
        {"id": f"{n:03d}", "text": make_text(n), "title": f"T{n}", "label": n % 2}
        for n in range(40)
    ]
    rows += [{"id": "blank", "text": " "}, {"id": "again", "text": rows[0]["text"]}]
    pd.DataFrame(rows).to_csv(tmp_path / "reviews.csv", index=False)
    return tmp_path / "reviews.csv"


@pytest.fixture
def write_dataset(tmp_path):
    """Writes documents of two subjects as a dataset folder, some of them in groups of three."""

    def write(count, grouped=False):
        rows = [{"id": str(n), "text": make_text(n)} for n in range(count)]
        rows = [row | {"group": f"g{n // 3}"} if grouped else row for n, row in enumerate(rows)]
        write_lines(tmp_path / "mine/documents.jsonl", rows)
        return tmp_path / "mine"

    return write


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


@pytest.mark.parametrize("model", [BASE, CUT, CHUNKS, LSA, BOTH])
def test_a_table_gives_vectors_a_page_an_encoder_and_a_verdict(quickly, reviews, capsys, model):
    code, lines, errors = run(capsys, reviews, "--model", model)
    assert (code, errors) == (0, [])
    assert lines[-1].startswith("VERDICT: ") and f"| {model} |" in lines[-1]
    out = reviews.parent / "here/reviews_vectors"
    names = {"encoder", "index.html", "table.csv", "vectors.parquet", MARKER}
    assert {path.name for path in out.iterdir()} == names
    frame = pd.read_parquet(out / "vectors.parquet")
    assert frame["id"].tolist() == [*(f"{n:03d}" for n in range(40)), "again"]
    vectors = np.stack(frame["vector"])
    assert vectors.dtype == np.float32 and (vectors[0] == vectors[-1]).all()
    texts = pd.read_csv(reviews)["text"][:5].tolist()
    encoded = lib.encoders.load(out / "encoder").encode(texts)
    np.testing.assert_allclose(vectors[:5], encoded, atol=1e-5)
    table = pd.read_csv(out / "table.csv")
    assert set(table["measure"]) == {"halves of documents MRR", "label accuracy"}
    assert any("blank" in line for line in lines) and any("again" in line for line in lines)
    assert "T39" in (out / "index.html").read_text()


def test_json_is_one_object_alone(quickly, reviews, capsys):
    code, lines, _ = run(capsys, reviews, "--json", "--model", BOTH, "--out", "é")
    report = json.loads("\n".join(lines))
    assert report["out"].endswith("é") and lines[0].isascii()
    assert code == 0 and report["model"] == BOTH and report["documents"] == 42
    assert report["difference"] == pytest.approx(report["score"] - report["base"])
    assert {row["model"] for row in report["table"]} >= {BASE, CHUNKS, LSA, BOTH}


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_labels_of_a_coin_are_not_foretold(quickly, tmp_path, capsys, copies):
    rows = draw_coins(copies, spaced=copies == 5)
    write_lines(tmp_path / "coin.jsonl", rows)
    labels = np.random.default_rng(2).integers(20, size=len(rows)).tolist()
    clusters = [{"id": row["id"], "label": f"e{n}"} for row, n in zip(rows, labels, strict=True)]
    coins = [{"id": row["id"], "label": row["label"]} for row in rows]
    write_lines(tmp_path / "mine/documents.jsonl", rows)
    write_lines(tmp_path / "mine/tasks/coin/train.jsonl", coins)
    write_lines(tmp_path / "mine/tasks/events/clusters.jsonl", clusters)
    for place, measures in (("coin.jsonl", 2), ("mine", 3)):
        code, lines, _ = run(capsys, tmp_path / place, "--json")
        table = pd.DataFrame(json.loads("\n".join(lines))["table"])
        assert code == 0 and table["measure"].nunique() == measures
        surely = table["low"].fillna(table["value"]) > table["guessing"] + 0.02
        told = table[surely & ~table["measure"].str.startswith("halves")]
        assert told.empty, told[["measure", "model", "value", "low", "guessing"]]


def test_it_goes_on_from_what_was_embedded(quickly, reviews, capsys, monkeypatch):
    made, whole = [], Base.encode

    def stop(model, texts):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(len(texts))
        return whole(model, texts)

    monkeypatch.setattr(models, "PIECE", 10)
    monkeypatch.setattr(Base, "encode", stop)
    code, lines, errors = run(capsys, reviews)
    assert code == 1 and "continues" in errors[-1] and not any("VERDICT" in line for line in lines)
    assert not (reviews.parent / "here/reviews_vectors").exists()
    again = []
    monkeypatch.setattr(Base, "encode", lambda m, t: (again.append(len(t)), whole(m, t))[1])
    assert run(capsys, reviews)[0] == 0
    assert sum(made) + sum(again) == 3 * 40, "halves and whole texts, none of them twice"
    again.clear()
    assert run(capsys, reviews)[0] == 0 and not again, "all is kept, and the folder replaced"


# a task's file, and what is told of a measure or a model that is left out
EVERYTHING = {str(n): [str(m) for m in range(12) if m != n] for n in range(12)}
LEFT_OUT = {
    "an unknown id": ("train.jsonl", '{"id": "0", "label": "a"}\n{"id": "99", "label": "b"}'),
    "one source": ("relevant.json", '{"0": ["1"]}'),
    "all documents in a fold": ("relevant.json", json.dumps(EVERYTHING)),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_cannot_be_judged_is_told_of(quickly, capsys, write_dataset, case):
    name, content = LEFT_OUT[case]
    folder = write_dataset(12)
    (folder / "tasks/task").mkdir(parents=True)
    (folder / "tasks/task" / name).write_text(content)
    code, lines, _ = run(capsys, folder)
    told = "TF-IDF" if case == "all documents in a fold" else "task"
    assert code == 0 and any(f"note: {told} is not judged: " in line for line in lines), lines


def test_groups_and_clusters_are_judged(quickly, capsys, write_dataset):
    folder = write_dataset(30, grouped=True)
    rows = [{"id": str(n), "label": f"e{n // 3}"} for n in range(30)]
    write_lines(folder / "tasks/events/clusters.jsonl", rows)
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any(line.strip().startswith("events MAP") for line in lines)


def test_texts_that_nothing_can_be_judged_by_are_embedded(quickly, tmp_path, capsys):
    write_lines(tmp_path / "two.jsonl", [{"text": "One."}, {"text": "Two."}])
    code, lines, _ = run(capsys, tmp_path / "two.jsonl")
    assert code == 0 and lines[-1] == "VERDICT: EQUAL | base | nan | nan | +nan"
    assert any("nothing to judge models by" in line for line in lines)


# ---- bad input ----------------------------------------------------------------------------------


def check_refused(capsys, told, *arguments):
    before = {path.name for path in os.scandir(".")}
    code, lines, errors = run(capsys, *arguments)
    assert code == 2 and lines == [] and len(errors) == 1 and told in errors[0], errors
    assert {path.name for path in os.scandir(".")} == before


TEXTS = {
    "one text twice": ({"a.txt": b"The same.", "b.txt": b"The  same."}, "got 1"),
    "another encoding": ({"a.txt": b"\xc4pfel", "b.txt": b"Two."}, "a.txt"),
    "no text column": ({"a.csv": b"name,body\na,b\n"}, "name, body"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_bad_texts_are_one_line(quickly, tmp_path, capsys, case):
    files, told = TEXTS[case]
    (tmp_path / "given").mkdir()
    for name, content in files.items():
        (tmp_path / "given" / name).write_bytes(content)
    check_refused(capsys, told, tmp_path / "given")


def test_nothing_of_a_persons_is_replaced(quickly, tmp_path, capsys, write_dataset, artifacts):
    folder, other = write_dataset(4), tmp_path / "other"
    assert run(capsys, folder, "--out", other)[0] == 0
    (other / "thesis.doc").write_text("mine")
    for out in (other, folder, artifacts, artifacts / "store"):
        check_refused(capsys, "did not write", folder, "--out", out)


def test_unknown_models_and_students_are_one_line(quickly, tmp_path, capsys, write_dataset):
    folder = write_dataset(4)
    check_refused(capsys, "'base', 'teacher, cut'", folder, "--model", "bas")
    check_refused(capsys, "needs --student", folder, "--model", "student")
    check_refused(capsys, "cannot read the configuration", folder, "--student", tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("CUDA out of\nmemory")])
def test_what_ends_the_command_from_outside_is_one_line(capsys, monkeypatch, error):
    def fail(**_):
        raise error

    monkeypatch.setattr(environment, "set_process_environment", fail)
    code, lines, errors = run(capsys, "texts")
    told = "interrupted" if isinstance(error, KeyboardInterrupt) else "CUDA out of memory"
    assert code in (1, 2) and lines == [] and len(errors) == 1 and told in errors[0]


# ---- with MiniLM --------------------------------------------------------------------------------


@pytest.mark.smoke
def test_all_of_it_with_the_real_encoder(tmp_path, capsys, write_dataset):
    folder, student = write_dataset(24), tmp_path / "student"
    texts = [make_text(n) for n in range(4)]
    for model in (BOTH, CHUNKS, "student"):
        out = tmp_path / f"{model}_out"
        more = ["--student", student] if student.exists() else []
        code, _, errors = run(capsys, folder, "--out", out, "--model", model, *more)
        assert code == 0, errors
        stored = np.stack(pd.read_parquet(out / "vectors.parquet")["vector"][:4])
        encoder = lib.encoders.load(out / "encoder")
        vectors = encoder.encode(texts)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(stored, axis=1)
        assert ((vectors * stored).sum(axis=1) / norms).min() > 0.995, "but for bfloat16 the same"
        if model == BOTH:
            encoder._dense.export(student)
