"""The thesis' sources, on tiny files in their formats, become dataset folders that read without an error."""

import csv
import gzip
import io
import json
import pickle
import shutil
import tarfile
import warnings

import pandas as pd
import pytest

from lib import tasks
from lib.config import profiles
from lib.data import build, builders, check, corpus, sources
from lib.data.builders import thesis
from lib.data.dataset_folder import Documents
from lib.experiments import keys
from tests import thesis_files

FILES = profiles.load("thesis").build.tasks


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)


@pytest.fixture
def root(tmp_path):
    for name in thesis.PAIRS:
        for file, split in zip(FILES[name], ("train", "dev", "test"), strict=True):
            rows = [
                [1, f"{name} shared, text", f"cited \001aligned\001 {split}"],
                [0, f"{name} shared, text", f"other\n{split}"],
                [0, f"{name} twin {split}", f"{name} twin {split}"],
                [
                    0,
                    f"{name} shared, text",
                    f"cited \001aligned\001 {split}",
                ],  # the first pair with the other label
                [
                    0,
                    f"cited \001aligned\001 {split}",
                    f"{name} shared, text",
                ],  # and the other way round
                [
                    1,
                    f"{name} shared, text",
                    "cited  aligned  train",
                ],  # a pair of another split, or the first again
            ]
            write_csv(tmp_path / file, rows)
    for stem in ("wines", "video_games"):
        articles = [["title", "sections"]] + [
            [t, str([("", f"Lead of {t}."), ("Empty", ""), ("Taste", "It is dry.")])] for t in "ABC"
        ]
        write_csv(tmp_path / f"{stem}.txt", articles)
        gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
        (tmp_path / f"{stem}.gt").write_bytes(pickle.dumps(gold, protocol=4))
    return tmp_path


def written(role, folder, root):
    """One task's folder, and what its README says."""
    folder.mkdir()
    thesis.write_task(role, FILES[role], "task", root, folder)
    readme = (folder / "README.md").read_text()
    assert readme.startswith(f"# {role}\n\nSource: ") and readme.endswith(".\n")
    return folder, readme


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def documents(folder):
    return pd.read_parquet(folder / "documents").to_dict("records")


@pytest.mark.parametrize("role", thesis.PAIRS)
def test_pairs(root, tmp_path, role):
    folder, readme = written(role, tmp_path / "out", root)
    (task,) = (folder / "tasks").iterdir()
    texts = {row["id"]: row["text"] for row in documents(folder)}
    first, second, twins = lines(task / "validation.jsonl")
    assert (first["label"], second["label"]) == ("1", "0") and first["a"] == second["a"], (
        "equal texts are one text"
    )
    assert texts[first["a"]] == f"{role} shared, text" and texts[second["b"]] == "other\ndev"
    assert texts[first["b"]] == "cited  aligned  dev" and texts[twins["a"]] == texts[twins["b"]]
    assert len(lines(task / "train.jsonl")) == 4, "an example may stand there twice"
    assert "8 pairs left out" in readme
    printed = "\n".join(check.findings(folder))
    assert "1 pairs join two documents of one text" in printed and ": error: " not in printed


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_retrieval(root, tmp_path, protocol):
    gold = pickle.loads((root / "wines.gt").read_bytes())
    (root / "wines.gt").write_bytes(pickle.dumps(gold, protocol=protocol))
    folder, readme = written("WINES", tmp_path / "out", root)
    assert documents(folder)[0] == {
        "id": "A",
        "text": "A\nLead of A.\nTaste\nIt is dry.",
        "title": "",
    }
    assert json.loads((folder / "tasks/task/relevant.json").read_text()) == {
        "A": ["B"],
        "B": ["A", "C"],
    }
    assert "\n2 of 4 gold sources dropped: they or all their targets have no text.\n" in readme
    assert not any(": error: " in line for line in check.findings(folder))


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    for content in (pickle.dumps({"A": Evil()}), b"no pickle", b""):
        (root / "video_games.gt").write_bytes(content)
        (root / "SHA256SUMS").unlink(missing_ok=True)
        with pytest.raises(
            ValueError, match=r"video_games\.gt: expected a pickle of .* and nothing else: "
        ):
            thesis.write_task("GAMES", FILES["GAMES"], "task", root, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_a_file_that_changed_is_refused(root, tmp_path):
    written("AAN", tmp_path / "out", root)
    with (root / "train_cite.csv").open("a") as stream:
        stream.write("1,more,text\n")
    (tmp_path / "again").mkdir()
    with pytest.raises(
        ValueError, match=r"train_cite\.csv: its sha256 is \w{64}, .*SHA256SUMS says \w{64}; del"
    ):
        thesis.write_task("AAN", FILES["AAN"], "task", root, tmp_path / "again")


@pytest.mark.parametrize(
    "row, what", [(["2", "a", "b"], "expected label"), (["1", "a"], "got .'1', 'a'")]
)
def test_bad_rows(root, tmp_path, row, what):
    write_csv(root / "pla_dev.csv", [["1", "two\nlines", "b"], row])
    with pytest.raises(ValueError, match=rf"pla_dev\.csv:3: .*{what}"):
        thesis.write_task("PAN", FILES["PAN"], "task", root, tmp_path)


SIZES = {
    "corpus.folders": ["wikipedia", {"folder": "news", "min_tokens": 150}],
    "corpus.train_documents": 24,
    "corpus.validation_documents": 4,
    "training.documents": 12,
    "training.cca_batch_size": 6,
    "final.documents": 12,
}


@pytest.fixture
def true_files(tmp_path, monkeypatch):
    """The profile, with everything it downloads in the true formats: a hub cache, and the folder of the others."""
    profile = profiles.load("thesis", overrides=SIZES)
    (tmp_path / "data").mkdir()
    thesis_files.hub(tmp_path / "hub", profile)
    for files in thesis_files.archives(profile).values():
        for name, content in files.items():
            (tmp_path / "data" / name).write_bytes(content)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(builders, "home", lambda: tmp_path / "home")
    return profile


def test_the_whole_profile_is_built_and_read(true_files, monkeypatch):
    monkeypatch.setattr(thesis, "PIECE", 8)
    place = sources.root(true_files)
    assert check.main([str(place)]) == 0 and {path.name for path in place.glob("[a-z]*/")} >= {
        "s2orc",
        "pan",
        "games",
    }
    assert (
        len(list((place / "wikipedia/documents").iterdir())) == 8
        and len(Documents(place, "wikipedia")) == 60
    )
    split = lambda texts, **_: {"input_ids": [text.split() for text in texts]}  # noqa: E731
    selection = corpus.select(true_files, tokenizer=lambda: split)
    found = corpus.read(true_files, selection)
    assert [d.source for d in found.train[:4]] == ["wikipedia", "news"] * 2
    assert min(len(d.text.split()) for d in found.train if d.source == "news") >= 150
    held = tasks.read(true_files)
    assert list(held) == list(true_files.tasks.names)
    assert (held["IMDB"].folds, held["IMDB"].classes, list(held["IMDB"].inputs)) == (
        5,
        ["0", "1"],
        ["train", "test"],
    )
    assert (
        held["ARXIV"].texts["validation/0"].startswith("[] ")
        and len(held["PAN"].inputs["test"]) == 12
    )


def test_recipes_name_what_was_built(true_files):
    """Looked at once for many keys, by the builder's settings, whatever these are made of."""
    with keys.data_at_rest():
        assert keys._files(true_files, ["imdb"]) != keys._files(true_files, ["aan"])


def test_what_is_built_is_not_asked_for_again(true_files, tmp_path):
    place = sources.root(true_files)
    shutil.rmtree(tmp_path / "hub")
    for path in (tmp_path / "data").glob("*.csv"):
        path.unlink()
    assert sources.root(true_files) == place


def test_the_door_says_that_the_news_are_missing(true_files, tmp_path):
    told = r"THESIS_DATA/telegram, for notebook 08, is not there; lib\.news\.telegram makes it"
    with pytest.warns(UserWarning, match=told):
        sources.root(true_files)
    (tmp_path / "data" / "telegram").mkdir()
    with warnings.catch_warnings(record=True) as caught:
        sources.root(true_files)
    assert not caught


def test_the_door_says_what_is_missing(true_files, tmp_path, capsys):
    (tmp_path / "data" / "wines.txt").unlink()
    assert build.main(["thesis"]) == 2
    told = capsys.readouterr().err.partition("error: ")[2]  # behind the bars of the hub's library
    assert told.startswith(
        f"missing: wines.txt: expected in {tmp_path / 'data'}, from https://zenodo.org/records/4812960"
    )
    assert told.count("\n") == 1


def test_realnews_of_its_authors(tmp_path, monkeypatch):
    rows = [
        {"title": None, "text": f"news {n}", "url": "u", "domain": "d", "publish_date": "x"}
        for n in range(30)
    ]
    data = thesis_files.json_lines(rows)
    with tarfile.open(tmp_path / "realnews.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("realnews/realnews.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    (tmp_path / "news").mkdir()
    thesis.write_corpus([str(tmp_path / "realnews.tar.gz")], tmp_path / "news")
    assert [document.text for document in Documents(tmp_path, "news")] == [
        row["text"] for row in rows
    ]


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])


def spoilt(path):
    path.write_bytes(path.read_bytes().replace(b'"', b"\xff"))


@pytest.mark.parametrize(
    "name, spoil, told",
    [
        ("part.parquet", cut, r"part\.parquet: not a whole Parquet file"),
        ("part.json.gz", cut, r"part\.json\.gz:\d+: after it the archive is cut off or damaged"),
        ("part.jsonl", spoilt, r"part\.jsonl:1: not JSON"),
        ("realnews.tar.gz", cut, r"realnews\.tar\.gz: the archive is cut off or damaged"),
        ("no text.jsonl", None, r"no text\.jsonl:1: 'text': missing; found: title"),
        ("nothing.jsonl", None, r"nothing\.jsonl: no such file"),
    ],
)
def test_a_damaged_file_of_a_corpus_is_refused_by_its_name(tmp_path, name, spoil, told):
    rows = [{"text": thesis_files.words("topic", 50, number)} for number in range(200)]
    lines = thesis_files.json_lines(rows)
    path = tmp_path / name
    if name.endswith(".tar.gz"):
        with tarfile.open(path, "w:gz") as archive:
            member = tarfile.TarInfo("realnews.jsonl")
            member.size = len(lines)
            archive.addfile(member, io.BytesIO(lines))
    elif not name.startswith("nothing"):
        forms = {".parquet": thesis_files.parquet(rows), ".gz": gzip.compress(lines)}
        path.write_bytes(
            b'{"title": "x"}\n' if name.startswith("no") else forms.get(path.suffix, lines)
        )
    if spoil:
        spoil(path)
    (tmp_path / "news").mkdir()
    with pytest.raises(ValueError, match=told):
        thesis.write_corpus([str(path)], tmp_path / "news")


@pytest.mark.parametrize(
    "role, name, content, told",
    [
        (
            "OC",
            "dev_ai2_ab.csv",
            b"1,a,\xff\n",
            r"dev_ai2_ab\.csv:0: not a CSV file in UTF-8 after it",
        ),
        (
            "WINES",
            "wines.txt",
            b"Title,Sections\nA\n",
            r"wines\.txt:2: expected a title and its \[\(heading, text\)\]",
        ),
        ("WINES", "wines.txt", b"Title,Sections\nA,[(1\n", r"wines\.txt:2: expected a title"),
        ("GAMES", "video_games.gt", b"\x80\x04", r"video_games\.gt: expected a pickle"),
        (
            "OC",
            "dev_ai2_ab.csv",
            b'1,a,b\n0,c,"cut',
            r"dev_ai2_ab\.csv:2: .*: unexpected end of data; .*SHA256SUMS too",
        ),
        ("OC", "dev_ai2_ab.csv", b"", r"dev_ai2_ab\.csv: expected rows, it has none"),
        (
            "WINES",
            "wines.txt",
            b'Title,Sections\nA,"[(',
            r"wines\.txt:2: .*: unexpected end of data",
        ),
        ("WINES", "wines.txt", b"Title,Sections\n", r"wines\.txt: expected rows, it has none"),
        (
            "GAMES",
            "video_games.gt",
            pickle.dumps({"A": {}}),
            r"video_games\.gt: expected rows, it has none",
        ),
    ],
)
def test_a_damaged_file_of_a_task_is_refused_by_its_name(root, tmp_path, role, name, content, told):
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=told):
        thesis.write_task(role, FILES[role], "task", root, tmp_path)


def test_an_empty_source_is_refused_by_its_name(tmp_path):
    (tmp_path / "none.parquet").write_bytes(thesis_files.parquet({"text": [], "label": []}))
    (tmp_path / "blank.jsonl").write_bytes(thesis_files.json_lines([{"text": " "}]))
    for name in ("none.parquet", "blank.jsonl"):
        (tmp_path / f"news {name}").mkdir()
        with pytest.raises(
            ValueError, match=f"{name}: expected rows, it has none that can be used"
        ):
            thesis.write_corpus([str(tmp_path / name)], tmp_path / f"news {name}")
    (tmp_path / "some.jsonl").write_bytes(thesis_files.json_lines([{"text": "words", "label": 1}]))
    places = {"train": str(tmp_path / "some.jsonl"), "test": str(tmp_path / "none.parquet")}
    with pytest.raises(
        ValueError, match=r"none\.parquet: expected rows, it has none that can be used"
    ):
        thesis.write_task("IMDB", places, "sentiment", tmp_path, tmp_path)


def test_another_number_of_rows_than_the_thesis_printed_is_told(root, tmp_path):
    with pytest.warns(UserWarning) as caught:
        written("PAN", tmp_path / "out", root)
        written("WINES", tmp_path / "wines", root)
    assert [str(warning.message) for warning in caught] == [
        f"{root}/pla_train.csv has 6 rows, published: 17,968",
        f"{root}/pla_test.csv has 6 rows, published: 2,906",
        f"{root}/wines.txt has 3 rows, published: 1,662",
    ]
    write_csv(
        root / "pla_test.csv",
        [["1", f"a {number // 2}", "b"] for number in range(2904)] + [["0", "a 0", "b"]] * 2,
    )
    (root / "SHA256SUMS").unlink()
    with pytest.warns(UserWarning) as caught:
        written("PAN", tmp_path / "again", root)
    assert len(caught) == 1, "the training file alone"
