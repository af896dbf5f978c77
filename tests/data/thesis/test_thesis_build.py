"""The thesis' sources, on tiny files in their formats, become dataset folders that read well."""

import csv
import io
import json
import pickle
import shutil
import tarfile

import pandas as pd
import pytest

from lib.config import profiles
from lib.data import builders, check, sources, task_files
from lib.data.builders import thesis
from lib.data.dataset_folder import Documents
from tests import thesis_files

PROFILE = profiles.load("thesis")
FILES = PROFILE.build.tasks


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)


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
            write_csv(tmp_path / file, rows)
    for stem in ("wines", "video_games"):
        articles = [["title", "sections"]]
        for title in "ABC":
            parts = [("", f"Lead of {title}."), ("Empty", ""), ("Taste", "It is dry.")]
            articles.append([title, str(parts)])
        write_csv(tmp_path / f"{stem}.txt", articles)
        gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
        (tmp_path / f"{stem}.gt").write_bytes(pickle.dumps(gold, protocol=4))
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


@pytest.mark.parametrize("role", thesis.PAIRS)
def test_pairs(root, tmp_path, role):
    folder = write_task(role, tmp_path / "out", root)
    task = folder / "tasks/task"
    texts = {row["id"]: row["text"] for row in read_documents(folder)}
    first, second, twins = read_lines(task / "validation.jsonl")
    assert (first["label"], second["label"]) == ("1", "0")
    assert first["a"] == second["a"], "equal texts are one text"
    assert texts[first["a"]] == f"{role} shared, text" and texts[second["b"]] == "other\ndev"
    assert texts[first["b"]] == "cited  aligned  dev" and texts[twins["a"]] == texts[twins["b"]]
    assert len(read_lines(task / "train.jsonl")) == 4, "an example may be there twice"


def test_retrieval(root, tmp_path):
    with pytest.warns(UserWarning, match=r"wines\.txt has 3 rows, published: 1,662$"):
        folder = write_task("WINES", tmp_path / "out", root)
    text = "A\nLead of A.\nTaste\nIt is dry."
    assert read_documents(folder)[0] == {"id": "A", "text": text, "title": ""}
    relevant = json.loads((folder / "tasks/task/relevant.json").read_text())
    assert relevant == {"A": ["B"], "B": ["A", "C"]}


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    (root / "video_games.gt").write_bytes(pickle.dumps({"A": Evil()}))
    with pytest.raises(ValueError, match=r"video_games\.gt: expected a pickle of plain values"):
        thesis.write_task("GAMES", FILES["GAMES"], "task", root, tmp_path)
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
        sources, "find_built", lambda settings, _: builders.folder(settings, tmp_path / "home")
    )
    return tmp_path


def test_the_whole_profile_is_built_once_and_read(true_files, monkeypatch):
    monkeypatch.setattr(thesis, "PIECE", 8)
    roots = sources.find_roots(PROFILE.build, PROFILE.data_roots, true_files / "artifacts")
    built = roots[0]
    assert roots[1] == true_files / "data", "where the news chapter's folder may lie"
    assert check.main([str(built)]) == 0
    assert len(list((built / "wikipedia/documents").iterdir())) == 8
    tasks = task_files.read_tasks(roots, PROFILE.tasks)
    assert list(tasks) == list(PROFILE.tasks.names), "each where the profile looks for it"
    assert tasks["IMDB"].folds == 5 and list(tasks["IMDB"].inputs) == ["train", "test"]
    assert tasks["ARXIV"].texts["validation/0"].startswith("[] "), "without the class"
    assert len(tasks["PAN"].inputs["test"]) == 12
    for folder in ("hub", "data"):  # nothing is asked for again
        shutil.rmtree(true_files / folder)
    assert sources.find_built(PROFILE.build, None) == built


def write_archive(path, lines):
    """As macOS makes one: a hidden file, which is no JSON, comes before each other file."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in (("._realnews.jsonl", b"\0\5\x16\7"), ("realnews.jsonl", lines)):
            member = tarfile.TarInfo(f"realnews/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def test_realnews_of_its_authors_whole_or_refused(tmp_path):
    rows = [{"title": None, "text": f"news {n}", "url": "u", "domain": "d"} for n in range(30)]
    path = tmp_path / "realnews.tar.gz"
    write_archive(path, thesis_files.json_lines(rows))
    (tmp_path / "news").mkdir()
    thesis.write_corpus([str(path)], tmp_path / "news")
    texts = [document.text for document in Documents(tmp_path / "news")]
    assert texts == [row["text"] for row in rows]
    content = path.read_bytes()
    flipped = [content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]]  # in its checksum
    for number, damaged in enumerate([*flipped, content[:-1], content[: len(content) // 2], b""]):
        path.write_bytes(damaged)
        (tmp_path / str(number)).mkdir()
        with pytest.raises(ValueError, match="realnews.tar.gz"):
            thesis.write_corpus([str(path)], tmp_path / str(number))


def test_a_corpus_without_texts_is_refused(tmp_path):
    (tmp_path / "blank.jsonl").write_text('{"text": " "}')
    (tmp_path / "news").mkdir()
    for name in ("blank.jsonl", "nothing.jsonl"):
        shutil.rmtree(tmp_path / "news/documents", ignore_errors=True)
        with pytest.raises(ValueError, match=f"{name}: expected rows, it has none"):
            thesis.write_corpus([str(tmp_path / name)], tmp_path / "news")


@pytest.mark.parametrize(
    "role, name, content, told",
    [
        ("OC", "dev_ai2_ab.csv", b"1,a,\xff\n", ": after line 0: 'utf-8' codec"),
        ("OC", "dev_ai2_ab.csv", b'1,a,b\n0,c,"cut', ": after line 2: unexpected end of"),
        ("OC", "dev_ai2_ab.csv", b"", ": expected rows, it has none"),
        ("PAN", "pla_dev.csv", b'1,"two\nlines",b\n2,a,b\n', ":3: expected label"),
        ("GAMES", "video_games.gt", pickle.dumps({"A": {}}), ": expected rows, it has none"),
    ],
)
def test_a_damaged_file_of_a_task_is_refused_by_its_name(root, tmp_path, role, name, content, told):
    (root / name).write_bytes(content)
    with pytest.raises(ValueError, match=name + told):
        thesis.write_task(role, FILES[role], "task", root, tmp_path)
