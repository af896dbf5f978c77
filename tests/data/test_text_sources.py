"""Texts as people keep them become a dataset folder, and what cannot be read is one line."""

import gzip
import json

import pandas as pd
import pytest

from lib.data.dataset_folder import Documents
from lib.data.text_sources import find_dataset_folder


def read(path, **options):
    folder, name = find_dataset_folder(path, **options)
    return [*Documents(folder)], folder, name


def test_a_dataset_folder_is_taken_as_it_is(tmp_path, write):
    write(tmp_path / "mine/documents.jsonl", {"id": 1, "text": "One."})
    assert find_dataset_folder(tmp_path / "mine") == (tmp_path / "mine", "mine")


def test_plain_files_are_documents_by_their_names(tmp_path):
    (tmp_path / "notes/old").mkdir(parents=True)
    (tmp_path / "notes/b.txt").write_text("Second.")
    (tmp_path / "notes/old/a.md").write_text("# First")
    (tmp_path / "notes/c.TXT").write_bytes("Third ü.".encode("utf-16"))
    for other in (".hidden.txt", "image.png"):
        (tmp_path / "notes" / other).write_bytes(b"\xff\x00")
    documents, _, name = read(tmp_path / "notes")
    assert [(d.id, d.text, d.title) for d in documents] == [
        ("b.txt", "Second.", "b"),
        ("c.TXT", "Third ü.", "c"),
        ("old/a.md", "# First", "a"),
    ]
    assert name == "notes"


CSV = 'Text;ID;Title;label\n"One; two\nthree";x;First;a\nFour;y;;\n'


@pytest.mark.parametrize("form", ["csv", "jsonl", "jsonl.gz", "parquet"])
def test_a_table_is_the_same_in_every_form(tmp_path, form):
    path = tmp_path / f"reviews.{form}"
    rows = [
        {"Text": "One; two\nthree", "ID": "x", "Title": "First", "label": "a"},
        {"Text": "Four", "ID": "y", "Title": "", "label": ""},
    ]
    if form == "csv":
        path.write_text(CSV, encoding="utf-8-sig")
    elif form == "parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        lines = "\n".join(map(json.dumps, rows)).encode()
        path.write_bytes(gzip.compress(lines) if form.endswith("gz") else lines)
    documents, folder, name = read(path)
    assert [(d.id, d.text, d.title) for d in documents] == [
        ("x", "One; two\nthree", "First"),
        ("y", "Four", ""),
    ]
    assert name == "reviews" and find_dataset_folder(tmp_path)[0] == folder
    labels = (folder / "tasks/label/train.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in labels] == [{"id": "x", "label": "a"}]


def test_columns_of_other_names_can_be_named_and_ids_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text("body,stars\nOne,5\nTwo,1\n")
    documents, folder, _ = read(tmp_path / "a.csv", text="body", label="stars")
    assert [(d.id, d.text) for d in documents] == [("1", "One"), ("2", "Two")]
    assert len((folder / "tasks/label/train.jsonl").read_text().splitlines()) == 2


def test_it_is_written_again_only_when_a_file_has_changed(tmp_path):
    (tmp_path / "a.csv").write_text("text\nOne\n")
    first = read(tmp_path / "a.csv")[1]
    assert read(tmp_path / "a.csv")[1] == first
    (tmp_path / "a.csv").write_text("text\nTwo\n")
    documents, folder, _ = read(tmp_path / "a.csv")
    assert folder != first and documents[0].text == "Two"
    assert [path.name for path in tmp_path.iterdir() if path.name != "artifacts"] == ["a.csv"]


# name of the file, what it holds, what the one line says
WRONG = {
    "no text column": ("a.csv", b"id,body\n1,One\n", "id, body"),
    "another encoding": ("a.csv", "text\nÄpfel\n".encode("latin-1"), "iconv"),
    "an open quotation mark": ("a.csv", b'text\n"One\nTwo\n', "quotation mark"),
    "too many values": ("a.csv", b"text,id\nOne,1\nTwo,2,3\n", "a.csv:3"),
    "a header alone": ("a.csv", b"text\n", "at least one row"),
    "nothing at all": ("a.csv", b"", "header"),
    "a column twice": ("a.csv", b"text,text\nOne,Two\n", "stands twice"),
    "an id twice": ("a.csv", b"id,text\n7,One\n8,Two\n7,Three\n", "is that of a.csv:2"),
    "half a surrogate": ("a.jsonl", b'{"text": "\\ud800"}', "a.jsonl:1"),
    "no id in a row": ("a.jsonl", b'{"id": 1, "text": "One"}\n{"text": "Two"}', "a.jsonl:2"),
    "ids of mixed types": ("a.jsonl", b'{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}', "'1'"),
    "a list as id": ("a.jsonl", b'{"id": [1], "text": "One"}', "a.jsonl:1: 'id'"),
    "no JSON": ("a.jsonl", b"{text: One}", "not JSON"),
    "no Parquet": ("a.parquet", b"One", "not a whole Parquet file"),
    "NUL bytes": ("texts/a.txt", b"O\0n\0e\0", "NUL"),
    "a file in another encoding": ("texts/a.txt", "Äpfel".encode("latin-1"), "iconv"),
    "no texts": ("texts/a.png", b"One", "found a.png"),
    "another kind of file": ("a.docx", b"One", "expected a folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(tmp_path, case, artifacts):
    name, content, told = WRONG[case]
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(ValueError) as error:
        read(path.parent if name.startswith("texts/") else path)
    line = str(error.value)
    assert told in line and "\n" not in line and path.parent.name in line
    assert not [*artifacts.rglob("documents.jsonl")]


@pytest.mark.parametrize("value", [None, ["One", "Two"], {"a": 1}, 5])
def test_a_parquet_with_nested_or_missing_texts_is_named_by_row(tmp_path, value):
    pd.DataFrame({"id": [1, 2], "text": pd.Series([value, value], dtype=object)}).to_parquet(
        tmp_path / "a.parquet"
    )
    with pytest.raises(ValueError, match=r"a\.parquet:1: 'text'"):
        read(tmp_path / "a.parquet")


def test_several_tables_and_a_root_of_folders_are_named(tmp_path, write):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("text\nOne\n")
    with pytest.raises(ValueError, match=r"name one of them: a\.csv, b\.csv"):
        find_dataset_folder(tmp_path)
    write(tmp_path / "root/inner/documents.jsonl", {"id": 1, "text": "One."})
    with pytest.raises(ValueError, match="name one of them: inner"):
        find_dataset_folder(tmp_path / "root")
    with pytest.raises(ValueError, match="no such file"):
        find_dataset_folder(tmp_path / "nowhere")
