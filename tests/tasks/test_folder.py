"""Tasks from dataset folders."""

import json

import numpy as np
import pytest

from lib import tasks


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")


@pytest.fixture
def root(tmp_path):
    write(tmp_path / "own/documents.jsonl", [{"id": n, "text": f"text {n}"} for n in range(60)])
    kinds = tmp_path / "own/tasks"
    write(kinds / "topics/train.jsonl", [{"id": str(n), "label": "ab"[n % 2]} for n in range(40)])
    write(kinds / "topics/test.jsonl", [{"id": str(n), "label": "ba"[n % 2]} for n in range(40, 50)])
    for split, start in (("train", 0), ("validation", 20), ("test", 40)):
        write(kinds / f"links/{split}.jsonl", [{"a": n, "b": n + 1, "label": n % 2} for n in range(start, start + 10)])
    write(kinds / "related/relevant.json", [{"0": ["1", "2"], "5": ["0"]}])
    write(kinds / "events/clusters.jsonl", [{"id": "0", "label": "x"}, {"id": "1", "label": "y"}])
    return tmp_path


FOLDERS = {"ARXIV": "own/topics", "IMDB": "own/topics", "OC": "own/links", "GAMES": "own/related", "NEWS": "own/events"}


def test_all_kinds(root):
    found = tasks.load("folder", list(FOLDERS), root=root, folders=FOLDERS)
    links = found["OC"]
    assert links.inputs["validation"][:2] == [("own/20", "own/21"), ("own/21", "own/22")]
    assert links.labels["validation"][:2].tolist() == [0, 1] and links.classes == ["0", "1"] and links.notes == ()
    assert (
        found["GAMES"].relevant == {"own/0": ["own/1", "own/2"], "own/5": ["own/0"]} and len(found["GAMES"].texts) == 60
    )
    assert found["NEWS"].kind == "clustering" and found["NEWS"].clusters == {"own/0": "x", "own/1": "y"}
    assert found["IMDB"].folds == 5 and len(found["IMDB"].inputs["train"]) == 40


def test_missing_validation_is_a_stratified_seeded_part_of_train(root):
    def load(seed):
        return tasks.load("folder", ["ARXIV"], root=root, folders=FOLDERS, seed=seed)["ARXIV"]

    task = load(1)
    assert list(task.inputs) == ["train", "validation", "test"] and "no validation.jsonl" in task.notes[0]
    assert np.bincount(task.labels["validation"]).tolist() == [2, 2] and len(task.inputs["train"]) == 36
    assert not set(task.inputs["validation"]) & set(task.inputs["train"])
    assert load(1).inputs == task.inputs and load(2).inputs != task.inputs


@pytest.mark.parametrize(
    "file, rows, message",
    [
        (
            "links/train.jsonl",
            [{"a": "0", "b": "99", "label": 1}],
            r"links/train\.jsonl:1: id '99' is in no line of documents.jsonl",
        ),
        ("links/train.jsonl", [{"a": "0", "b": "1"}], r"train\.jsonl:1: \"label\" is missing"),
        ("links/train.jsonl", [{"a": "0", "label": 1}], r"train\.jsonl:1: 'b' is missing"),
        (
            "links/train.jsonl",
            [{"a": "0", "b": "1", "label": 1}, {"id": "0", "label": 1}],
            r"train\.jsonl:2: expected 2 ids",
        ),
        ("links/train.jsonl", [], r"train\.jsonl: expected at least one example"),
        (
            "links/test.jsonl",
            [{"a": "0", "b": "1", "label": 7}],
            r"test\.jsonl:1: label '7' does not occur in train.jsonl",
        ),
        ("links/test.jsonl", [{"id": "0", "label": 1}], r"links: some splits hold single documents, some pairs"),
        ("related/relevant.json", [{"0": ["77"]}], r"relevant\.json: source '0': id '77' is in no line"),
        ("related/relevant.json", [{"0": []}], r"relevant\.json: source '0' has no target"),
        ("related/relevant.json", ["{"], r"relevant\.json:1: not JSON"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(root, file, rows, message):
    write(root / "own/tasks" / file, rows)
    with pytest.raises(ValueError, match=message) as error:
        tasks.load("folder", ["OC", "GAMES"], root=root, folders=FOLDERS)
    assert "\n" not in str(error.value)


def test_missing_things(root):
    (root / "own/tasks/links/test.jsonl").unlink()
    with pytest.raises(ValueError, match=r"links/test\.jsonl: the test split is missing"):
        tasks.load("folder", ["OC"], root=root, folders=FOLDERS)
    with pytest.raises(ValueError, match="no such task; own has events, links, related, topics"):
        tasks.load("folder", ["OC"], root=root, folders={"OC": "own/link"})
    with pytest.raises(ValueError, match="no dataset folder for the task 'PAN'"):
        tasks.load("folder", ["PAN"], root=root, folders=FOLDERS)
    with pytest.raises(ValueError, match="expected OC: <dataset>/<task>, got 'own'"):
        tasks.load("folder", ["OC"], root=root, folders={"OC": "own"})


def test_what_needs_a_document_without_text_is_left_out_and_counted(root):
    rows = [{"id": n, "text": "" if n in (1, 3) else f"text {n}"} for n in range(60)]
    write(root / "own/documents.jsonl", rows)
    found = tasks.load("folder", ["OC", "GAMES", "NEWS"], root=root, folders=FOLDERS)
    assert found["OC"].notes == ("4 of 10 train examples left out: a document without text",)
    assert len(found["OC"].inputs["train"]) == 6 and "own/1" not in found["OC"].texts
    assert found["GAMES"].relevant == {"own/0": ["own/2"], "own/5": ["own/0"]} and found["GAMES"].notes == ()
    assert found["NEWS"].clusters == {"own/0": "x"} and "1 of 2 documents" in found["NEWS"].notes[0]
