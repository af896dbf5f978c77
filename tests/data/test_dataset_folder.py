"""Dataset folders: the same data in any form; what is wrong is one line with file and line."""

import gzip
import itertools
import json
import lzma
import math
import tempfile
import unicodedata
from pathlib import Path

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from lib.data import dataset_folder
from lib.data.dataset_folder import Documents

GOOD = {"id": "a", "text": "one", "title": "T", "year": 1999}
FIELDS = ["id", "text", "title", "group"]
# Letters that have two canonical forms, marks that join, ends of lines that are none in JSON.
CHARACTERS = st.sampled_from([*'aZßéñÅ한e\u0301A\u030a\u2028\x85\u200b\ufeff\r\n\t "\\北🥲0'])
WORDS = st.text(CHARACTERS, min_size=1, max_size=6)
NAMES = st.one_of(WORDS, st.integers(-3, 2**70))


@st.composite
def list_rows(draw):
    """Documents with distinct ids, of which all, some or none have titles and groups."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=6, unique_by=lambda value: compose(str(value))))
    optional = st.one_of(st.none(), st.just(math.nan), st.just(""), NAMES)
    row = st.fixed_dictionaries({"text": WORDS}, optional={"title": optional, "group": optional})
    return [{"id": name, **draw(row)} for name in ids]


def compose(text):
    return unicodedata.normalize("NFC", text)


def expect(rows):
    """Names are composed text, and what is missing is empty."""

    def name(value):
        return "" if value is None or value != value else compose(str(value))

    return [(name(r["id"]), r["text"], name(r.get("title")), name(r.get("group"))) for r in rows]


def read(folder):
    return [(d.id, d.text, d.title, d.group) for d in Documents(folder)]


def write_json_lines(folder, rows, suffix):
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    (folder / f"documents.jsonl{suffix}").write_bytes(pack(text.encode()))


def write_parquet(folder, rows, kind, cut):
    """In two pieces, with what macOS and Spark leave beside them."""
    (folder / "documents").mkdir()
    for number, (start, end) in enumerate(itertools.pairwise([0, min(cut, len(rows)), len(rows)])):
        part = list_columns(rows[start:end] or rows, kind)
        part = part if end > start else part.slice(0, 0)
        parquet.write_table(part, folder / f"documents/{number}.parquet", row_group_size=2)
    (folder / "documents/._0.parquet").write_bytes(b"\0\5\26\7")
    (folder / "documents/_SUCCESS").write_bytes(b"")


def list_columns(rows, kind):
    """As pandas has them: whole numbers become floats where one is missing."""
    table = {}
    for field in FIELDS:
        values = [row.get(field) for row in rows]
        values = [None if value != value else value for value in values]
        known = [value for value in values if value is not None]
        if kind == "numbers" and all(type(v) is int and abs(v) < 2**53 for v in known):
            table[field] = pyarrow.array(values, pyarrow.float64() if None in values else None)
        elif known or field in FIELDS[:2]:
            array = pyarrow.array([None if value is None else str(value) for value in values])
            table[field] = array.dictionary_encode() if kind == "dictionary" else array
    return pyarrow.table(table)


@settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=list_rows(), cut=st.integers(0, 6))
def test_documents_are_the_same_in_every_form(rows, cut):
    contents = []
    for form in ("", ".gz", ".xz", "text", "numbers", "dictionary"):
        with tempfile.TemporaryDirectory() as place:
            if form.strip(".gxz"):
                write_parquet(Path(place), rows, form, cut)
            else:
                write_json_lines(Path(place), rows, form)
            assert read(Path(place)) == expect(rows), form
            contents.append(Documents(Path(place)).contents.tolist())
    assert all(each == contents[0] for each in contents)


def test_json_lines_as_editors_and_archives_leave_them(tmp_path):
    """A byte order mark where two files were joined, line ends of Windows, joined archives."""
    texts = [f"a\u2028b\x85c {n}" for n in range(4)]
    lines = [json.dumps({"id": n, "text": t}, ensure_ascii=False) for n, t in enumerate(texts)]
    parts = ["\ufeff" + "\r\n".join(part) + "\r\n" for part in (lines[:2], lines[2:])]
    first, second = (part.encode() for part in parts)
    forms = {
        "plain/documents.jsonl": first + second,
        "gz/documents.jsonl.gz": gzip.compress(first) + gzip.compress(second) + bytes(512),
        "xz/documents.jsonl.xz": lzma.compress(first) + lzma.compress(second),
        # Python's own reader ends at the zeros (python/cpython#88300).
        "padded/documents.jsonl.xz": lzma.compress(first) + bytes(4) + lzma.compress(second),
    }
    for name, content in forms.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
        assert [row[1] for row in read((tmp_path / name).parent)] == texts, name


@pytest.mark.parametrize(
    "line, message",
    [
        ("{oops", "documents.jsonl:2: not JSON"),
        ("[1]", "documents.jsonl:2: expected an object .* got list"),
        ("", "documents.jsonl:2: not JSON"),
        ({"id": "b", "content": "t"}, "documents.jsonl:2: 'text': missing; found: id, content$"),
        ('{"id": "b", "text": NaN}', "documents.jsonl:2: 'text': .*, got null$"),
        ({"id": "b", "text": 3}, "documents.jsonl:2: 'text': "),
        ({"id": "", "text": "t"}, "documents.jsonl:2: 'id': "),
        ({"id": True, "text": "t"}, "documents.jsonl:2: 'id': "),
        (GOOD, "documents.jsonl:2: the id 'a' occurs twice$"),
        ('{"id": "b", "text": "x", "text": "y"}', "documents.jsonl:2: .* a key occurs twice"),
        (r'{"id": "b", "text": "x \ud83d"}', "documents.jsonl:2: 'text': "),
        ("[" * 100_000, "documents.jsonl:2: "),
        (b'{"id": "b", "text": "Z\xfcrich"}', "documents.jsonl:2: .* byte 0xfc .* UTF-8$"),
    ],
)
@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_bad_lines(tmp_path, line, message, suffix, write):
    write(tmp_path / f"own/documents.jsonl{suffix}", GOOD, line, {"id": "z", "text": "last"})
    message = message.replace(".jsonl", rf"\.jsonl{suffix}")
    with pytest.raises(ValueError, match=message) as error:
        Documents(tmp_path / "own")
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def string_of(bytes_):
    """A string column that holds these bytes, as writers that do not look at them make it."""
    values = pyarrow.array(bytes_, pyarrow.binary())
    return pyarrow.StringArray.from_buffers(len(values), *values.buffers()[1:])


PARQUET = [
    ({"doc_id": ["a"], "content": ["b"]}, r"1\.parquet:1: 'id': missing; found: doc_id, content$"),
    ({"id": ["a", "b"], "text": string_of([b"fine", b"caf\xe9"])}, r"1\.parquet: .*byte 0xe9"),
    ({"id": ["a", None], "text": ["a", "b"]}, r"1\.parquet:2: 'id': .*, got null$"),
    ({"id": [1.0, math.nan], "text": ["a", "b"]}, r"1\.parquet:2: 'id': .*, got null$"),
    ({"id": ["a", "b"], "text": ["a", None]}, r"1\.parquet:2: 'text': .*, got null$"),
    ({"id": ["a", "b"], "text": [["a"], []]}, r"1\.parquet:1: 'text': .*string"),
    ({"id": ["a", "0"], "text": ["a", "b"]}, r"1\.parquet:2: the id '0' occurs twice$"),
    ({"id": [], "text": []}, None),
    ({}, None),
]


@pytest.mark.parametrize("table, message", PARQUET)
def test_bad_parquet_is_named_by_file_and_row_and_empty_parts_are_read(tmp_path, table, message):
    (tmp_path / "own/documents").mkdir(parents=True)
    first = pyarrow.table({"id": ["0"], "text": ["words"]})
    parquet.write_table(first, tmp_path / "own/documents/0.parquet")
    parquet.write_table(pyarrow.table(table), tmp_path / "own/documents/1.parquet")
    if message is None:
        assert len(Documents(tmp_path / "own")) == 1
        return
    with pytest.raises(ValueError, match=message) as error:
        Documents(tmp_path / "own")
    assert "\n" not in str(error.value) and "0.parquet" not in str(error.value)


def test_a_column_that_stands_twice(tmp_path):
    (tmp_path / "own/documents").mkdir(parents=True)
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 3, ["id", "text", "text"])
    parquet.write_table(twice, tmp_path / "own/documents/0.parquet")
    with pytest.raises(ValueError, match=r"0\.parquet: a column occurs twice among id, text, text"):
        Documents(tmp_path / "own")


@pytest.mark.parametrize("name", ["documents.jsonl.xz", "documents.jsonl.gz"])
def test_half_a_file(tmp_path, name, write):
    path = tmp_path / "own" / name
    write(path, *({"id": str(n), "text": f"{n} " * 50} for n in range(200)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=f"{name}: "):
        Documents(tmp_path / "own")
    assert not [*tmp_path.glob("artifacts/**/*.arrow")]


def test_missing_and_two_forms(tmp_path, write):
    with pytest.raises(ValueError, match="other: expected one of documents.jsonl, .* found none"):
        Documents(tmp_path / "other")
    write(tmp_path / "own/documents.jsonl", GOOD)
    write(tmp_path / "own/documents.jsonl.gz", GOOD)
    with pytest.raises(ValueError, match="found documents.jsonl and documents.jsonl.gz"):
        Documents(tmp_path / "own")


def test_content_is_of_words_in_any_spelling():
    for text in ("a", "ß", "。"):
        assert dataset_folder.content(text)
    for text in ("", " \n\t", "\u200b\u00ad", "\u0301"):
        assert not dataset_folder.content(text)
    assert dataset_folder.content("a  é\n") == dataset_folder.content("a e\u0301")
    assert dataset_folder.content("a b") != dataset_folder.content("A b")


def test_a_changed_file_is_read_again(tmp_path, write):
    path = tmp_path / "own/documents.jsonl"
    for text in ("one", "three", "a longer text"):
        write(path, {**GOOD, "text": text})
        documents = Documents(tmp_path / "own")
        assert documents[0].text == text and documents[0].source == "own"
    assert len([*tmp_path.glob("artifacts/data/arrow/*.arrow")]) == 3
