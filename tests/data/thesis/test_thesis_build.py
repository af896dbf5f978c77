"""The thesis' sources, on tiny files in their formats."""

import csv
import hashlib
import json
import pickle

import pandas as pd
import pytest

from lib import tasks
from lib.data.build.thesis import hub_tasks


def pin(root):
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(root.iterdir())
        if path.name != "SHA256SUMS"
    ]
    (root / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def write_csv(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)


@pytest.fixture
def root(tmp_path):
    for name, pattern in hub_tasks.PAIR_FILES.items():
        for split in ("train", "dev", "test"):
            rows = [
                [1, f"{name} shared, text", f"cited \001aligned\001 {split}"],
                [0, f"{name} shared, text", "other\nline"],
            ]
            write_csv(tmp_path / pattern.format(split=split), rows)
    for stem in ("wines", "video_games"):
        articles = [["title", "sections"]] + [
            [t, str([("", f"Lead of {t}."), ("Empty", ""), ("Taste", "It is dry.")])] for t in "ABC"
        ]
        write_csv(tmp_path / f"{stem}.txt", articles)
        gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
        (tmp_path / f"{stem}.gt").write_bytes(pickle.dumps(gold, protocol=4))
    pin(tmp_path)
    return tmp_path


def test_pairs(root):
    found = tasks.load("hub", ["AAN", "OC", "S2ORC", "PAN"], root=root)
    for name, task in found.items():
        assert list(task.inputs) == ["train", "validation", "test"] and task.classes == ["0", "1"]
        (a, b), (c, d) = task.inputs["validation"]
        assert task.labels["validation"].tolist() == [1, 0] and a == c, "equal texts are one text"
        assert (
            task.texts[a] == f"{name} shared, text"
            and task.texts[b] == "cited  aligned  dev"
            and task.texts[d] == "other\nline"
        )


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_retrieval(root, protocol):
    gold = pickle.loads((root / "wines.gt").read_bytes())
    (root / "wines.gt").write_bytes(pickle.dumps(gold, protocol=protocol))
    pin(root)
    task = tasks.load("hub", ["WINES"], root=root)["WINES"]
    assert task.texts["WINES/A"] == "A\nLead of A.\nTaste\nIt is dry."
    assert task.relevant == {"WINES/A": ["WINES/B"], "WINES/B": ["WINES/A", "WINES/C"]}
    assert task.notes == ("2 of 4 gold sources dropped: they or all their targets have no text",)


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    (root / "video_games.gt").write_bytes(pickle.dumps({"A": Evil()}))
    pin(root)
    with pytest.raises(ValueError, match=r"video_games\.gt: expected a pickle of .* it holds STACK_GLOBAL"):
        tasks.load("hub", ["GAMES"], root=root)
    assert not (tmp_path / "executed").exists()


def test_files_are_pinned(root):
    with (root / "train_cite.csv").open("a") as stream:
        stream.write("1,more,text\n")
    with pytest.raises(ValueError, match=r"train_cite\.csv: sha256 is [0-9a-f]{64}, SHA256SUMS says [0-9a-f]{64}"):
        tasks.load("hub", ["AAN"], root=root)
    (root / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match="SHA256SUMS is missing; pin what you downloaded"):
        tasks.load("hub", ["AAN"], root=root)
    (root / "train_ai2_ab.csv").unlink()
    with pytest.raises(ValueError, match=r"train_ai2_ab\.csv is missing; download it"):
        tasks.load("hub", ["OC"], root=root)
    with pytest.raises(ValueError, match="PAN: its files are downloaded by hand"):
        tasks.load("hub", ["PAN"])


@pytest.mark.parametrize("row, what", [(["2", "a", "b"], "expected label"), (["1", "a"], "got 2 fields")])
def test_bad_rows(root, row, what):
    write_csv(root / "pla_dev.csv", [["1", "two\nlines", "b"], row])
    pin(root)
    with pytest.raises(ValueError, match=rf"pla_dev\.csv:3: .*{what}"):
        tasks.load("hub", ["PAN"], root=root)


def test_hub_datasets_are_pinned_and_read(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for place in (hub_tasks.IMDB_FILES, hub_tasks.ARXIV_FILES):
        assert len(place.partition("@")[2].partition("/")[0]) == 40
    for split in ("train", "test"):
        pd.DataFrame({"text": [f"{split} bad", f"{split} good"], "label": [0, 1]}).to_parquet(
            tmp_path / f"{split}-0.parquet"
        )
    for split in ("train", "val", "test"):
        rows = [{"text": "[cs.CV] about images in math.AC", "label": "cs.CV"}, {"text": "x", "label": "math.AC"}]
        (tmp_path / f"{split}_data.txt").write_text("\n".join(map(json.dumps, rows)))
    files = {"IMDB": str(tmp_path / "{split}-*.parquet"), "ARXIV": str(tmp_path / "{split}_data.txt")}
    found = tasks.load("hub", ["IMDB", "ARXIV"], files=files)
    imdb, arxiv = found["IMDB"], found["ARXIV"]
    assert (imdb.folds, imdb.classes, list(imdb.inputs)) == (5, ["0", "1"], ["train", "test"])
    assert [imdb.texts[ids[0]] for ids in imdb.inputs["test"]] == ["test bad", "test good"]
    assert list(arxiv.inputs) == ["train", "validation", "test"] and arxiv.classes == ["cs.CV", "math.AC"]
    assert arxiv.texts["ARXIV/validation/0"] == "[] about images in "
