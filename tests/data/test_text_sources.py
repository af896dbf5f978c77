"""Texts as people keep them become a dataset folder, as they are; else one line says why not."""

import gzip
import json

import pandas as pd
import pytest

from lib.data.dataset_folder import Documents
from lib.data.text_sources import find_dataset_folder


def read(path, **options):
    folder, name, _ = find_dataset_folder(path, **options)
    return [*Documents(folder)], folder, name


def read_labels(folder):
    lines = (folder / "tasks/label/train.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row["label"] for row in map(json.loads, lines)}


def test_plain_files_are_documents_by_their_names(tmp_path):
    (tmp_path / "notes/old").mkdir(parents=True)
    (tmp_path / "notes/b.txt").write_text("Second.\r\n", newline="")
    (tmp_path / "notes/old/a.md").write_text("# First")
    (tmp_path / "notes/c.TXT").write_bytes("Third ü.".encode("utf-16"))
    (tmp_path / "notes/.hidden.txt").write_bytes(b"\xff\x00")
    documents, _, name = read(tmp_path / "notes")
    assert [(d.id, d.text, d.title) for d in documents] == [
        ("b.txt", "Second.\r\n", "b"),
        ("c.TXT", "Third ü.", "c"),
        ("old/a.md", "# First", "a"),
    ]
    assert name == "notes"


@pytest.mark.parametrize("form", ["csv", "JSONL.GZ", "parquet"])
def test_a_table_is_the_same_in_every_form(tmp_path, form):
    path = tmp_path / f"reviews.{form}"
    rows = [
        {"Text": "One; two\nthree", "ID": "x", "Title": "First", "label": True},
        {"Text": None, "ID": "y"},
    ]
    if form.lower() == "csv":
        text = 'Text;ID;Title;label\n"One; two\nthree";x;First;True\n;y;;\n'
        path.write_text(text, encoding="utf-8-sig")
    elif form.lower() == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        lines = "\n".join(map(json.dumps, rows[::-1])).encode()
        path.write_bytes(gzip.compress(lines) if form.endswith("GZ") else lines)
    documents, folder, name = read(path)
    assert sorted((d.id, d.text, d.title) for d in documents) == [
        ("x", "One; two\nthree", "First"),
        ("y", "", ""),
    ]
    assert name == "reviews" and read(tmp_path)[2] == tmp_path.name, "as a person named it"
    assert read_labels(folder) == {"x": "True"}


VALUES = [
    "007",
    "1e5",
    "2024-01-01",
    "NA",
    "null",
    "nan",
    "True",
    " a ",
    'say "hi"',
    "a\r\nb",
    "a,b",
]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_values_come_out_as_they_went_in(tmp_path, mark):
    """Nothing is guessed: no number, date, missing value or separator."""
    table = pd.DataFrame({"id": VALUES, "text": VALUES, "label": VALUES})
    table.to_csv(tmp_path / "a.csv", sep=mark, index=False)
    documents, folder, _ = read(tmp_path / "a.csv")
    assert [(d.id, d.text) for d in documents] == [(value, value) for value in VALUES]
    assert read_labels(folder) == {value: value for value in VALUES}
    table[["text"]].to_csv(tmp_path / "alone.csv", index=False)
    documents, _, _ = read(tmp_path / "alone.csv")
    assert [(d.id, d.text) for d in documents] == [(str(n), v) for n, v in enumerate(VALUES, 1)]


def test_columns_of_other_names_can_be_named(tmp_path):
    (tmp_path / "a.csv").write_text("The\u0300me,stars,url\nOne,5,x\nTwo,1,y\n")
    documents, folder, _ = read(tmp_path / "a.csv", text="thème", label="stars")
    assert [(d.id, d.text) for d in documents] == [("1", "One"), ("2", "Two")]
    assert read_labels(folder) == {"1": "5", "2": "1"}
    with pytest.raises(ValueError, match="no column star;"):
        read(tmp_path / "a.csv", text="thème", label="star")


def test_of_a_folder_one_set_of_texts_is_read_and_the_rest_is_named(tmp_path):
    names = ("a.txt", "b.docx", "v/README.md", "v/.thesis-companion.json")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text\none\n")
    folder, _, notes = find_dataset_folder(tmp_path)
    assert [each.id for each in Documents(folder)] == ["a.txt"], "not what we wrote"
    assert notes == [f"{tmp_path.name}: note: files not read: b.docx"]
    (tmp_path / "c.csv").write_text("text\none\n")
    with pytest.raises(ValueError, match=r"expected one table .* found a.txt, b.docx, c.csv"):
        find_dataset_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", b"id,body\n1,One\n", "a.csv:2: text: Field required"),
        ("a.csv", "text\nÄpfel\n".encode("latin-1"), "a.csv: .*0xc4"),
        ("a.csv", b'text\nOne\n"Two\nThree\n', "a.csv: after line 2: unexpected end"),
        ("a.csv", b"text,id\nOne,1\nTwo,2,3\n", "a.csv:3: expected 2 values"),
        ("a.csv", b"text,id\nOne,1\nTwo\n", "a.csv:3: expected 2 values"),
        ("a.csv", b"text,Text\nOne,Two\n", "two columns have the same name"),
        ("a.csv", b'id,text\n7,"One\nTwo"\n7,Three', "a.csv:4: the id '7' occurs twice"),
        ("a.jsonl", b'{"id": 1, "text": "One"}\n{"text": "Two"}', "a.jsonl:2: no id, or the first"),
        ("a.jsonl", b'{"text": 5}', "a.jsonl:1: text: "),
    ],
)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(
    tmp_path, name, content, told, artifacts
):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=told) as error:
        read(tmp_path / name)
    assert "\n" not in str(error.value)
    assert not [*artifacts.rglob("documents.jsonl")]
