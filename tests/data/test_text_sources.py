"""Texts as people keep them become a dataset folder, as they are; else one line says why not."""

import gzip
import json

import pandas as pd
import pyarrow
import pytest
from pyarrow import parquet

from lib.data.dataset_folder import Documents
from lib.data.task_files import read_task
from lib.data.text_sources import find_dataset_folder


def read(path, **options):
    folder, name, _ = find_dataset_folder(path, **options)
    return [(d.id, d.text, d.title) for d in Documents(folder)], folder, name


def read_labels(folder):
    lines = (folder / "tasks/label/train.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row["label"] for row in map(json.loads, lines)}


def test_plain_files_are_documents_by_their_names(tmp_path):
    (tmp_path / "notes/old").mkdir(parents=True)
    (tmp_path / "notes/b.TXT").write_text("\ufeffSecond ü.", encoding="utf-8")
    (tmp_path / "notes/old/a.md").write_text("# First")
    (tmp_path / "notes/.hidden.txt").write_bytes(b"\xff\x00")
    documents, _, name = read(tmp_path / "notes")
    assert documents == [("b.TXT", "Second ü.", "b"), ("old/a.md", "# First", "a")]
    assert name == "notes"


@pytest.mark.parametrize("form", ["csv", "JSONL.GZ", "parquet"])
def test_a_table_is_the_same_in_every_form(tmp_path, form):
    path = tmp_path / f"reviews.{form}"
    rows = [
        {"Text": "One; two\nthree", "ID": "x", "Title": "First", "label": True},
        {"Text": "no", "ID": "z", "label": False},
        {"Text": None, "ID": "y"},
    ]
    if form == "csv":
        text = 'Text;ID;Title;label\n"One; two\nthree";x;First;True\nno;z;;False\n;y;;\n'
        path.write_text(text, encoding="utf-8-sig")
    elif form == "parquet":
        texts = pd.DataFrame(rows)[["ID", "Text"]].apply(lambda column: column.str.encode("utf-8"))
        pd.DataFrame(rows).assign(**texts).to_parquet(path)
    else:
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    documents, folder, name = read(path)
    assert documents == [("x", "One; two\nthree", "First"), ("z", "no", ""), ("y", "", "")]
    assert name == "reviews" and read(tmp_path)[2] == tmp_path.name, "as a person named it"
    task = read_task(folder / "tasks/label")
    assert task.classes == ["False", "True"] and task.labels["train"].tolist() == [1, 0]


VALUES = "007 1e5 2024-01-01 NA null nan True".split()
VALUES += [" a ", 'say "hi"', "a\r\nb", "a,b"]


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_values_come_out_as_they_went_in(tmp_path, mark):
    """Nothing is guessed: no number, date, missing value or separator."""
    table = pd.DataFrame({"id": VALUES, "text": VALUES, "label": VALUES})
    table.to_csv(tmp_path / "a.csv", sep=mark, index=False)
    documents, folder, _ = read(tmp_path / "a.csv")
    assert documents == [(value, value, "") for value in VALUES]
    assert read_labels(folder) == {value: value for value in VALUES}
    table[["text"]].to_csv(tmp_path / "alone.csv", index=False)
    documents, _, _ = read(tmp_path / "alone.csv")
    assert documents == [(str(number), value, "") for number, value in enumerate(VALUES, 1)]


def test_row_numbers_are_no_ids_among_ids(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "2", "text": "One"}\n{"text": "Two"}')
    with pytest.raises(ValueError, match="row 2: expected an id in each row"):
        read(tmp_path / "a.jsonl")


def test_texts_that_quotation_marks_join_are_counted(tmp_path):
    (tmp_path / "a.csv").write_text('text\n"One\nTwo\nthree"\nFour\n')
    _, _, (note,) = find_dataset_folder(tmp_path / "a.csv")
    assert "1 texts are of several lines" in note


def test_columns_of_other_names_can_be_named(tmp_path):
    (tmp_path / "a.csv").write_text("The\u0300me,stars,url\nOne,5,x\nTwo,1,y\n")
    documents, folder, _ = read(tmp_path / "a.csv", text="thème", label="stars")
    assert documents == [("1", "One", ""), ("2", "Two", "")]
    assert read_labels(folder) == {1: "5", 2: "1"}
    with pytest.raises(ValueError, match="no column star$"):
        read(tmp_path / "a.csv", text="thème", label="star")
    (tmp_path / "b.csv").write_text("title,label\nOne,5\n")
    assert read(tmp_path / "b.csv", text="title")[0] == [("1", "One", "")]


def test_of_a_folder_one_set_of_texts_is_read_and_the_rest_is_named(tmp_path):
    tmp_path /= "mine"
    names = ("a.txt", "b.docx", "v/README.md", "v/.thesis-companion.json")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text\none\n")
    (tmp_path / "linked").symlink_to(tmp_path / "v", target_is_directory=True)
    folder, _, notes = find_dataset_folder(tmp_path)
    assert [each.id for each in Documents(folder)] == ["a.txt"], "not what we wrote"
    assert notes == ["mine: note: 2 files not read: b.docx, linked"]
    (tmp_path / "linked").unlink()
    (tmp_path / "c.csv").write_text("text\none\n\ntwo\n")
    folder, _, notes = find_dataset_folder(tmp_path)
    assert [each.id for each in Documents(folder)] == ["1", "2", "3"], "a table comes first"
    assert find_dataset_folder(tmp_path / "c.csv")[1] == "c"
    assert notes == ["mine: note: 2 files not read: a.txt, b.docx"]
    (tmp_path / "d.jsonl").write_text('{"text": "one"}')
    with pytest.raises(ValueError, match=r"expected one table .* found a.txt, b.docx, c.csv"):
        find_dataset_folder(tmp_path)


def test_a_parquet_file_with_two_columns_of_one_name_is_refused(tmp_path):
    columns = [pyarrow.array([each]) for each in ("1", "One", "Two")]
    parquet.write_table(pyarrow.table(columns, ["id", "text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="a.parquet: .* one name: id, text, text"):
        read(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"id,body\n1,One\n", "a.csv: .*:1: text: Field required"),
        ("text\nÄpfel\n".encode("latin-1"), "a.csv: .*0xc4"),
        (b'text\nOne\n"Two\nThree\n', "a.csv: .* line 3: .*unexpected end"),
        (b"text,id\nOne,1\nTwo,2,3\n", "a.csv: .* line 3: .*2 fields, got 3"),
        (b'id,text\n7,"One\nTwo"\n7,Three', "a.csv: .*:2: the id '7' occurs twice"),
        (b"id,text,text\n1,One,Two\n", "a.csv: .*several columns have one name"),
        (b"id,Text,text\n1,One,Two\n", "a.csv: two columns for one of"),
        (b"", "a.csv: .*StopIteration"),
        (b"text,label\nOne,1\nTwo\n", "a.csv: .* line 3: .*2 fields, got 1"),
        (b'id\ttext\n1\t"A\n2\tB\n3\tC"\n4\tD', "a.csv: .* line 2: .*whole rows"),
        (b'text;id\nOne;1\n"Two;2\nSix;3\n\nTen";4', "a.csv: .* line 3: .*whole rows"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_nothing_is_written(tmp_path, content, told, artifacts):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=told) as error:
        read(tmp_path / "a.csv")
    assert "\n" not in str(error.value) and not [*artifacts.rglob("documents.jsonl")]
