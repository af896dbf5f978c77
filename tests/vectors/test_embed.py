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
from lib.experiments.base import Base
from lib.experiments.embedders import Teacher
from lib.store import MARKER
from lib.vectors import pipeline
from lib.vectors.encoder import Encoder
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA
from tests.vectors.conftest import draw_coins, make_text, write_lines


@pytest.fixture
def quickly(monkeypatch, tmp_path):
    """Counts of letters in place of MiniLM's vectors: what is tested here is all the rest."""

    def encode(model, texts, precision=None):
        return np.array([[text.count(c) + 1 for c in "abcdefgh"] for text in texts], "f4")

    monkeypatch.setattr(Base, "encode", encode)
    monkeypatch.setattr(Teacher, "encode", encode)
    monkeypatch.setattr(Encoder, "_embed", encode)
    monkeypatch.setattr(pipeline, "_write_dense", lambda folder, _: folder.mkdir())
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def reviews(tmp_path):
    """A CSV of forty reviews with labels, one blank, one repeated."""
    rows = [
        {"id": n, "text": make_text(("river", "court")[n % 2], n), "title": f"T{n}", "label": n % 2}
        for n in range(40)
    ]
    rows += [{"id": "blank", "text": " "}, {"id": "again", "text": rows[0]["text"]}]
    pd.DataFrame(rows).to_csv(tmp_path / "reviews.csv", index=False)
    return tmp_path / "reviews.csv"


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
    code, lines, errors = run(capsys, reviews)
    assert (code, errors) == (0, [])
    assert lines[-1].startswith("VERDICT: ") and lines[-1].count("|") == 4
    out = reviews.parent / "here/reviews_vectors"
    names = {"encoder", "index.html", "table.csv", "vectors.parquet", MARKER}
    assert {path.name for path in out.iterdir()} == names
    frame = pd.read_parquet(out / "vectors.parquet")
    assert frame["id"].tolist() == [*map(str, range(40)), "again"]
    vectors = np.stack(frame["vector"])
    assert vectors.dtype == np.float32 and (vectors[0] == vectors[-1]).all()
    table = pd.read_csv(out / "table.csv")
    assert set(table["measure"]) == {"halves of documents MRR", "label accuracy"}
    assert any("blank" in line for line in lines) and any("again" in line for line in lines)
    assert "T39" in (out / "index.html").read_text()


@pytest.mark.parametrize("model", [BASE, CUT, CHUNKS, LSA, BOTH])
def test_what_was_taken_is_what_the_encoder_gives(quickly, reviews, capsys, model):
    code, lines, _ = run(capsys, reviews, "--model", model)
    assert code == 0 and f"| {model} |" in lines[-1]
    out = reviews.parent / "here/reviews_vectors"
    frame = pd.read_parquet(out / "vectors.parquet").set_index("id")
    texts = pd.read_csv(reviews)["text"][:5].tolist()
    encoder = lib.encoders.load(out / "encoder")
    vectors = np.stack(frame["vector"][:5])
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)
    assert encoder.features(texts).shape[1] >= len(encoder.words)


def test_json_is_one_object_alone(quickly, reviews, capsys):
    code, lines, _ = run(capsys, reviews, "--json", "--model", BOTH, "--out", "é")
    report = json.loads("\n".join(lines))
    assert report["out"].endswith("é") and lines[0].isascii()
    assert code == 0 and report["model"] == BOTH and report["documents"] == 42
    assert report["difference"] == pytest.approx(report["score"] - report["base"])
    assert {row["model"] for row in report["table"]} >= {BASE, CHUNKS, LSA, BOTH}
    assert [*report["table"][0]] == (
        "measure examples model value low high against_base against_low against_high than_base "
        "guessing"
    ).split()


COINS = {"once": (1, False), "twice": (2, False), "five times": (5, True)}


@pytest.mark.parametrize("case", COINS)
def test_labels_of_a_coin_are_not_foretold(quickly, tmp_path, capsys, case):
    rows = draw_coins(*COINS[case])
    write_lines(tmp_path / "coin.jsonl", rows)
    labels = np.random.default_rng(2).integers(20, size=len(rows)).tolist()
    clusters = [{"id": row["id"], "label": f"e{n}"} for row, n in zip(rows, labels, strict=True)]
    write_lines(tmp_path / "mine/documents.jsonl", rows)
    write_lines(tmp_path / "mine/tasks/coin/train.jsonl", drop(rows, "text"))
    write_lines(tmp_path / "mine/tasks/events/clusters.jsonl", clusters)
    for place in ("coin.jsonl", "mine"):
        code, lines, _ = run(capsys, tmp_path / place, "--json")
        table = pd.DataFrame(json.loads("\n".join(lines))["table"])
        assert code == 0 and len(table)
        surely = table["low"].fillna(table["value"]) > table["guessing"] + 0.02
        told = table[surely & ~table["measure"].str.startswith("halves")]
        assert told.empty, told[["measure", "model", "value", "low", "guessing"]]
        assert {*table["measure"]} >= {"halves of documents MRR"}


def drop(rows, name):
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def test_it_goes_on_from_what_was_embedded(quickly, reviews, capsys, monkeypatch):
    made, whole = [], Base.encode

    def stop(model, texts):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(len(texts))
        return whole(model, texts)

    monkeypatch.setattr(pipeline, "PIECE", 1000)
    monkeypatch.setattr(Base, "encode", stop)
    code, lines, errors = run(capsys, reviews)
    assert code == 1 and "continues" in errors[-1] and not any("VERDICT" in line for line in lines)
    assert not (reviews.parent / "here/reviews_vectors").exists()
    again = []
    monkeypatch.setattr(Base, "encode", lambda m, t: (again.append(len(t)), whole(m, t))[1])
    assert run(capsys, reviews)[0] == 0
    assert sum(made) + sum(again) == 3 * 40, "halves and whole texts, none of them twice"
    again.clear()
    code, _, _ = run(capsys, reviews)
    assert code == 0 and not again, "all of it is kept, and the folder replaced"


# a task's file, and what is told of a measure or a model that is left out
LEFT_OUT = {
    "an unknown id": (
        "train.jsonl",
        '{"id": "0", "label": "a"}\n{"id": "99", "label": "b"}',
        "task is not judged: ",
    ),
    "one source": ("relevant.json", '{"0": ["1"]}', "task is not judged: only one source"),
    "all documents in a fold": (
        "relevant.json",
        json.dumps({str(n): [str(m) for m in range(12) if m != n] for n in range(12)}),
        "task: TF-IDF, LSA and both are not judged",
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_cannot_be_judged_is_told_of(quickly, tmp_path, capsys, write_dataset, case):
    name, content, told = LEFT_OUT[case]
    folder = write_dataset(tmp_path / "mine", 12)
    (folder / "tasks/task").mkdir(parents=True)
    (folder / "tasks/task" / name).write_text(content)
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any(told in line for line in lines), lines


def test_groups_and_clusters_are_judged_and_few_texts_give_no_warning(
    quickly, tmp_path, capsys, write_dataset
):
    folder = write_dataset(tmp_path / "mine", 30, group=lambda n: f"g{n // 3}")
    rows = [{"id": str(n), "label": f"e{n // 3}"} for n in range(30)]
    write_lines(folder / "tasks/events/clusters.jsonl", rows)
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any(line.strip().startswith("events MAP") for line in lines)
    embed.main([str(write_dataset(tmp_path / "few", 3)), "--model", LSA])
    assert "warning" not in capsys.readouterr().err.lower()


def test_texts_without_halves_or_words_and_long_ones(quickly, tmp_path, capsys, monkeypatch):
    rows = [{"text": f"it is {'so ' * 300} {'ab'[n % 2]} {n}", "label": n % 2} for n in range(20)]
    pd.DataFrame(rows).to_csv(tmp_path / "forms.csv", index=False)
    code, lines, _ = run(capsys, tmp_path / "forms.csv", "--model", CUT)
    assert code == 0 and "judged by halves of documents, label" in lines[0]
    assert any("halves of documents could not be judged: fewer" in line for line in lines)
    assert any(
        f"20 of 20 texts are longer than about 256 tokens, where {CUT!r}" in each for each in lines
    )


def test_texts_that_nothing_can_be_judged_by_are_embedded(quickly, tmp_path, capsys):
    write_lines(tmp_path / "two.jsonl", [{"text": "One."}, {"text": "Two."}])
    code, lines, _ = run(capsys, tmp_path / "two.jsonl")
    assert code == 0 and lines[-1] == "VERDICT: EQUAL | base | nan | nan | +nan"
    assert any("nothing to judge models by; base is used" in line for line in lines)


# ---- bad input ----------------------------------------------------------------------------------


def check_refused(capsys, told, *arguments):
    before = {path.name for path in os.scandir(".")}
    code, lines, errors = run(capsys, *arguments)
    assert code == 2 and lines == [] and len(errors) == 1 and told in errors[0], errors
    assert {path.name for path in os.scandir(".")} == before


TEXTS = {
    "an empty folder": ({}, "found nothing"),
    "one text": ({"a.txt": b"The only one."}, "1 of 1"),
    "one text twice": ({"a.txt": b"The same.", "b.txt": b"The  same."}, "1 of 2"),
    "only blanks": ({"a.txt": b" ", "b.txt": b"\n"}, "0 of 2, 2 blank"),
    "another encoding": ({"a.txt": b"\xc4pfel", "b.txt": b"Two."}, "a.txt"),
    "no text column": ({"a.csv": b"name,body\na,b\n"}, "name, body"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_bad_texts_are_one_line(quickly, tmp_path, capsys, case):
    files, told = TEXTS[case]
    folder = tmp_path / "given"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    check_refused(capsys, told, folder)


def test_nothing_of_a_persons_is_replaced(quickly, tmp_path, capsys, write_dataset, artifacts):
    folder, other = write_dataset(tmp_path / "mine", 4), tmp_path / "other"
    assert run(capsys, folder, "--out", other)[0] == 0
    (other / "thesis.doc").write_text("mine")
    for out in (other, folder, artifacts, artifacts / "store"):
        check_refused(capsys, "did not write", folder, "--out", out)


def test_unknown_models_students_and_texts_are_one_line(quickly, tmp_path, capsys, write_dataset):
    folder = write_dataset(tmp_path / "mine", 4)
    check_refused(capsys, "'base', 'teacher, cut'", folder, "--model", "bas")
    told = "cannot read the configuration"
    check_refused(capsys, told, folder, "--student", tmp_path)
    check_refused(capsys, "no such file", tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (ModuleNotFoundError("No module named 'torch'"), "--setup"),
        (RuntimeError("CUDA out of memory.\nTried to allocate"), "end other programs"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_the_command_from_outside_is_one_line(capsys, monkeypatch, error, told):
    def fail(**_):
        raise error

    monkeypatch.setattr(environment, "set_process_environment", fail)
    code, lines, errors = run(capsys, "texts")
    assert code == 1 and lines == [] and len(errors) == 1 and told in errors[0]


# ---- with MiniLM --------------------------------------------------------------------------------


@pytest.mark.smoke
def test_all_of_it_with_the_real_encoder(tmp_path, monkeypatch, capsys, write_dataset):
    folder, student = write_dataset(tmp_path / "mine", 24), tmp_path / "student"
    for model in (BOTH, CHUNKS, "student"):
        out = tmp_path / f"{model}_out"
        more = ["--student", student] if student.exists() else []
        code, _, errors = run(capsys, folder, "--out", out, "--model", model, *more)
        assert code == 0, errors
        frame = pd.read_parquet(out / "vectors.parquet")
        encoder = lib.encoders.load(out / "encoder")
        lines = (folder / "documents.jsonl").read_text().splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        vectors, stored = encoder.encode(texts[:4]), np.stack(frame["vector"][:4])
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(stored, axis=1)
        assert ((vectors * stored).sum(axis=1) / norms).min() > 0.995, "but for bfloat16 the same"
        (stretches,) = encoder.encode_chunks(texts[:1])
        assert stretches.vectors.shape[1] == vectors.shape[1]
        if model == BOTH:
            encoder._student.export(student)


@pytest.mark.smoke
def test_one_token_more_hardly_moves_a_mean_of_chunks():
    """A whole piece of 126 tokens, and the same with one token of another piece."""
    from lib.store import Store
    from lib.vectors.models import list_dense

    chunks = list_dense(Store(None))[CHUNKS].model
    piece = " ".join(["the old mill stands by the river and grinds the corn"] * 12)
    ids = chunks.sbert.tokenizer(piece, add_special_tokens=False)["input_ids"]
    assert len(ids) >= 126
    whole = chunks.sbert.tokenizer.decode(ids[:126])
    vectors = chunks.encode([whole, f"{whole} parliament"])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert vectors[0] @ vectors[1] > 0.98
