"""The thesis' sources, on tiny files in their formats, become dataset folders that read without an error."""

import csv
import hashlib
import io
import json
import pickle
import tarfile

import pandas as pd
import pytest

from lib import tasks
from lib.config import profiles
from lib.data import builders, check, corpus, sources
from lib.data.builders import thesis
from lib.data.dataset_folder import Documents


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
    for name, pattern in thesis.PAIR_STEMS.items():
        for split in ("train", "dev", "test"):
            rows = [
                [1, f"{name} shared, text", f"cited \001aligned\001 {split}"],
                [0, f"{name} shared, text", f"other\n{split}"],
                [0, f"{name} twin {split}", f"{name} twin {split}"],
                [0, f"{name} shared, text", f"cited \001aligned\001 {split}"],  # the first pair with the other label
                [0, f"cited \001aligned\001 {split}", f"{name} shared, text"],  # and the other way round
                [1, f"{name} shared, text", "cited  aligned  train"],  # a pair of another split, or the first again
            ]
            write_csv(tmp_path / f"{pattern.format(split=split)}.csv", rows)
    for stem in ("wines", "video_games"):
        articles = [["title", "sections"]] + [
            [t, str([("", f"Lead of {t}."), ("Empty", ""), ("Taste", "It is dry.")])] for t in "ABC"
        ]
        write_csv(tmp_path / f"{stem}.txt", articles)
        gold = {"A": {"B": 1, "Gone": 1}, "C": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "C": 1}}
        (tmp_path / f"{stem}.gt").write_bytes(pickle.dumps(gold, protocol=4))
    pin(tmp_path)
    return tmp_path


def written(role, folder, root):
    """One task's folder, and what its README says."""
    folder.mkdir()
    thesis.write_task(role, "task", root, folder)
    readme = (folder / "README.md").read_text()
    assert readme.startswith(f"# {role}\n\nSource: ") and readme.endswith(".\n")
    return folder, readme


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("role", list(thesis.PAIR_STEMS))
def test_pairs(root, tmp_path, role):
    folder, readme = written(role, tmp_path / "out", root)
    (task,) = (folder / "tasks").iterdir()
    texts = {row["id"]: row["text"] for row in lines(folder / "documents.jsonl")}
    first, second, twins = lines(task / "validation.jsonl")
    assert (first["label"], second["label"]) == ("1", "0") and first["a"] == second["a"], "equal texts are one text"
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
    pin(root)
    folder, readme = written("WINES", tmp_path / "out", root)
    assert lines(folder / "documents.jsonl")[0] == {"id": "A", "text": "A\nLead of A.\nTaste\nIt is dry."}
    assert json.loads((folder / "tasks/task/relevant.json").read_text()) == {"A": ["B"], "B": ["A", "C"]}
    assert "\n2 of 4 gold sources dropped: they or all their targets have no text.\n" in readme
    assert not any(": error: " in line for line in check.findings(folder))


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    for content in (pickle.dumps({"A": Evil()}), b"no pickle", b""):
        (root / "video_games.gt").write_bytes(content)
        pin(root)
        with pytest.raises(ValueError, match=r"video_games\.gt: expected a pickle of .* and nothing else: "):
            thesis.write_task("GAMES", "task", root, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_files_are_pinned(root, tmp_path):
    with (root / "train_cite.csv").open("a") as stream:
        stream.write("1,more,text\n")
    with pytest.raises(ValueError, match=r"train_cite\.csv: sha256 is [0-9a-f]{64}, SHA256SUMS has another"):
        thesis.write_task("AAN", "task", root, tmp_path)
    (root / "SHA256SUMS").unlink()
    with pytest.raises(ValueError, match=r"SHA256SUMS is missing; download and pin it"):
        thesis.write_task("AAN", "task", root, tmp_path)
    (root / "train_ai2_ab.csv").unlink()
    with pytest.raises(ValueError, match=r"train_ai2_ab\.csv or .* is missing; download and pin it"):
        thesis.write_task("OC", "task", root, tmp_path)


@pytest.mark.parametrize("row, what", [(["2", "a", "b"], "expected label"), (["1", "a"], "got .'1', 'a'")])
def test_bad_rows(root, tmp_path, row, what):
    write_csv(root / "pla_dev.csv", [["1", "two\nlines", "b"], row])
    pin(root)
    with pytest.raises(ValueError, match=rf"pla_dev\.csv:3: .*{what}"):
        thesis.write_task("PAN", "task", root, tmp_path)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """IMDB, ARXIV and Wikipedia as the hub serves them, RealNews as its authors send it."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for place in (thesis.IMDB_FILES, thesis.ARXIV_FILES):
        assert len(place.partition("@")[2].partition("/")[0]) == 40
    for split in ("train", "test"):
        frame = pd.DataFrame({"text": [f"{split} bad", f"{split} good"] * 5, "label": [0, 1] * 5})
        frame.to_parquet(tmp_path / f"{split}-0.parquet")
    for split in ("train", "val", "test"):
        rows = [
            {"text": f"[cs.CV] about images in math.AC {split}", "label": "cs.CV"},
            {"text": "x", "label": "math.AC"},
        ]
        (tmp_path / f"{split}_data.txt").write_text("\n".join(map(json.dumps, rows)))
    titles, texts = [f"T{n}" for n in range(30)], [f"article {n}" for n in range(29)] + [" \n"]
    frame = pd.DataFrame({"id": "1", "url": "u", "title": titles, "text": texts})
    frame.to_parquet(tmp_path / "wiki-0.parquet")
    rows = [{"title": None, "text": "news " * n, "url": "u", "domain": "d", "publish_date": "x"} for n in range(1, 31)]
    data = "\n".join(json.dumps(row) for row in rows).encode()
    with tarfile.open(tmp_path / "realnews.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("realnews/realnews.jsonl")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return tmp_path


def test_the_whole_profile_is_built_and_read(root, hub, monkeypatch):
    monkeypatch.setenv("THESIS_DATA", str(root))
    monkeypatch.setattr(builders, "home", lambda: hub / "home")
    monkeypatch.setattr(thesis, "PIECE", 8)
    monkeypatch.setattr(thesis, "IMDB_FILES", str(hub / "{split}-*.parquet"))
    monkeypatch.setattr(thesis, "ARXIV_FILES", str(hub / "{split}_data.txt"))
    files = {"build.wikipedia": [str(hub / "wiki-*.parquet")], "build.news": [str(hub / "realnews.tar.gz")]}
    sizes = {"corpus.train_documents": 24, "corpus.validation_documents": 4, "training.documents": 12}
    sizes |= {"training.cca_batch_size": 6, "final.documents": 12}
    sizes["corpus.folders"] = ["wikipedia", {"folder": "news", "min_tokens": 15}]
    profile = profiles.load("thesis", overrides={**files, **sizes})
    place = sources.root(profile)
    assert check.main([str(place)]) == 0
    assert len(list((place / "wikipedia/documents").iterdir())) == 4 and len(Documents(place, "wikipedia")) == 29
    selection = corpus.select(profile, tokenizer=lambda: lambda texts, **_: {"input_ids": [t.split() for t in texts]})
    found = corpus.read(profile, selection)
    assert [d.source for d in found.train[:4]] == ["wikipedia", "news"] * 2
    assert min(len(d.text.split()) for d in found.train if d.source == "news") >= 15
    held = tasks.read(profile)
    assert list(held) == list(profile.tasks.names)
    assert (held["IMDB"].folds, held["IMDB"].classes, list(held["IMDB"].inputs)) == (5, ["0", "1"], ["train", "test"])
    assert held["ARXIV"].texts["validation/0"] == "[] about images in  val" and len(held["PAN"].inputs["test"]) == 3
