"""Tasks of dataset folders: the four kinds, and everything that a person's files can have wrong."""

import json

import numpy as np
import pytest

from lib.data import check, task_files


@pytest.fixture
def root(tmp_path, write):
    write(tmp_path / "own/documents.jsonl", *({"id": n, "text": f"text {n}"} for n in range(60)))
    tasks = tmp_path / "own/tasks"
    write(tasks / "topics/train.jsonl", *({"id": str(n), "label": "ab"[n % 2]} for n in range(40)))
    write(
        tasks / "topics/test.jsonl", *({"id": str(n), "label": "ba"[n % 2]} for n in range(40, 50))
    )
    for split, start in (("train", 0), ("validation", 20), ("test", 40)):
        write(
            tasks / f"links/{split}.jsonl",
            *({"a": n, "b": n + 1, "label": n % 2} for n in range(start, start + 10)),
        )
    write(tasks / "related/relevant.json", {"0": ["1", 2], "5": ["0"]})
    write(
        tasks / "events/clusters.jsonl",
        *({"id": n, "label": label} for n, label in enumerate("xyy")),
    )
    return tmp_path


def read(root, task, **settings):
    return task_files.read_task(task_files.find_task([root], f"own/{task}"), **settings)


def examples(task, split):
    return [
        (ids, task.classes[label])
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True)
    ]


def test_all_kinds(root):
    links, related, events = (read(root, task) for task in ("links", "related", "events"))
    assert links.kind == "classification" and examples(links, "validation")[:2] == [
        (("20", "21"), "0"),
        (("21", "22"), "1"),
    ]
    assert related.kind == "retrieval" and related.relevant == {"0": ["1", "2"], "5": ["0"]}
    assert events.kind == "clustering" and events.clusters == {"0": "x", "1": "y", "2": "y"}
    assert not links.notes + related.notes + events.notes
    folded = read(root, "topics", folds=5)
    assert (
        folded.kind == "classification"
        and len(folded.inputs["train"]) == 40
        and "validation" not in folded.inputs
    )


def test_what_a_corpus_must_not_hold(root):
    assert read(root, "links").held_out() == {str(n) for n in (*range(20, 31), *range(40, 51))}
    assert read(root, "topics", folds=5).held_out() == {str(n) for n in range(50)}
    assert read(root, "related").held_out() == {"0", "1", "2", "5"}
    assert read(root, "events").held_out() == {"0", "1", "2"}


def test_fewer_texts_are_those_that_most_examples_use(root, write):
    pairs = (
        [(0, n) for n in range(1, 9)] + [(1, n) for n in range(2, 9)] + [(2, 3), (50, 51), (52, 53)]
    )
    for split, ends in (
        ("train", pairs),
        ("validation", [(2, 4), (3, 4), (54, 55)]),
        ("test", [(3, 5), (4, 5), (56, 57)]),
    ):
        write(
            root / f"own/tasks/links/{split}.jsonl",
            *({"a": a, "b": b, "label": n % 2} for n, (a, b) in enumerate(ends)),
        )
    task = task_files.limit_texts(read(root, "links"), 6, seed=0)
    assert [*task.texts] == list("012345")
    assert task.inputs["train"] == [(str(a), str(b)) for a, b in pairs if b < 6]
    assert task.inputs["validation"] == [("2", "4"), ("3", "4")] and task.inputs["test"] == [
        ("3", "5"),
        ("4", "5"),
    ]
    assert task.held_out() == set("2345") and task_files.limit_texts(task, 6, seed=0) is task


def test_fewer_texts_keep_as_many_single_documents_of_each_split(root):
    whole = read(root, "topics", seed=1)
    task = task_files.limit_texts(whole, 16, seed=0)
    assert {split: len(ids) for split, ids in task.inputs.items()} == {
        "train": 6,
        "validation": 4,
        "test": 6,
    }
    assert {*examples(task, "test")} < {*examples(whole, "test")} and len(task.texts) == 16
    assert (
        task_files.limit_texts(whole, 16, seed=1).inputs
        != task.inputs
        == task_files.limit_texts(whole, 16, 0).inputs
    )
    assert task_files.limit_texts(whole, None, 0) is whole


def test_fewer_texts_keep_sources_and_targets_first(root):
    task = task_files.limit_texts(read(root, "related"), 5, seed=0)
    assert (
        {"0", "1", "2", "5"} < {*task.texts}
        and len(task.texts) == 5
        and task.relevant == {"0": ["1", "2"], "5": ["0"]}
    )
    events = task_files.limit_texts(read(root, "events"), 2, seed=0)
    assert {*events.clusters} == {*events.texts} and len(events.texts) == 2


def test_too_few_texts_are_refused(root):
    with pytest.raises(ValueError, match="2 of 50 texts leave a class without examples"):
        task_files.limit_texts(read(root, "topics", folds=5), 2, seed=0)


def test_missing_validation_is_a_stratified_seeded_part_of_train(root, write):
    task = read(root, "topics", seed=1)
    assert (
        list(task.inputs) == ["train", "validation", "test"]
        and "no validation.jsonl" in task.notes[0]
    )
    assert task.classes == ["a", "b"] and sorted(task.labels["validation"]) == [0, 0, 1, 1]
    assert (
        not set(task.inputs["validation"]) & set(task.inputs["train"])
        and len(task.inputs["train"]) == 36
    )
    assert read(root, "topics", seed=1).inputs == task.inputs != read(root, "topics", seed=2).inputs
    write(
        root / "own/tasks/topics/train.jsonl", *({"id": n, "label": "ab"[n > 1]} for n in range(5))
    )
    assert sorted(read(root, "topics").labels["validation"]) == [0, 1], (
        "one of each class where a tenth is less"
    )


def test_validation_taken_from_train_never_cuts_a_group(root, write):
    groups = {str(n): f"g{n // 4}" for n in range(40)}
    rows = ({"id": n, "text": f"text {n}", "group": groups.get(str(n), "")} for n in range(60))
    write(root / "own/documents.jsonl", *rows)
    task = read(root, "topics")
    sides = [{groups[ids[0]] for ids in task.inputs[split]} for split in ("train", "validation")]
    assert all(sides) and not sides[0] & sides[1] and "no validation.jsonl" in task.notes[-1]
    write(
        root / "own/documents.jsonl",
        *({"id": n, "text": f"text {n}", "group": "all"} for n in range(60)),
    )
    with pytest.raises(
        ValueError, match="topics: no tenth of train leaves all groups whole and all classes; add"
    ):
        read(root, "topics")


def test_examples_share_a_group_through_any_of_their_texts():
    assert task_files.number_groups([("a",), ("b",)], {}) is None
    numbers = task_files.number_groups(
        [("a", "b"), ("c", "d"), ("b", "e"), ("f", "f"), ("d", "x")], {"a": "1", "d": "1"}
    )
    assert (
        numbers[0] == numbers[1] == numbers[2] == numbers[4] != numbers[3]
        and numbers.dtype == np.int64
    )


PAIR = {"a": "0", "b": "1", "label": 1}
SECOND = {"a": "2", "b": "3", "label": 0}
# File (relevant is .json, the others .jsonl), its lines, what is said.
WRONG = [
    ("links/train", [PAIR, {**PAIR, "b": "99"}], r"links/train\.jsonl:2: id '99' is no document of this folder"),
    ("links/train", [{"a": "0", "b": "1"}], r"train\.jsonl:1: 'label': missing; found: a, b$"),
    ("links/train", [{"a": "0", "label": 1}], r"train\.jsonl:1: 'b': missing; found: a, label$"),
    ("links/train", [PAIR, {"id": "0", "label": 1}], r"train\.jsonl:2: 'a': missing; found: id, label$"),
    ("links/train", [], r"train\.jsonl: expected at least one line"),
    ("links/train", [PAIR, SECOND, {**PAIR, "label": 0}], r"train\.jsonl:3: 0 and 1 has .*'0', and '1' at .*:1$"),
    ("links/train", [PAIR, SECOND, {"a": "1", "b": "0", "label": 0}], r"jsonl:3: 1 and 0 has .*, and '1' at .*:1$"),
    ("links/train", [SECOND, {**PAIR, "b": "0"}], r"train\.jsonl:2: a and b are one document, '0'"),
    ("links/train", [PAIR, {**SECOND, "label": 1}], r"train\.jsonl:1: expected at least two classes in train.*got 1"),
    ("links/train", ['{"a": 0, "b": 1, "label": 1, "label": 0}'], r"jsonl:1: not JSON: the key 'label' stands twice"),
    ("links/train", [PAIR, b'{"a": "\xe9"}'], r"train\.jsonl:2: not JSON: 'utf-8' codec can't decode"),
    ("links/train", [PAIR, r'{"a": "0", "b": "2", "label": "\ud800"}'], r"jsonl:2: 'label': .* as a unicode string"),
    ("links/test", [SECOND, {"a": "0", "b": "9", "label": 7}], r"test\.jsonl:2: label '7' does not occur in train"),
    ("links/test", [{**PAIR, "a": "x"}, {**SECOND, "a": "y"}], r"test\.jsonl:1: id 'x' is no .*; 1 lines more$"),
    ("links/test", [{"id": "0", "label": 1}], r"test\.jsonl:1: 'a': missing; found: id, label$"),
    ("links/test", [{"a": 50, "b": 51, "label": 1}, {"a": 3, "b": 4, "label": 1}],
     r"test\.jsonl:2: 3 and 4 is in train\.jsonl too"),
    ("topics/train", [{"id": 0, "label": "a"}, {"id": 0, "label": "b"}], r"train\.jsonl:2: 0 has the label 'b'"),
    ("topics/train", [{"id": 0, "label": ""}, {"id": 1, "label": "a"}, {"id": 2, "label": "b"}],
     r"topics: no tenth of train leaves .* add validation\.jsonl"),
    ("topics/test", [{"id": 45, "label": "a"}, {"id": 7, "label": "a"}], r"test\.jsonl:2: 7 is in train\.jsonl too"),
    ("related/relevant", [{"0": ["77"]}], r"relevant\.json: source '0': id '77' is no document"),
    ("related/relevant", [{"0": []}], r"relevant\.json: '0': List should have at least 1"),
    ("related/relevant", [{"0": "1"}], r"relevant\.json: '0': Input should be a valid list"),
    ("related/relevant", [{"0": ["0"]}], r"relevant\.json: source '0' lists itself"),
    ("related/relevant", ['{"0": ["1"], "0": ["2"]}'], r"relevant\.json: not JSON: the key '0' stands twice"),
    ("related/relevant", ["{", "["], r"relevant\.json: not JSON: .* line 2"),
    ("related/relevant", [{}], r"relevant\.json: Dictionary should have at least 1"),
    ("related/relevant", ["{", b'"\xe9"}'], r"relevant\.json: not JSON: 'utf-8' codec can't decode"),
    ("events/clusters", [PAIR], r"clusters\.jsonl:1: 'id': missing; found: a, b, label$"),
    ("events/clusters", [{"id": 0, "label": "x"}, {"id": 0, "label": "y"}], r":2: 0 has the label 'y'"),
    ("events/clusters", [{"id": 0, "label": "x"}, {"id": 1, "label": "x"}], r"jsonl:1: expected at least two.* got x$"),
    ("events/train", [{"id": 0, "label": "x"}], r"events: expected a folder with .* found clusters.jsonl and train"),
]  # fmt: skip


@pytest.mark.parametrize("file, rows, message", WRONG)
def test_what_is_wrong_is_said_in_one_line(root, write, file, rows, message):
    write(root / "own/tasks" / (file + (".json" if file.endswith("relevant") else ".jsonl")), *rows)
    with pytest.raises(ValueError, match=message) as error:
        read(root, file.split("/")[0])
    assert "\n" not in str(error.value)


def test_missing_things(root):
    (root / "own/tasks/links/test.jsonl").unlink()
    with pytest.raises(ValueError, match=r"links: expected test\.jsonl and no folds, or folds"):
        read(root, "links")
    with pytest.raises(
        ValueError, match="tasks/link: expected a folder with train.jsonl .* found none of them"
    ):
        read(root, "link")
    with pytest.raises(
        ValueError, match="links: expected .* folds of train.jsonl without validation.jsonl"
    ):
        read(root, "links", folds=5)
    with pytest.raises(ValueError, match="related: expected .* no folds"):
        read(root, "related", folds=5)


def test_what_real_data_have_is_kept_and_counted(root, write):
    rows = [{"id": n, "text": "" if n in (1, 3) else f"text {n % 50}"} for n in range(60)]
    write(root / "own/documents.jsonl", *rows)
    with (root / "own/tasks/links/train.jsonl").open("a") as stream:
        for pair in ({"a": 8, "b": 9, "label": 0}, {"a": 5, "b": 55, "label": 0}):
            stream.write("\n" + json.dumps(pair))
    with (root / "own/tasks/links/test.jsonl").open("a") as stream:
        stream.write("\n" + json.dumps({"a": 6, "b": 5, "label": 1}))
    links = read(root, "links")
    assert links.notes == (
        "train.jsonl: 1 examples stand there twice",
        "train.jsonl: 1 pairs join two documents of one text",
        "train.jsonl: 4 examples left out: a document without text",
        "3 texts are in both train and test",
    )
    assert len(links.inputs["train"]) == 8 and "1" not in links.texts
    assert read(root, "related").relevant == {"0": ["2"], "5": ["0"]}
    events = read(root, "events")
    assert (
        events.clusters == {"0": "x", "2": "y"}
        and "clusters.jsonl: 1 examples left out" in events.notes[0]
    )


def test_what_may_make_a_result_look_better_is_said(root, write, capsys):
    """A byte order mark is no part of a line, and a file in the place of a task is an error."""
    rows = [{"id": n, "text": f"text {n % 58}", "group": f"g{n // 9}"} for n in range(60)]
    write(root / "own/documents.jsonl", b"\xef\xbb\xbf" + json.dumps(rows[0]).encode(), *rows[1:])
    labels = {**{n: "ab"[n % 2] for n in range(40)}, 58: "b", 59: "b"}
    singles = [json.dumps({"id": n, "label": label}).encode() for n, label in labels.items()]
    write(root / "own/tasks/topics/train.jsonl", b"\xef\xbb\xbf" + singles[0], *singles[1:])
    turned = {"a": 1, "b": 0, "label": 0}
    write(
        root / "own/tasks/links/train.jsonl",
        {**turned, "a": 0, "b": 1},
        turned,
        {"a": 3, "b": 4, "label": 1},
    )
    write(root / "own/tasks/q", "notes")
    assert check.main([str(root / "own")]) == 2
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in printed if ": error: " in line] == [
        f"own/q: error: {root / 'own/tasks/q'}: expected a folder with train.jsonl and test.jsonl, or relevant.json, "
        "or clusters.jsonl, found none of them"
    ]
    assert {
        "own/topics: note: train.jsonl: 1 examples have the text of an earlier one and another label",
        "own/topics: note: 1 groups are in both train and test",
        "own/links: note: train.jsonl: 1 pairs stand there in the other order too",
    } <= set(printed)
