"""Dataset folders: every kind of damage is one line with file, line number and reason."""

import gzip
import json
import lzma

import pytest

from lib.data import dataset_folder


def written(tmp_path, *lines, name="documents.jsonl"):
    (tmp_path / "own").mkdir(exist_ok=True)
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines).encode()
    packed = gzip.compress(text) if name.endswith("gz") else lzma.compress(text) if name.endswith("xz") else text
    (tmp_path / "own" / name).write_bytes(packed)
    return tmp_path


GOOD = {"id": "a", "text": "one", "title": "T", "year": 1999}


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz", "documents.jsonl.xz"])
def test_reads_all_three_forms(tmp_path, name):
    found = list(dataset_folder.documents(written(tmp_path, GOOD, {"id": 7, "text": "zwölf"}, name=name), "own"))
    assert [(d.id, d.text, d.title) for d in found] == [("a", "one", "T"), ("7", "zwölf", "")]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{oops", r"documents\.jsonl:2: not JSON"),
        ("[1]", r"documents\.jsonl:2: expected an object .* got list"),
        ("", r"documents\.jsonl:2: not JSON"),
        ({"id": "b"}, r"documents\.jsonl:2: 'text' is missing"),
        ({"id": "b", "text": " \n"}, r"documents\.jsonl:2: the text of document 'b' is empty"),
        ({"id": "b", "text": 3}, r"documents\.jsonl:2: 'text' should be text, got int"),
        (GOOD, r"documents\.jsonl:2: id 'a' occurs a second time, first on line 1"),
    ],
)
def test_bad_lines(tmp_path, line, message):
    root = written(tmp_path, GOOD, line, {"id": "z", "text": "last"})
    with pytest.raises(ValueError, match=message) as error:
        list(dataset_folder.documents(root, "own"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["documents.jsonl.xz", "documents.jsonl.gz"])
def test_truncated_archive(tmp_path, name):
    root = written(tmp_path, *({"id": str(n), "text": f"{n} " * 50} for n in range(200)), name=name)
    path = tmp_path / "own" / name
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match=rf"{name}: after line \d+: the archive is truncated or damaged"):
        list(dataset_folder.documents(root, "own"))


def test_wrong_encoding_empty_and_missing(tmp_path):
    root = written(tmp_path, GOOD)
    with pytest.raises(ValueError, match="no such dataset folder; .* holds own"):
        list(dataset_folder.documents(root, "other"))
    (tmp_path / "own/documents.jsonl").write_bytes(b'{"id": "a", "text": "Z\xfcrich"}')
    with pytest.raises(ValueError, match="after line 0: not UTF-8"):
        list(dataset_folder.documents(root, "own"))
    written(tmp_path, GOOD, name="documents.jsonl.gz")
    with pytest.raises(ValueError, match=r"expected one of .* found documents.jsonl, documents.jsonl.gz"):
        list(dataset_folder.documents(root, "own"))
    (tmp_path / "own/documents.jsonl.gz").unlink()
    (tmp_path / "own/documents.jsonl").write_text("")
    with pytest.raises(ValueError, match="at least one document, the file is empty"):
        list(dataset_folder.documents(root, "own"))
