"""The thesis' sources, on tiny files in their formats, become dataset folders that read well."""

import json
import pickle
import shutil

import pooch
import pytest

from lib.config import profiles
from lib.data import check, task_files
from lib.recipes import thesis, write_folders
from tests import thesis_files

PROFILE = profiles.load("thesis")
FILES = PROFILE.build.tasks
DOI = "doi:10.5281/zenodo.1"


def test_a_record_is_downloaded_once_and_whole(tmp_path, monkeypatch):
    content, fetched = {"wines.txt": b"0123456789", "more.txt": None}, []

    class Record:  # as pooch reads one
        def __init__(self, folder, url):
            self.folder, self.registry = folder, content if url == f"{DOI}/" else {}
            self.load_registry_from_doi = lambda: None

        def fetch(self, name, processor):
            fetched.append(name)
            (self.folder / name).write_bytes(content[name])

    monkeypatch.setattr(pooch, "create", Record)
    with pytest.raises(TypeError):
        thesis.fetch_file(tmp_path, "wines.txt", DOI)
    assert not list(tmp_path.rglob("wines.txt")), "half a record is none"
    content["more.txt"] = b"more"
    for _ in range(2):
        path = thesis.fetch_file(tmp_path, "wines.txt", DOI)
        assert path.read_bytes() == content["wines.txt"] and len(fetched) == 4
    (tmp_path / "wines.txt").write_text("a copy at hand")
    assert thesis.fetch_file(tmp_path, "wines.txt", DOI) == tmp_path / "wines.txt"


@pytest.fixture
def root(tmp_path):
    """Downloads of a pair task and of a retrieval."""
    for file, split in zip(FILES["pan/plagiarism"], ("train", "dev", "test"), strict=True):
        cited, twin = f"cited \001aligned\001 {split}", f"twin {split}"
        rows = [
            [1, "shared, text", cited],
            [0, "shared, text", f"other\n{split}"],
            [0, twin, twin],
            [0, "shared, text", cited],  # the first pair with the other label
            [0, cited, "shared, text"],  # and the other way round
            [1, "shared, text", "cited  aligned  train"],  # of another split, or the first again
            [1, "cited  aligned  train", "shared, text"],  # in the other order
        ]
        (tmp_path / file).write_bytes(thesis_files.table(rows))
    parts = [("", "Lead."), ("Empty", ""), ("Taste", "It is dry.")]
    articles = [["title", "sections"], *([title, str(parts)] for title in ("A", "B", "NA"))]
    (tmp_path / "wines.txt").write_bytes(thesis_files.table(articles))
    gold = {"A": {"B": 1, "Gone": 1}, "NA": {"Gone": 1}, "Lost": {"A": 1}, "B": {"A": 1, "NA": 1}}
    (tmp_path / "wines.gt").write_bytes(pickle.dumps(gold, protocol=4))
    return tmp_path


def write_task(place, root):
    """Write a task; return its documents and its folder."""
    (folder := root / "out").mkdir()
    thesis.write_task(FILES[place], "task", root, folder)
    assert not [line for line in check.findings(folder) if ": error: " in line]
    return read_lines(folder / "documents.jsonl"), folder / "tasks/task"


def read_lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_pairs(root, capsys):
    documents, folder = write_task("pan/plagiarism", root)
    texts = {row["id"]: row["text"] for row in documents}
    first, second, twins = read_lines(folder / "validation.jsonl")
    assert (first["label"], second["label"], first["a"]) == ("1", "0", second["a"])
    assert texts[first["a"]] == "shared, text" and texts[second["b"]] == "other\ndev"
    assert texts[first["b"]] == "cited  aligned  dev" and texts[twins["a"]] == texts[twins["b"]]
    assert len(read_lines(folder / "train.jsonl")) == 5, "an example may be there again"
    told = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[-1].split()[0] for line in told] == ["2", "4", "4"]


def test_retrieval(root, capsys):
    documents, folder = write_task("wines/similar", root)
    assert "['Gone', 'Lost']" in capsys.readouterr().out
    rows = [["title", "sections"], ["A", "[]"], ["A", "[]"]]
    (root / "wines.txt").write_bytes(thesis_files.table(rows))
    with pytest.raises(ValueError, match=r"wines\.txt.*two articles are called 'A'"):
        thesis.write_task(FILES["wines/similar"], "task", root, root / "again")
    assert documents[0] == {"id": "A", "text": "A\nLead.\nTaste\nIt is dry."}
    assert json.loads((folder / "relevant.json").read_text()) == {"A": ["B"], "B": ["A", "NA"]}


def test_a_pattern_needs_a_file_and_texts_never_name_their_class(tmp_path):
    papers, absent = tmp_path / "papers.jsonl", str(tmp_path / "absent*.jsonl")
    papers.write_text('{"text": "math.AC: a ring", "label": "0"}\n')
    assert [*thesis._read_singles({"train": str(papers)})[0].values()] == [": a ring"]
    with pytest.raises(ValueError, match="absent.*: no such file"):
        thesis.write_corpus([str(papers), absent], tmp_path / "out")


def test_a_pickle_with_code_is_refused_unexecuted(root, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "executed"), "w"))

    (root / "wines.gt").write_bytes(pickle.dumps({"A": Evil()}))
    with pytest.raises(ValueError, match=r"wines\.gt: .*it holds "):
        thesis.write_task(FILES["wines/similar"], "task", root, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_the_whole_profile_is_built_once_and_read(tmp_path, monkeypatch):
    """From all that it downloads, in the true formats: a hub cache, and a folder."""
    (tmp_path / "data").mkdir()
    thesis_files.hub(tmp_path / "hub", PROFILE)
    for name, content in thesis_files.archives(PROFILE).items():
        (tmp_path / "data" / name).write_bytes(content)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "data"))
    built = write_folders(PROFILE.build, tmp_path / "home")
    assert check.main([str(built)]) == 0
    tasks = task_files.read_tasks([built], PROFILE.tasks)
    assert list(tasks) == list(PROFILE.tasks.folders), "each where the profile looks for it"
    assert tasks["ARXIV"].texts["validation/0"].startswith("[] "), "without the class"
    assert len(tasks["PAN"].inputs["test"]) == 12
    for folder in ("hub", "data"):  # nothing is asked for again
        shutil.rmtree(tmp_path / folder)
    assert write_folders(PROFILE.build, tmp_path / "home") == built


def test_half_a_set_of_the_hub_and_a_branch_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(thesis, "snapshot_download", lambda *_, **__: tmp_path)
    with pytest.raises(ValueError, match="main/x: expected hf://.*<commit>"):
        thesis.fetch_hub("hf://a/b@main/x")
    (tmp_path / "train-00000-of-00002.parquet").touch()
    place = f"hf://datasets/a/b@{'1' * 40}/*.parquet"
    with pytest.raises(ValueError, match="1 of 2 files are there"):
        thesis.fetch_hub(place)
    (tmp_path / "train-00001-of-00002.parquet").touch()
    assert [path.name[:11] for path in thesis.fetch_hub(place)] == ["train-00000", "train-00001"]


@pytest.mark.parametrize(
    "content, told",
    [
        (b'1,a,b\n0,c,"cut', "EOF inside string"),
        (b'1,"two\nlines",b\n2,a,b\n', "expected the labels 0 and 1, found '2'"),
        (b"1,a,b\n0,c,d,e\n", "Expected 3 fields in line 2, saw 4"),
    ],
)
def test_a_damaged_file_of_a_task_is_refused_by_its_name(root, tmp_path, content, told):
    (root / "pla_dev.csv").write_bytes(content)
    with pytest.raises(ValueError, match=rf"pla_dev\.csv: .*{told}"):
        thesis.write_task(FILES["pan/plagiarism"], "task", root, tmp_path)
