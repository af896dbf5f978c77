"""Dataset folders: the same data in any form; what is wrong is one line with the file."""

import json
import math
import os
import pickle
import time
import unicodedata
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from lib import recipes
from lib.config import profiles
from lib.data import dataset_folder
from lib.data.dataset_folder import Documents
from lib.data.files import write_once
from tests.data.conftest import PACK

GOOD = {"id": "a", "text": "one", "title": "T", "year": 1999}
# Letters with two canonical forms, marks that join, ends of lines that are none in JSON.
TEXTS = ["e\u0301 \u2028 \x85", '\u200b\ufeff\r\n\t "\\', "北🥲 한 0", "NA", "null"]
NAMES = {  # ids and groups
    "texts": (["007", "1.0", "A\u030a", "nan", "2024-01-01"], ["e\u0301", None, "", "NA", "1"]),
    "numbers": ([1, 0, -3, 2**40, 7], [1, math.nan, 2**40, None, 0]),
    "mixed": ([1, "é", "01", 2**53 - 1, "x"], [None] * 5),
}


def read(*folders):
    return [(d.id, d.text, d.group) for d in Documents(*folders)]


def write_parquet(folder, ids, groups):
    """In three pieces, one of them empty, with what macOS and Spark leave beside them.

    As pandas has it, a column is of text or of numbers, which are floats where one is missing.
    """
    columns = {"text": pyarrow.array(TEXTS)}
    for name, values in (("id", ids), ("group", groups)):
        values = [None if value != value else value for value in values]
        if all(isinstance(value, int) for value in values if value is not None):
            columns[name] = pyarrow.array(values, pyarrow.float64() if None in values else None)
        else:
            columns[name] = pyarrow.array([v if v is None else str(v) for v in values])
    (folder / "documents").mkdir(parents=True)
    for number, rows in enumerate((slice(2), slice(0), slice(2, 5))):
        part = pyarrow.table({name: column[rows] for name, column in columns.items()})
        parquet.write_table(part, folder / f"documents/{number}.parquet", row_group_size=2)
    (folder / "documents/._0.parquet").write_bytes(b"\0\5\26\7")
    (folder / "documents/_SUCCESS").write_bytes(b"")


@pytest.mark.parametrize("names", NAMES)
def test_documents_are_the_same_in_every_form(tmp_path, write, names):
    ids, groups = NAMES[names]
    rows = zip(ids, TEXTS, groups, strict=True)
    rows = [{"id": name, "text": text, "group": group} for name, text, group in rows]
    for suffix in ("", ".gz", ".xz"):
        write(tmp_path / f"lines{suffix}/documents.jsonl{suffix}", *rows)
    write_parquet(tmp_path / "parquet", ids, groups)
    groups = ["" if group is None or group != group else str(group) for group in groups]
    names = [[unicodedata.normalize("NFC", str(name)) for name in each] for each in (ids, groups)]
    expected = [*zip(names[0], TEXTS, names[1], strict=True)]
    contents = [dataset_folder.content(text) for text in TEXTS]
    for folder in ("lines", "lines.gz", "lines.xz", "parquet"):
        assert read(tmp_path / folder) == expected, folder
        assert Documents(tmp_path / folder).contents.tolist() == contents
    assert read(tmp_path / "lines.gz", tmp_path / "parquet") == 2 * expected


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_json_lines_as_editors_and_archives_leave_them(tmp_path, suffix):
    """A byte order mark where two files were joined, line ends of Windows, joined archives."""
    texts = [f"a\u2028b\x85c {n}" for n in range(4)]
    lines = [json.dumps({"id": n, "text": t}, ensure_ascii=False) for n, t in enumerate(texts)]
    parts = ("\ufeff" + "\r\n".join(part) + "\r\n" for part in (lines[:2], lines[2:]))
    content = b"".join(PACK.get(suffix, bytes)(part.encode()) for part in parts)
    (tmp_path / f"documents.jsonl{suffix}").write_bytes(content)
    assert [row[1] for row in read(tmp_path)] == texts


def test_chosen_documents_are_read_from_several_folders_in_any_process(tmp_path, write):
    for name in "ab":
        rows = ({"id": n, "text": f"{name} {n}"} for n in range(3))
        write(tmp_path / name / "documents.jsonl", *rows)
    documents = Documents(tmp_path / "a", tmp_path / "b")
    assert [(d.source, d.id) for d in documents] == [(name, n) for name in "ab" for n in "012"]
    chosen = pickle.loads(pickle.dumps(documents[np.array([5, 0, 4])]))
    assert [d.text for d in chosen[:2]] == ["b 2", "a 0"] and chosen[-1].source == "b"
    assert chosen.contents.tolist() == [dataset_folder.content(d.text) for d in chosen]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{oops", "documents.jsonl: .* line 2: JSONDecodeError: Expecting property"),
        ("[1]", "documents.jsonl: .* line 2: TypeError"),
        ({"id": "b", "content": "t"}, "documents.jsonl:2: text: Field required"),
        ({"id": None, "text": "t"}, "documents.jsonl:2: id: "),
        (GOOD, "documents.jsonl:2: the id 'a' occurs twice$"),
        (r'{"id": "b", "text": "x \ud83d"}', "documents.jsonl:2: text: "),
        (b'{"id": "b", "text": "Z\xfcrich"}', "documents.jsonl: .* line 2: .* byte 0xfc "),
    ],
)
def test_bad_lines(tmp_path, line, message, write):
    write(tmp_path / "own/documents.jsonl", GOOD, line, {"id": "z", "text": "last"})
    with pytest.raises(ValueError, match=message) as error:
        Documents(tmp_path / "own")
    assert "\n" not in str(error.value) and not [*tmp_path.glob("artifacts/**/*.arrow")]


@pytest.mark.parametrize("name", ["documents.jsonl.xz", "documents.jsonl.gz"])
def test_half_a_file_and_two_forms_are_refused(tmp_path, name, write):
    path = tmp_path / "own" / name
    write(path, *({"id": str(n), "text": f"{n} " * 50} for n in range(200)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{name}: "):
        Documents(tmp_path / "own")
    write(tmp_path / "own/documents.jsonl", GOOD)
    with pytest.raises(ValueError, match=f"found documents.jsonl and {name}"):
        Documents(tmp_path / "own")
    write(tmp_path / "own/documents/b.PARQUET", GOOD)
    with pytest.raises(ValueError, match=r"b.PARQUET: expected only files named .parquet"):
        Documents(tmp_path / "own")


def test_content_is_of_words_in_any_spelling():
    for text in ("", " \n\t", "\u200b\u00ad", "\u0301"):
        assert not dataset_folder.content(text)
    for one, other in (("a  é\n", "a e\u0301"), ("a b!", "“A b”"), ("so\u00adfa", "Sofa")):
        assert dataset_folder.content(one) == dataset_folder.content(other)
    for one, other in (("a b", "a c"), ("?", "!"), ("a 😀", "a 😡")):
        assert dataset_folder.content(one) != dataset_folder.content(other)


def test_a_changed_file_is_read_again(tmp_path, write):
    for text in ("one", "three", "a longer text"):
        write(tmp_path / "own/documents.jsonl", {**GOOD, "text": text})
        assert Documents(tmp_path / "own")[0].text == text


def test_roots_of_a_profile(tmp_path, monkeypatch):
    built, own, other = (tmp_path / name for name in ("built", "own", "other"))
    for folder in (built, own, other):
        (folder / "news").mkdir(parents=True)
    monkeypatch.setattr(recipes, "write_folders", lambda build, home: built)
    build = profiles.load("mini").build

    def find(build, *names):
        return recipes.find_roots(build, names)

    assert find(build, "built", str(own), str(own)) == [built, own]
    assert find(build, str(own)) == [own]
    monkeypatch.setenv("THESIS_DATA", str(other))
    assert find(build, "built", str(own)) == [built, other, own]
    assert find(None, "nowhere") == [other]
    (own / "mine").mkdir()
    assert dataset_folder.find_dataset([built, own], "mine") == own / "mine"
    for name, count in (("news", 2), ("letters", 0)):
        with pytest.raises(ValueError, match=f"{name}: found {count} of this name in"):
            dataset_folder.find_dataset([built, own], name)


def write_once_and_read(folder):
    def write(place):
        time.sleep(0.5)  # the other process waits
        (place / "text").write_text(str(os.getpid()))

    return (write_once(folder, write) / "text").read_text()


def test_a_folder_is_written_whole_by_one_of_two_processes(tmp_path):
    def interrupt(folder):
        (folder / "text").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_once(tmp_path / "own", interrupt)
    assert not [*tmp_path.rglob("text")]
    with ProcessPoolExecutor(2) as pool:
        assert len({*pool.map(write_once_and_read, [tmp_path / "own"] * 2)}) == 1
