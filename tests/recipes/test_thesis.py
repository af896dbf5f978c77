"""The thesis' sources, on tiny files in their formats, become dataset folders that read well."""

import csv
import hashlib
import json
import pickle
import shutil
from types import SimpleNamespace

import pandas as pd
import pytest
from huggingface_hub import constants

from lib import recipes
from lib.config import profiles
from lib.data import check, dataset_folder, task_files
from lib.recipes import fetch, thesis
from tests import thesis_files

PROFILE = profiles.load("thesis")
FILES = PROFILE.build.tasks
TEXT = b"title,sections\n" + b"0123456789" * 300


# ---- downloads


@pytest.fixture
def record(monkeypatch):
    """A Zenodo record with one file; `send` decides which bytes of it arrive."""
    checksum = f"md5:{hashlib.md5(TEXT).hexdigest()}"
    listed = {"key": "wines.txt", "size": len(TEXT), "checksum": checksum, "links": {"self": "x"}}
    answer = SimpleNamespace(json=lambda: {"files": [listed]})
    answer.raise_for_status = lambda: answer
    session = SimpleNamespace(get=lambda url, **_: served.asked.append(url) or answer)
    served = SimpleNamespace(send=bytes, asked=[])

    def http_get(url, file, resume_size, expected_size):
        served.asked.append(url)
        file.write(served.send(TEXT[resume_size:]))

    monkeypatch.setattr(fetch, "get_session", lambda: session)
    monkeypatch.setattr(fetch.file_download, "http_get", http_get)
    return served


RECORD = {"wines.txt": "https://zenodo.org/api/records/1"}


def test_a_record_is_downloaded_once_and_an_interrupted_download_goes_on(record, tmp_path):
    def interrupt(body):
        record.send = bytes
        raise ConnectionError("the line is dead")

    (tmp_path / "1").mkdir()
    (tmp_path / "1/wines.txt.part").write_bytes(TEXT[:1000])
    record.send = interrupt
    with pytest.raises(ValueError, match="missing: wines.txt: the line is dead"):
        fetch.fetch_all(RECORD, tmp_path)
    for _ in range(2):
        fetch.fetch_all(RECORD, tmp_path)
        assert (tmp_path / "1/wines.txt").read_bytes() == TEXT
        assert record.asked == [*RECORD.values(), "x"] * 2
    assert not list(tmp_path.rglob("*.part"))


def test_what_comes_damaged_is_never_taken(record, tmp_path):
    record.send = lambda body: b"!" * len(body)
    with pytest.raises(ValueError, match=r"^missing: wines\.txt: .*does not have the md5"):
        fetch.fetch_all(RECORD, tmp_path)
    assert not list(tmp_path.rglob("wines.txt*"))
    record.send = bytes
    fetch.fetch_all(RECORD, tmp_path)
    assert (tmp_path / "1/wines.txt").read_bytes() == TEXT


def test_without_network_every_missing_thing_has_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    wanted = thesis.list_sources(PROFILE.build)
    with pytest.raises(ValueError) as caught:
        fetch.fetch_all(wanted, tmp_path)
    lines = str(caught.value).splitlines()
    assert len(wanted) == 14 + 2 + 2 + 5, "of records, gold lists, the hub"
    assert [line.split(": ")[1] for line in lines] == [*wanted]


def test_half_a_set_of_the_hub_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    place = f"hf://datasets/a/b@{'1' * 40}/data/*.parquet"
    files = {f"data/train-0000{part}-of-00002.parquet": b"PAR1" * (part + 1) for part in range(2)}
    thesis_files.put(tmp_path / "hub", "datasets", "a/b", "1" * 40, files)
    found = fetch.fetch_hub(place)
    assert [path.name[:11] for path in found] == ["train-00000", "train-00001"]
    monkeypatch.setattr(fetch, "snapshot_download", lambda *_, **__: found[0].parents[1])
    found[1].unlink()  # as in a cache of an older library, which has no list of files
    with pytest.raises(ValueError, match="1 of 2 files are there; build again"):
        fetch.fetch_hub(place)


# ---- dataset folders


@pytest.fixture
def root(tmp_path):
    """Downloads of the pair tasks and of the retrievals."""
    for name in thesis.PAIRS:
        shared = f"{name} shared, text"
        for file, split in zip(FILES[name], ("train", "dev", "test"), strict=True):
            cited, twin = f"cited \001aligned\001 {split}", f"{name} twin {split}"
            rows = [
                [1, shared, cited],
                [0, shared, f"other\n{split}"],
                [0, twin, twin],
                [0, shared, cited],  # the first pair with the other label
                [0, cited, shared],  # and the other way round
                [1, shared, "cited  aligned  train"],  # of another split, or the first again
            ]
            with (tmp_path / file).open("w", newline="", encoding="utf-8") as stream:
                csv.writer(stream).writerows(rows)
    parts = [("", "Lead."), ("Empty", ""), ("Taste", "It is dry.")]
    articles = [["title", "sections"], *([title, str(parts)] for title in "ABC")]
    (tmp_path / "wines.txt").write_bytes(thesis_files.table(articles))
    gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
    (tmp_path / "wines.gt").write_bytes(pickle.dumps(gold, protocol=4))
    return tmp_path


def write_task(role, folder, root):
    folder.mkdir()
    thesis.write_task(role, FILES[role], "task", root, folder)
    assert not [line for line in check.findings(folder) if ": error: " in line]
    return folder


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_documents(folder):
    return pd.read_parquet(folder / "documents").to_dict("records")


def test_pairs(root, tmp_path):
    folder = write_task("PAN", tmp_path / "out", root)
    texts = {row["id"]: row["text"] for row in read_documents(folder)}
    first, second, twins = read_lines(folder / "tasks/task/validation.jsonl")
    assert (first["label"], second["label"]) == ("1", "0")
    assert first["a"] == second["a"], "equal texts are one text"
    assert texts[first["a"]] == "PAN shared, text" and texts[second["b"]] == "other\ndev"
    assert texts[first["b"]] == "cited  aligned  dev" and texts[twins["a"]] == texts[twins["b"]]
    assert len(read_lines(folder / "tasks/task/train.jsonl")) == 4, "an example may be there twice"


def test_retrieval(root, tmp_path):
    folder = write_task("WINES", tmp_path / "out", root)
    text = "A\nLead.\nTaste\nIt is dry."
    assert read_documents(folder)[0] == {"id": "A", "text": text, "title": ""}
    relevant = json.loads((folder / "tasks/task/relevant.json").read_text())
    assert relevant == {"A": ["B"], "B": ["A", "C"]}


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    (root / "wines.gt").write_bytes(pickle.dumps({"A": Evil()}))
    with pytest.raises(ValueError, match=r"wines\.gt: it holds "):
        thesis.write_task("WINES", FILES["WINES"], "task", root, tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.fixture
def true_files(tmp_path, monkeypatch):
    """Everything that the profile downloads in the true formats: a hub cache, and a folder."""
    (tmp_path / "data").mkdir()
    thesis_files.hub(tmp_path / "hub", PROFILE)
    for files in thesis_files.archives(PROFILE).values():
        for name, content in files.items():
            (tmp_path / "data" / name).write_bytes(content)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(
        dataset_folder,
        "find_built",
        lambda build, _: recipes.write_folders(build, tmp_path / "home"),
    )
    return tmp_path


def test_the_whole_profile_is_built_once_and_read(true_files, monkeypatch):
    monkeypatch.setattr(thesis, "PIECE", 8)
    roots = dataset_folder.find_roots(PROFILE.build, PROFILE.data_roots, true_files / "artifacts")
    built = roots[0]
    assert roots[1] == true_files / "data", "where the news chapter's folder may lie"
    assert check.main([str(built)]) == 0
    assert len(list((built / "wikipedia/documents").iterdir())) == 8
    tasks = task_files.read_tasks(roots, PROFILE.tasks)
    assert list(tasks) == list(PROFILE.tasks.folders), "each where the profile looks for it"
    assert tasks["IMDB"].folds == 5 and list(tasks["IMDB"].inputs) == ["train", "test"]
    assert tasks["ARXIV"].texts["validation/0"].startswith("[] "), "without the class"
    assert len(tasks["PAN"].inputs["test"]) == 12
    for folder in ("hub", "data"):  # nothing is asked for again
        shutil.rmtree(true_files / folder)
    assert dataset_folder.find_built(PROFILE.build, None) == built


def test_a_corpus_without_texts_is_refused(tmp_path):
    (tmp_path / "blank.jsonl").write_text('{"text": " "}')
    (tmp_path / "news").mkdir()
    for name in ("blank.jsonl", "nothing.jsonl"):
        shutil.rmtree(tmp_path / "news/documents", ignore_errors=True)
        with pytest.raises(ValueError, match="news: there are no texts in its files"):
            thesis.write_corpus([str(tmp_path / name)], tmp_path / "news")


@pytest.mark.parametrize(
    "content, told",
    [
        (b'1,a,b\n0,c,"cut', ": after line 1: unexpected end of"),
        (b'1,"two\nlines",b\n2,a,b\n', ":3: expected label"),
    ],
)
def test_a_damaged_file_of_a_task_is_refused_by_its_name(root, tmp_path, content, told):
    (root / "dev_ai2_ab.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"dev_ai2_ab\.csv{told}"):
        thesis.write_task("OC", FILES["OC"], "task", root, tmp_path)
