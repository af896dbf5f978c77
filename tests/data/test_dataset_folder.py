"""Dataset folders: every kind of damage is one line with file, line number and reason."""

import json

import pyarrow
import pytest
from pyarrow import parquet

from lib.data import dataset_folder
from lib.data.dataset_folder import Documents

GOOD = {"id": "a", "text": "one", "title": "T", "year": 1999}


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.xz"])
def test_a_row_has_its_folder_and_its_place(tmp_path, name, write):
    write(tmp_path / "own" / name, GOOD, {"id": 7, "text": "zwölf"})
    documents = Documents(tmp_path / "own")
    assert len(documents) == 2 and documents[1].source == "own"
    assert dataset_folder.read_row(documents.files, 1)[0].endswith(f"{name}:2")


def test_reads_parquet_in_pieces_with_their_places(tmp_path):
    (tmp_path / "own/documents").mkdir(parents=True)
    for piece, ids in enumerate((["a", "b"], ["c", "a"])):
        table = pyarrow.table({"id": ids, "text": ["one two", "x"], "url": ["", ""]})
        parquet.write_table(table, tmp_path / f"own/documents/{piece}.parquet")
    told = r"1\.parquet:2: the id 'a' is that of 0\.parquet:1 already$"
    with pytest.raises(ValueError, match=told):
        Documents(tmp_path / "own")
    (tmp_path / "own/documents/1.parquet").write_bytes(b"PAR1 cut off")
    with pytest.raises(ValueError, match=r"1\.parquet: not a whole Parquet file; copy it again"):
        Documents(tmp_path / "own")
    (tmp_path / "own/documents/1.parquet").unlink()
    assert [d.text for d in Documents(tmp_path / "own")] == ["one two", "x"]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{oops", r"documents\.jsonl:2: not JSON"),
        ("[1]", r"documents\.jsonl:2: expected an object .* got list"),
        ("", r"documents\.jsonl:2: an empty line; remove it$"),
        ({"id": "b", "content": "t"}, r"documents\.jsonl:2: 'text': missing; found: id, content$"),
        ('{"id": "b", "text": NaN}', r"documents\.jsonl:2: 'text': .*, got null$"),
        ({"id": "b", "text": 3}, r"documents\.jsonl:2: 'text': "),
        ({"id": "", "text": "t"}, r"documents\.jsonl:2: 'id': "),
        ({"id": True, "text": "t"}, r"documents\.jsonl:2: 'id': "),
        (GOOD, r"documents\.jsonl:2: the id 'a' is that of documents\.jsonl:1 already$"),
        (
            '{"id": "b", "text": "x", "text": "y"}',
            r"documents\.jsonl:2: not JSON: the key 'text' occurs twice",
        ),
        (r'{"id": "b", "text": "x \ud83d"}', r"documents\.jsonl:2: 'text': "),
        (r'{"id": "\udc00", "text": "x"}', r"documents\.jsonl:2: 'id': "),
        ("[" * 100_000, r"documents\.jsonl:2: "),
        (
            b'{"id": "b", "text": "Z\xfcrich"}',
            r"documents\.jsonl:2: not JSON: .* byte 0xfc in position 22.* save .* as UTF-8$",
        ),
    ],
)
def test_bad_lines(tmp_path, line, message, write):
    write(tmp_path / "own/documents.jsonl", GOOD, line, {"id": "z", "text": "last"})
    with pytest.raises(ValueError, match=message) as error:
        Documents(tmp_path / "own")
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_bad_bytes_far_into_a_file_name_their_own_line(tmp_path, write):
    """Text decoded in blocks of 8 kB would name a line a hundred lines before."""
    rows = [{"id": n, "text": "word " * 20} for n in range(500)]
    write(tmp_path / "own/documents.jsonl", *rows, b'{"id": "b", "text": "\xff"}')
    with pytest.raises(ValueError, match=r"documents\.jsonl:501: not JSON: 'utf-8' codec can't"):
        Documents(tmp_path / "own")


@pytest.mark.parametrize("name", ["documents.jsonl.xz", "documents.jsonl.gz"])
def test_truncated_archive(tmp_path, name, write):
    path = tmp_path / "own" / name
    write(path, *({"id": str(n), "text": f"{n} " * 50} for n in range(200)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=rf"{name}.*: after .* the archive is cut off or damaged"):
        Documents(tmp_path / "own")


def test_empty_missing_and_two_forms(tmp_path, write):
    write(tmp_path / "own/documents.jsonl", GOOD)
    with pytest.raises(ValueError, match="other: no such dataset folder"):
        Documents(tmp_path / "other")
    write(tmp_path / "own/documents.jsonl.gz", GOOD)
    with pytest.raises(ValueError, match=r"expected one of documents.jsonl"):
        Documents(tmp_path / "own")
    (tmp_path / "own/documents.jsonl.gz").unlink()
    (tmp_path / "own/documents.jsonl").write_text("")
    with pytest.raises(ValueError, match="at least one line, the file is empty"):
        Documents(tmp_path / "own")


def test_a_text_without_a_token_has_no_content():
    for text in ("a", "ß", "。"):
        assert dataset_folder.has_token(text) and dataset_folder.content(text)
    for text in ("", " \n\t", "\u200b\u00ad", "\u0301"):
        assert not dataset_folder.has_token(text) and not dataset_folder.content(text)
    assert dataset_folder.content("a  b\n") == dataset_folder.content("a b")
    assert dataset_folder.content("a b") != dataset_folder.content("A b")


def test_a_changed_file_is_read_again_and_a_damaged_copy_is_made_again(tmp_path, write):
    path = tmp_path / "own/documents.jsonl"
    write(path, GOOD)
    assert Documents(tmp_path / "own")[0].text == "one"
    path.write_text(json.dumps({**GOOD, "text": "two"}))
    assert Documents(tmp_path / "own")[0].text == "two"
    copies = list((tmp_path / "artifacts/data/arrow").glob("*/*.arrow"))
    assert len(copies) == 2
    for damage in (
        lambda content: content[:100],
        lambda content: content.replace(b"two", b"xqz"),
        lambda _: b"",
    ):
        for copy in copies:
            copy.write_bytes(damage(copy.read_bytes()))
        with pytest.warns(UserWarning, match="is damaged and is written again$"):
            assert Documents(tmp_path / "own")[0].text == "two"
        assert Documents(tmp_path / "own")[0].text == "two"
