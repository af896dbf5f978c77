"""Texts as people keep them become a dataset folder, and what cannot be read is one line."""

import gzip
import json

import pandas as pd
import pytest

from lib.data import text_sources
from lib.data.dataset_folder import Documents
from lib.data.text_sources import find_dataset_folder


def read(path, **options):
    folder, name, _ = find_dataset_folder(path, **options)
    return [*Documents(folder)], folder, name


def test_a_dataset_folder_is_taken_as_it_is(tmp_path, write):
    write(tmp_path / "mine/documents.jsonl", {"id": 1, "text": "One."})
    assert find_dataset_folder(tmp_path / "mine") == (tmp_path / "mine", "mine", [])


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


CSV = 'Text;ID;Title;label\n"One; two\nthree";x;First;True\n;y;;\n'


@pytest.mark.parametrize("form", ["csv", "CSV", "jsonl", "JSONL.GZ", "parquet", "PARQUET"])
def test_a_table_is_the_same_in_every_form(tmp_path, form):
    path = tmp_path / f"reviews.{form}"
    rows = [
        {"Text": "One; two\nthree", "ID": "x", "Title": "First", "label": True},
        {"Text": None, "ID": "y"},
    ]
    if form.lower() == "csv":
        path.write_text(CSV, encoding="utf-8-sig")
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
    labels = (folder / "tasks/label/train.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in labels] == [{"id": "x", "label": "True"}]


def test_columns_of_other_names_can_be_named_and_ids_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text("The\u0300me,stars\nOne,5\nTwo,1\n")  # é of two characters
    documents, folder, _ = read(tmp_path / "a.csv", text="thème", label="stars")
    assert [(d.id, d.text) for d in documents] == [("1", "One"), ("2", "Two")]
    assert len((folder / "tasks/label/train.jsonl").read_text().splitlines()) == 2


def test_columns_that_are_not_read_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "One"}\n{"text": "Two", "labels": 1, "TEXT": ""}\n')
    _, _, (note,) = find_dataset_folder(tmp_path / "a.jsonl")
    assert "a.jsonl" in note and "'labels', 'TEXT'" in note
    assert find_dataset_folder(tmp_path).notes == [note]
    assert "'labels'" not in "".join(find_dataset_folder(tmp_path, label="Labels").notes)


def test_tables_of_one_beginning_have_names_of_their_own(tmp_path):
    for name in ("a.2022.csv", "a.2023.jsonl.gz"):
        text = gzip.compress(b'{"text": "One"}') if name.endswith("gz") else b"text\nOne\n"
        (tmp_path / name).write_bytes(text)
        assert read(tmp_path / name)[2] == name[:6]


# what lies in a folder; which of it is read, if anything; what the note or the error names
FOLDERS = {
    "what is about a table": (["a.csv", "README.md", "LICENSE.txt"], "a.csv", "'README.md'"),
    "a table below": (["data/a.csv", "Readme.md"], "data/a.csv", "'Readme.md'"),
    "a table called as documents are": (["documents.csv"], "documents.csv", ""),
    "a list of what is known of files": (["list.csv", "b.txt", "README.md"], "b.txt", "'list.csv'"),
    "files of other kinds": (["a.txt", "b.docx", "c/d.pdf"], "a.txt", "'b.docx', 'c/d.pdf'"),
    "what this project wrote": (["a.txt", "v/README.md", "v/seal.json"], "a.txt", ""),
    "a table and notes": (["a.csv", "b.txt", "c/b.md"], None, "a.csv, the .txt and .md files"),
    "tables in several folders": (["a/a.csv", "b/a.csv", "README.md"], None, "a/a.csv, b/a.csv"),
    "dataset folders": (["d/documents.jsonl", "d/README.md", "d/b.md"], None, "them: d"),
    "a dataset folder and notes": (["d/e/documents.jsonl", "b.md", "c.md"], None, "them: d/e, the"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_of_a_folder_one_set_of_texts_is_read_and_the_rest_is_named(tmp_path, case):
    names, expected, told = FOLDERS[case]
    folder = tmp_path / "given"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("name,stars\n" if name == "list.csv" else f"text\n{name}\n")
    if expected is None:
        with pytest.raises(ValueError, match="several sets of texts") as error:
            find_dataset_folder(folder)
        assert told in str(error.value)
        return
    documents, _, _ = read(folder)
    assert len(documents) == 1 and expected in documents[0].text
    assert told in "".join(find_dataset_folder(folder).notes)
    assert bool(told) == bool(find_dataset_folder(folder).notes)


def test_columns_are_named_of_tables_alone(tmp_path, write):
    write(tmp_path / "mine/documents.jsonl", {"id": 1, "text": "One."})
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/a.txt").write_text("One.")
    for folder in ("mine", "plain"):
        with pytest.raises(ValueError, match=f"{folder}: --label topic"):
            find_dataset_folder(tmp_path / folder, label="topic")


def test_it_is_written_again_when_the_code_that_reads_has_changed(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("text\nOne\n")
    first = find_dataset_folder(tmp_path / "a.csv").folder
    whole = text_sources.fingerprint_code

    def change(modules, stop):
        assert "lib.data.dataset_folder" in modules
        return whole(modules, stop) | {"lib.data.dataset_folder": "changed"}

    monkeypatch.setattr(text_sources, "fingerprint_code", change)
    assert find_dataset_folder(tmp_path / "a.csv").folder != first


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
    "an id twice": (
        "a.csv",
        b'id,text\n7,"One\nTwo"\n7,"Three\nFour"',
        "a.csv:4: the id '7' is that of a.csv:2",
    ),
    "half a surrogate": ("a.jsonl", b'{"text": "One \\ud800"}', 'got "\\ud800'),
    "no id in a row": ("a.jsonl", b'{"id": 1, "text": "One"}\n{"text": "Two"}', "a.jsonl:2"),
    "no id in the first": ("a.jsonl", b'{"text": "One"}\n{"id": 1, "text": "Two"}', "a.jsonl:1"),
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


@pytest.mark.parametrize("value", [["One", "Two"], {"a": 1}, 5])
def test_a_parquet_with_nested_texts_or_numbers_is_named_by_row(tmp_path, value):
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
