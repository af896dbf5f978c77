"""The same data in any form that a folder may have gives the same documents, groups and tasks."""

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

from lib.config import profiles
from lib.data import check, dataset_folder, sources, task_files
from lib.data.dataset_folder import Documents

PROPERTY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FIELDS = ["id", "text", "title", "group"]
# Letters that have two canonical forms, marks that join, ends of lines that are none in JSON.
CHARACTERS = st.sampled_from([*'aZßéñÅ한e\u0301A\u030a\u2028\x85\u200b\ufeff\r\n\t "\\北🥲0'])
WORDS = st.text(CHARACTERS, min_size=1, max_size=6)
NAMES = st.one_of(WORDS, st.integers(-3, 2**70))


@st.composite
def rows(draw):
    """Documents with distinct ids, of which all, some or none have titles and groups."""
    ids = draw(st.lists(NAMES, min_size=1, max_size=6, unique_by=lambda value: compose(str(value))))
    optional = st.one_of(st.none(), st.just(math.nan), st.just(""), NAMES)
    row = st.fixed_dictionaries({"text": WORDS}, optional={"title": optional, "group": optional})
    return [{"id": name, **draw(row)} for name in ids]


def compose(text):
    return unicodedata.normalize("NFC", text)


def expected(rows):
    """(id, text, title, group) of each row: names are composed text, what is missing is empty."""

    def name(value):
        missing = value is None or value != value
        return "" if missing else compose(str(value))

    return [(name(r["id"]), r["text"], name(r.get("title")), name(r.get("group"))) for r in rows]


def read(folder):
    return [(d.id, d.text, d.title, d.group) for d in Documents(folder)]


def write_json_lines(folder, rows, suffix=""):
    """NaN stands as pandas writes it where it is asked to; a blank group as null."""
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix]
    (folder / f"documents.jsonl{suffix}").write_bytes(pack(text.encode()))


def columns(rows, kind):
    """Arrow columns of one kind; a column of whole numbers alone is int64 if all fit."""
    table = {}
    for field in FIELDS:
        values = [row.get(field) for row in rows]
        values = [None if value != value else value for value in values]
        if field in FIELDS[2:] and all(value is None for value in values):
            continue  # a column that is not there
        present = [value for value in values if value is not None]
        if kind == "numbers" and all(
            type(value) is int and abs(value) < 2**53 for value in present
        ):
            # As pandas has them: whole numbers become floats where one is missing.
            table[field] = pyarrow.array(values, pyarrow.float64() if None in values else None)
            continue
        texts = [None if value is None else str(value) for value in values]
        array = pyarrow.array(texts, pyarrow.large_string() if kind == "large" else None)
        table[field] = array.dictionary_encode() if kind == "dictionary" else array
    return pyarrow.table(table)


def write_parquet(folder, rows, kind, cuts=()):
    """In pieces that end at `cuts`, with what macOS and Spark leave beside them."""
    (folder / "documents").mkdir()
    edges = [0, *sorted(cuts), len(rows)]
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        part = columns(rows[start:end], kind) if end > start else columns(rows, kind).slice(0, 0)
        parquet.write_table(part, folder / f"documents/{number}.parquet", row_group_size=2)
    (folder / "documents/._0.parquet").write_bytes(b"\0\5\26\7")
    (folder / "documents/_SUCCESS").write_bytes(b"")


@PROPERTY
@given(rows=rows(), cut=st.integers(0, 6))
def test_documents_are_the_same_in_every_form(rows, cut):
    whole = expected(rows)
    cuts = [cut] if cut <= len(rows) else []
    writers = {
        **{
            suffix: lambda f, s=suffix: write_json_lines(f, rows, s)
            for suffix in ("", ".gz", ".xz")
        },
        **{
            kind: lambda f, k=kind: write_parquet(f, rows, k, cuts)
            for kind in ("text", "numbers", "large", "dictionary")
        },
    }
    contents = []
    for form, write in writers.items():
        with tempfile.TemporaryDirectory() as place:
            write(Path(place))
            assert read(Path(place)) == whole, form
            contents.append(Documents(Path(place)).contents.tolist())
    assert all(each == contents[0] for each in contents)


def write_task(folder, form, write):
    """Sixty documents with accents in ids, labels, groups and texts; a task of each kind."""

    def spell(value):
        return unicodedata.normalize(form, value)

    names = [spell(f"é{n}") for n in range(60)]
    rows = [
        {"id": name, "text": spell(f"texte numéro {n}"), "group": spell(f"à{n // 3}")}
        for n, name in enumerate(names)
    ]
    write(folder / "documents.jsonl", *rows)
    tasks = folder / "tasks"
    for split, numbers in {"train": range(40), "test": range(40, 60)}.items():
        labelled = ({"id": names[n], "label": spell("éñ"[n % 2])} for n in numbers)
        write(tasks / f"topics/{split}.jsonl", *labelled)
        pairs = ({"a": names[n], "b": names[n + 1], "label": n % 4 // 2} for n in numbers[:-1:2])
        write(tasks / f"links/{split}.jsonl", *pairs)
    write(tasks / "related/relevant.json", {names[0]: [names[1]], names[2]: [names[3]]})
    write(tasks / "events/clusters.jsonl", *({"id": names[n], "label": n // 2} for n in range(8)))


def test_tasks_are_the_same_in_either_canonical_form(tmp_path, write):
    tasks = {}
    for documents, examples in itertools.product(("NFC", "NFD"), repeat=2):
        folder = tmp_path / documents / examples / "own"
        write_task(folder, examples, write)
        others = tmp_path / "others"
        write_task(others, documents, write)
        (others / "documents.jsonl").replace(folder / "documents.jsonl")
        for task in ("topics", "links", "related", "events"):
            read = task_files.read_task(folder / "tasks" / task)
            told = {text_id: compose(text) for text_id, text in read.texts.items()}
            labels = {split: values.tolist() for split, values in read.labels.items()}
            found = (told, read.inputs, labels, read.classes, read.groups, read.relevant)
            assert tasks.setdefault(task, (*found, read.clusters)) == (*found, read.clusters)
    assert tasks["topics"][3] == ["é", "ñ"] and len(tasks["topics"][1]["test"]) == 20


def test_two_spellings_of_one_name_are_one_name(tmp_path, write):
    rows = [{"id": "é", "text": "a"}, {"id": "e\u0301", "text": "b"}]
    write(tmp_path / "own/documents.jsonl", *rows)
    with pytest.raises(ValueError, match=r"jsonl:2: the id .* is that of documents\.jsonl:1"):
        Documents(tmp_path / "own")
    write(tmp_path / "own/documents.jsonl", *({"id": n, "text": f"t {n}"} for n in ("é", 1, 2)))
    write(tmp_path / "own/tasks/t/relevant.json", {"é": ["1"], "e\u0301": ["2"]})
    with pytest.raises(ValueError, match=r"relevant\.json: source 'é' occurs twice"):
        task_files.read_task(tmp_path / "own/tasks/t")


@pytest.mark.parametrize("typed, held", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_task_is_known_by_its_name_in_any_form(tmp_path, write, typed, held):
    """A disk from macOS has NFD, a keyboard NFC, and nobody sees the difference in a message."""
    name, given = (unicodedata.normalize(form, "é/à") for form in (held, typed))
    dataset, _, task = name.partition("/")
    folder = tmp_path / "root" / dataset
    write(folder / "documents.jsonl", *ROWS, *({"id": n, "text": f"b {n}"} for n in range(20, 40)))
    for split, numbers in {"train": range(8), "test": range(8, 12)}.items():
        labels = ({"id": n, "label": n % 2} for n in numbers)
        write(folder / "tasks" / task / f"{split}.jsonl", *labels)
    changes, _, _ = check.suggested(tmp_path / "root", iter([given]))
    assert [*changes["tasks.folders"]] == [name], "as it is on the disk"
    told = [*check.findings(tmp_path / "root", iter([given]))]
    assert any(line.startswith(f"{name}: classification") for line in told)


@pytest.mark.parametrize("first, second", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_tested_text_in_the_other_canonical_form_is_not_trained_on(
    tmp_path, write, first, second
):
    text = "Le café de la résidence était très animé à midi, note numéro {}"
    texts = [unicodedata.normalize(first, text.format(n)) for n in range(40)]
    texts += [unicodedata.normalize(second, each) for each in texts[20:]]
    write(tmp_path / "own/documents.jsonl", *({"id": n, "text": t} for n, t in enumerate(texts)))
    for split, numbers in {"train": range(20), "test": range(20, 40)}.items():
        labelled = ({"id": n, "label": n % 2} for n in numbers)
        write(tmp_path / f"own/tasks/t/{split}.jsonl", *labelled)
    # Twenty are in the test, twice each, and validation takes two of train.
    assert "left out: 42 in tests)" in check.suggested(tmp_path)[1]
    assert dataset_folder.content(texts[20]) == dataset_folder.content(texts[40])


ROWS = [{"id": str(n), "text": f"some words {n}"} for n in range(12)]


def find_lines(folder, name):
    return [line for line in check.findings(folder) if name in line]


@pytest.mark.parametrize(
    "place",
    [
        "own/documents.json",
        "own/documents/a.jsonl",
        "own/documents/year=2023/0.parquet",
        "own/documents/whole.parquet/0.parquet",
        "own/tasks/t/train.csv",
        "own/tasks/t/test.jsonl.gz",
        "memo/document.jsonl",
        "memo.jsonl",
    ],
)
@pytest.mark.parametrize("form", ["documents.jsonl", "documents/0.parquet"])
def test_what_is_there_and_is_not_read_is_named(tmp_path, write, place, form):
    root = tmp_path / "root"
    if form.endswith("jsonl"):
        write(root / "own" / form, *ROWS)
    else:
        (root / "own/documents").mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), root / "own" / form)
    labels = [{"id": n, "label": n % 2} for n in range(12)]
    write(root / "own/tasks/t/train.jsonl", *labels)
    assert not [line for line in check.findings(root) if "not read" in line]
    for hidden in (".DS_Store", "._own", "own/.git/config", ".trash/documents.jsonl"):
        write(root / hidden, "not ours")
    for hidden in ("own/documents/.part.crc", "own/tasks/.t/train.jsonl", "own/tasks/t/.x"):
        write(root / hidden, "not ours")
    assert not [line for line in check.findings(root) if "not read" in line or "rror" in line]
    write(root / place, "notes")
    parts = place.split("/")
    depth = 0 if "memo" in place else 1 + place.count("documents/") + 2 * place.count("tasks/")
    (line,) = [line for line in check.findings(root) if "not read" in line]
    assert parts[depth] in line and ": note: " in line


@pytest.mark.parametrize("form", ["documents.jsonl", "documents.jsonl.gz", "documents/0.parquet"])
def test_a_field_that_is_not_read_is_named(tmp_path, write, form):
    rows = [{**row, "groups": "a", "url": ""} for row in ROWS]
    if form.endswith("parquet"):
        (tmp_path / "own/documents").mkdir(parents=True)
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "own" / form)
    else:
        write(tmp_path / "own" / form, *rows)
    labels = [{"id": n, "label": n % 2, "weight": 2} for n in range(12)]
    write(tmp_path / "own/tasks/t/train.jsonl", *labels)
    named = find_lines(tmp_path, "is not read")
    assert [line.split("'")[1] for line in named] == ["groups", "url", "weight"]


def string_of(bytes_):
    """A string column that holds these bytes, as writers that do not look at them make it."""
    values = pyarrow.array(bytes_, pyarrow.binary())
    return pyarrow.StringArray.from_buffers(len(values), *values.buffers()[1:])


BAD = string_of([b"fine", b"caf\xe9"])
PARQUET = [
    ({"doc_id": ["a"], "content": ["b"]}, r"1\.parquet:1: 'id': missing; found: doc_id, content$"),
    ({"id": ["a"], "body": ["b"], "title": ["c"]}, "'text': missing; found: id, body, title$"),
    ({"id": ["a", "b"], "text": BAD}, r"1\.parquet:2: .*byte 0xe9 in position 3"),
    ({"id": BAD, "text": ["a", "b"]}, r"1\.parquet:2: .*byte 0xe9 in position 3"),
    ({"id": ["a", None], "text": ["a", "b"]}, r"1\.parquet:2: 'id': .*, got null$"),
    ({"id": [1.0, math.nan], "text": ["a", "b"]}, r"1\.parquet:2: 'id': .*, got null$"),
    ({"id": ["a", "b"], "text": ["a", None]}, r"1\.parquet:2: 'text': .*, got null$"),
    ({"id": ["a", "b"], "text": [1.5, math.nan]}, r"1\.parquet:1: 'text': .*, got 1\.5$"),
    ({"id": ["a", "b"], "text": [["a"], []]}, r"1\.parquet:1: 'text': .*string"),
]


@pytest.mark.parametrize("table, message", PARQUET)
def test_bad_parquet_is_named_by_file_and_row(tmp_path, table, message):
    (tmp_path / "own/documents").mkdir(parents=True)
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "own/documents/0.parquet")
    parquet.write_table(pyarrow.table(table), tmp_path / "own/documents/1.parquet")
    with pytest.raises(ValueError, match=message) as error:
        Documents(tmp_path / "own")
    assert "\n" not in str(error.value) and "0.parquet" not in str(error.value)


def test_a_column_that_stands_twice_and_parts_without_rows(tmp_path, capsys):
    (tmp_path / "own/documents").mkdir(parents=True)
    text = pyarrow.array(["a"])
    twice = pyarrow.Table.from_arrays([text] * 3, ["id", "text", "text"])
    parquet.write_table(twice, tmp_path / "own/documents/0.parquet")
    with pytest.raises(ValueError, match=r"0\.parquet: the column 'text' occurs twice"):
        Documents(tmp_path / "own")
    parquet.write_table(pyarrow.table({}), tmp_path / "own/documents/0.parquet")
    assert check.main([str(tmp_path)]) == 2
    assert "own/documents: expected at least one row" in capsys.readouterr().out
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "own/documents/1.parquet")
    assert len(Documents(tmp_path / "own")) == 12


def test_json_lines_as_editors_and_archives_leave_them(tmp_path, write):
    """A byte order mark where two files were joined, line ends of Windows, joined archives."""
    mark = b"\xef\xbb\xbf"
    texts = [f"a\u2028b\x85c {n}" for n in range(4)]
    rows = [{"id": n, "text": text} for n, text in enumerate(texts)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    first, second = (mark + "\r\n".join(part).encode() + b"\r\n" for part in (lines[:2], lines[2:]))
    forms = {
        "plain/documents.jsonl": first + second,
        "gz/documents.jsonl.gz": gzip.compress(first) + gzip.compress(second) + bytes(512),
        "xz/documents.jsonl.xz": lzma.compress(first) + lzma.compress(second),
        # Python's own reader ends at the zeros (python/cpython#88300).
        "padded/documents.jsonl.xz": b"".join(
            lzma.compress(part) + bytes(4) for part in (first, second)
        ),
    }
    for name, content in forms.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(content)
        told = read((tmp_path / name).parent)
        assert told == [(str(n), text, "", "") for n, text in enumerate(texts)], name


@pytest.mark.parametrize("form", [".gz", ".xz"])
@pytest.mark.parametrize("rest", [b"\r\n", b"PK not ours", b"\xfd7zXZ\0", b"\x1f\x8b\x08"])
def test_what_follows_an_archive_and_is_none_is_refused(tmp_path, form, rest):
    """Python's own reader of xz passes it over, and with it a second archive that is damaged."""
    pack = {".gz": gzip.compress, ".xz": lzma.compress}[form]
    content = pack(b"\n".join(json.dumps(row).encode() for row in ROWS))
    (tmp_path / "own").mkdir()
    (tmp_path / f"own/documents.jsonl{form}").write_bytes(content + rest)
    with pytest.raises(ValueError, match="the archive is cut off or damaged .*unpack it"):
        Documents(tmp_path / "own")


def test_folders_may_have_names_that_mean_something_elsewhere(tmp_path, write):
    """To a shell, to YAML, to a list of settings and to a pattern of file names."""
    names = ["a=b", "[x]", "2023", "{y}", "ü", "null", "a b", "x,y", "#z", "'q'", "*"]
    names += ["documents_2023", "tasks_2023"]
    for name in names:
        rows = [{"id": n, "text": f"document {n} of the folder {name}"} for n in range(9)]
        write(tmp_path / name / "documents.jsonl", *rows)
        labels = [{"id": n, "label": n % 2} for n in range(9)]
        write(tmp_path / name / "tasks/[t]/train.jsonl", *labels[:6])
        write(tmp_path / name / "tasks/[t]/test.jsonl", *labels[6:])
    changes, _, _ = check.suggested(tmp_path)
    profile = profiles.load(
        "lab", overrides=[f"{key}={json.dumps(value)}" for key, value in changes.items()]
    )
    assert sorted(profile.corpus.names) == sorted(names)
    roots = sources.find_roots(profile.build, profile.data_roots, tmp_path)
    tasks = task_files.read_tasks(roots, profile.tasks)
    assert sorted(tasks) == sorted(f"{name}/[t]" for name in names)
