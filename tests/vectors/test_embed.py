"""`python -m lib.embed`, as a person uses it: with texts of every kind, and with bad ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import lib.encoders
from lib import embed
from lib.config import environment
from lib.vectors import dense, pipeline
from lib.vectors.encoder import Encoder
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA
from tests.vectors.conftest import make_text


def embed_quickly(monkeypatch, **changes):
    """Dense vectors of letters in place of MiniLM's: what is tested here is all the rest.

    changes: of the fields of all dense models.
    """

    def encode(texts):
        return np.array([[text.count(c) + 1 for c in "abcdefgh"] for text in texts], "f4")

    listed = dense.list_models

    def list_models(student=None):
        models = listed(student).items()
        return {name: replace(model, load=lambda: encode, **changes) for name, model in models}

    monkeypatch.setattr(dense, "list_models", list_models)
    monkeypatch.setattr(Encoder, "_embed", lambda encoder, texts, precision: encode(texts))
    monkeypatch.setattr(pipeline, "_write_dense", lambda folder, *_: folder.mkdir())


@pytest.fixture
def quickly(monkeypatch, tmp_path):
    embed_quickly(monkeypatch)
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
    assert sorted(path.name for path in out.iterdir() if path.name != "seal.json") == [
        "encoder",
        "index.html",
        "table.csv",
        "vectors.parquet",
    ]
    frame = pd.read_parquet(out / "vectors.parquet")
    assert frame["id"].tolist() == [*map(str, range(40)), "again"]
    vectors = np.stack(frame["vector"])
    assert vectors.dtype == np.float32 and (vectors[0] == vectors[-1]).all()
    table = pd.read_csv(out / "table.csv")
    assert set(table["measure"]) == {"halves of documents MRR", "label accuracy"}
    assert any("blank" in line for line in lines) and any("again" in line for line in lines)
    assert "T39" in (out / "index.html").read_text()


def test_what_was_taken_is_what_the_encoder_gives(quickly, reviews, capsys):
    code, lines, _ = run(capsys, reviews, "--model", LSA)
    assert code == 0 and f"| {LSA} |" in lines[-1]
    out = reviews.parent / "here/reviews_vectors"
    frame = pd.read_parquet(out / "vectors.parquet").set_index("id")
    texts = pd.read_csv(reviews)["text"][:5].tolist()
    vectors = lib.encoders.load(out / "encoder").encode(texts)
    np.testing.assert_allclose(np.stack(frame["vector"][:5]), vectors, atol=1e-5)


def test_json_is_one_object_alone(quickly, reviews, capsys):
    code, lines, _ = run(capsys, reviews, "--json", "--model", BOTH, "--out", "é")
    report = json.loads("\n".join(lines))
    assert report["out"].endswith("é") and lines[0].isascii()
    assert code == 0 and report["model"] == BOTH and report["documents"] == 42
    assert report["difference"] == pytest.approx(report["score"] - report["base"])
    assert {row["model"] for row in report["table"]} >= {BASE, CHUNKS, LSA, BOTH}


def test_plain_files_in_two_languages_are_embedded_and_told_of(quickly, tmp_path, capsys):
    folder = tmp_path / "notes"
    folder.mkdir()
    for n in range(6):
        (folder / f"{n}.txt").write_text(make_text("river", n))
        (folder / f"de{n}.txt").write_text(
            f"Der Fluss {n} fließt ins Meer und die Boote fahren. " * 4
        )
    code, lines, _ = run(capsys, folder)
    assert code == 0 and lines[-1].startswith("VERDICT: ")
    told = [line for line in lines if "English" in line]
    assert len(told) == 1 and "6 documents" in told[0]


def test_it_goes_on_from_what_was_embedded(quickly, reviews, capsys, monkeypatch):
    made, whole = [], dense.DenseModel.make_rows

    def stop(model, texts):
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(len(texts))
        return whole(model, texts)

    monkeypatch.setattr(dense, "PIECE", 1000)
    monkeypatch.setattr(dense.DenseModel, "make_rows", stop)
    code, lines, errors = run(capsys, reviews)
    assert code == 1 and "continues" in errors[-1] and not any("VERDICT" in line for line in lines)
    assert not (reviews.parent / "here/reviews_vectors").exists()
    again = []
    monkeypatch.setattr(
        dense.DenseModel,
        "make_rows",
        lambda m, texts: (again.append(len(texts)), whole(m, texts))[1],
    )
    assert run(capsys, reviews)[0] == 0
    counted = sum(made) + sum(again)
    again.clear()
    code, lines, _ = run(capsys, reviews)
    assert code == 0 and not again, "all of it is kept, and the folder replaced"
    assert any("reviews_vectors exists and will be replaced" in line for line in lines)
    halves, whole_texts = 2 * 40, 40
    assert counted == 3 * (halves + whole_texts), "no text was embedded twice"


def test_what_was_kept_does_not_count_as_fast(monkeypatch):
    bars, now = [], 0.0

    class Bar(pipeline.tqdm):
        def __init__(self, **options):
            super().__init__(**options)
            self.start_t = self.last_print_t = 0.0
            self._time = lambda: now
            bars.append(self)

    monkeypatch.setattr(pipeline, "tqdm", Bar)
    with pipeline.show_tokens("embedding", 10_000) as advance:
        for second, tokens, new in ((2, 5000, False), (4, 3000, False), (10, 100, True)):
            now = second
            advance(tokens, new)
        (speed,) = re.findall(r"([\d.]+)token/s", str(bars[0]))
    assert float(speed) == pytest.approx(10)


def test_a_task_that_cannot_be_judged_costs_its_own_rows(quickly, tmp_path, capsys, write_dataset):
    folder = write_dataset(tmp_path / "mine", 30)
    task = folder / "tasks/broken"
    task.mkdir(parents=True)
    (task / "train.jsonl").write_text('{"id": "0", "label": "a"}\n{"id": "99", "label": "b"}')
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any("broken is not judged" in line and "'99'" in line for line in lines)


# the task's file, and what is told of a measure or a model that is left out
LEFT_OUT = {
    "one source": ({"0": ["1"]}, "task is not judged: only one source"),
    "all documents in a fold": (
        {str(n): [str(m) for m in range(12) if m != n] for n in range(12)},
        "task: TF-IDF, LSA and both are not judged",
    ),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_cannot_be_judged_is_told_of(quickly, tmp_path, capsys, write_dataset, case):
    relevant, told = LEFT_OUT[case]
    folder = write_dataset(tmp_path / "mine", 12)
    (folder / "tasks/task").mkdir(parents=True)
    (folder / "tasks/task/relevant.json").write_text(json.dumps(relevant))
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any(told in line for line in lines)


def test_texts_without_halves_of_their_own_are_judged_by_labels_alone(quickly, tmp_path, capsys):
    rows = [{"text": f"Form A 12 {n % 4}a {n}b {n}c", "label": n % 2} for n in range(20)]
    pd.DataFrame(rows).to_csv(tmp_path / "forms.csv", index=False)
    code, lines, _ = run(capsys, tmp_path / "forms.csv")
    assert code == 0 and "judged by label:" in lines[0]
    assert any("halves of documents are not judged" in line for line in lines)


@pytest.mark.parametrize(("model", "told"), [(CUT, CUT), (BOTH, BASE), (LSA, None)])
def test_texts_beyond_what_the_taken_model_reads_are_counted(
    quickly, reviews, capsys, monkeypatch, model, told
):
    embed_quickly(monkeypatch, longest=50)
    code, lines, _ = run(capsys, reviews, "--model", model)
    cut = [line for line in lines if "stops reading" in line]
    assert code == 0 and len(cut) == (told is not None)
    assert not cut or f"40 of 40 texts are longer than about 50 tokens, where {told!r}" in cut[0]


def test_an_encoder_that_embeds_otherwise_is_not_left(quickly, reviews, capsys, monkeypatch):
    noise = np.random.default_rng(0).normal(size=(5, 8))
    monkeypatch.setattr(Encoder, "_embed", lambda *_: noise.astype("f4"))
    code, _, errors = run(capsys, reviews, "--model", BASE)
    assert code == 1 and "different vectors" in errors[0]
    assert not (reviews.parent / "here/reviews_vectors").exists()


def test_groups_and_clusters_are_judged(quickly, tmp_path, capsys, write_dataset):
    folder = write_dataset(tmp_path / "mine", 30, group=lambda n: f"g{n // 3}")
    (folder / "tasks/events").mkdir(parents=True)
    rows = [json.dumps({"id": str(n), "label": f"e{n // 3}"}) for n in range(30)]
    (folder / "tasks/events/clusters.jsonl").write_text("\n".join(rows))
    code, lines, _ = run(capsys, folder)
    assert code == 0 and any(line.strip().startswith("events MAP") for line in lines)


@pytest.fixture
def write_dataset():
    def write(folder, count, **fields):
        folder.mkdir()
        rows = [
            {"id": str(n), "text": make_text(("river", "court")[n % 2], n)}
            | {key: make(n) for key, make in fields.items()}
            for n in range(count)
        ]
        (folder / "documents.jsonl").write_text("\n".join(map(json.dumps, rows)))
        return folder

    return write


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
    "NUL bytes": ({"a.txt": b"a\0b", "b.txt": b"Two."}, "NUL"),
    "another encoding": ({"a.txt": b"\xc4pfel", "b.txt": b"Two."}, "iconv"),
    "no text column": ({"a.csv": b"name,body\na,b\n"}, "name, body"),
    "ids of mixed types": ({"a.jsonl": b'{"id":1,"text":"a"}\n{"id":null,"text":"b"}'}, "'id'"),
    "duplicate ids": ({"a.jsonl": b'{"id":1,"text":"a"}\n{"id":1.0,"text":"b"}'}, "already"),
    "half a surrogate": ({"documents.jsonl": b'{"id":1,"text":"\\ud800"}'}, "documents.jsonl:1"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_bad_texts_are_one_line(quickly, tmp_path, capsys, case):
    files, told = TEXTS[case]
    folder = tmp_path / "given"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    check_refused(capsys, told, folder)


def test_nul_bytes_in_a_table_are_told_of_and_not_read(quickly, tmp_path, capsys):
    rows = [{"id": n, "text": make_text("river", n) + "\0"} for n in range(4)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    code, lines, _ = run(capsys, tmp_path / "a.jsonl")
    assert code == 0 and any("4 documents with NUL bytes" in line for line in lines)


def test_a_warning_is_one_line(quickly, reviews, capsys):
    left = reviews.parent / "here/.reviews_vectors-x.thesis-saving"
    left.mkdir()
    embed.main([str(reviews), "--model", LSA])
    lines = [line for line in capsys.readouterr().err.splitlines() if left.name in line]
    assert len(lines) == 1 and lines[0].startswith("warning: ")
    assert warnings.showwarning.__module__ != embed.__name__


def test_very_few_texts_give_no_warning(quickly, tmp_path, capsys, write_dataset):
    embed.main([str(write_dataset(tmp_path / "mine", 3)), "--model", LSA])
    assert "warning" not in capsys.readouterr().err.lower()


def test_nothing_goes_into_a_persons_folder(quickly, tmp_path, capsys, write_dataset, monkeypatch):
    folder = write_dataset(tmp_path / "mine", 4)
    for out in (folder, folder / "vectors"):
        check_refused(capsys, "inside the folder of texts", folder, "--out", out)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.doc").write_text("mine")
    check_refused(capsys, "did not write", folder, "--out", other)
    monkeypatch.chdir(folder)
    check_refused(capsys, "--out", ".")


@pytest.mark.parametrize("name", ["", "store", "store/mine", "data"])
def test_nothing_goes_where_the_store_is(quickly, tmp_path, capsys, write_dataset, artifacts, name):
    folder = write_dataset(tmp_path / "mine", 4)
    check_refused(capsys, "store and data are kept", folder, "--out", artifacts / name)


def test_a_folder_that_cannot_be_written_is_told_of_before_the_work(
    quickly, tmp_path, capsys, write_dataset
):
    folder = write_dataset(tmp_path / "mine", 4)
    check_refused(capsys, "cannot be written", folder, "--out", "/proc/vectors")


def test_a_full_disk_is_told_of_before_the_work(
    quickly, tmp_path, capsys, write_dataset, monkeypatch
):
    folder = write_dataset(tmp_path / "mine", 4)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10**8))
    check_refused(capsys, "are needed", folder)


def test_an_unknown_model_and_a_missing_student_are_one_line(
    quickly, tmp_path, capsys, write_dataset
):
    folder = write_dataset(tmp_path / "mine", 4)
    check_refused(capsys, "'base', 'teacher, cut'", folder, "--model", "bas")
    check_refused(capsys, "no student here", folder, "--student", tmp_path)
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
    folder = write_dataset(tmp_path / "mine", 24)
    for model in (BOTH, CHUNKS):
        out = tmp_path / model.replace(" ", "_")
        code, _, errors = run(capsys, folder, "--out", out, "--model", model)
        assert code == 0, errors
        frame = pd.read_parquet(out / "vectors.parquet")
        encoder = lib.encoders.load(out / "encoder")
        lines = (folder / "documents.jsonl").read_text().splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        vectors = encoder.encode(texts[:4])
        stored = np.stack(frame["vector"][:4])
        assert (vectors * stored).sum(axis=1).min() > 0.995, "but for bfloat16 the same"
        (stretches,) = encoder.encode_chunks(texts[:1])
        assert stretches.vectors.shape[1] == vectors.shape[1]
