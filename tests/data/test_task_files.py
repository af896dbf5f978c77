"""Tasks of dataset folders: the kinds, and what would make results wrong."""

import json
import unicodedata

import numpy as np
import pytest

from lib.data import task_files
from lib.data.dataset_folder import find_dataset
from lib.data.examples import read_examples


@pytest.fixture
def root(tmp_path, write):
    write(tmp_path / "own/documents.jsonl", *({"id": n, "text": f"text {n}"} for n in range(60)))
    tasks = tmp_path / "own/tasks"
    for split, order, rows in (("train", "ab", range(40)), ("test", "ba", range(40, 50))):
        labelled = ({"id": str(n), "label": order[n % 2]} for n in rows)
        write(tasks / f"topics/{split}.jsonl", *labelled)
    for split, start in (("train", 0), ("validation", 20), ("test", 40)):
        pairs = ({"a": n, "b": n + 1, "label": n % 2} for n in range(start, start + 10))
        write(tasks / f"links/{split}.jsonl", *pairs)
    write(tasks / "related/relevant.json", {"0": ["1", 2], "5": ["0"]})
    events = ({"id": n, "label": label} for n, label in enumerate(["x", "y", "y "]))
    write(tasks / "events/clusters.jsonl", *events)
    return tmp_path


def read(root, task, **settings):
    return task_files.read_task(find_dataset([root], f"own/{task}"), **settings)


def examples(task, split):
    rows = zip(task.inputs[split], task.labels[split], strict=True)
    return [(ids, task.classes[label]) for ids, label in rows]


def test_all_kinds(root):
    links, related, events = (read(root, task) for task in ("links", "related", "events"))
    assert (links.kind, related.kind, events.kind) == ("classification", "retrieval", "clustering")
    assert examples(links, "validation")[:2] == [(("20", "21"), "0"), (("21", "22"), "1")]
    assert related.relevant == {"0": ["1", "2"], "5": ["0"]}
    assert events.clusters == {"0": "x", "1": "y", "2": "y"}
    assert not links.notes + related.notes + events.notes and links.folds is None


@pytest.mark.parametrize("options", [{}, {"folds": 4}, {"cross_fit": True}, {"blocks": 3}])
def test_what_has_no_split_is_cross_validated_on_train(root, options):
    """Chapter 4 validates, and Chapter 5 tests, on test.jsonl if it is there."""
    task = read(root, "topics", **options)
    pooled, folds = "blocks" in options, {5, *options.values()}
    assert task.folds in folds and list(task.inputs) == ["train", "test"][: 1 if pooled else 2]
    assert task.held_out() == {str(n) for n in range(50)}, "each is tested in one of the chapters"
    parts = read_examples("topics", task, "validation", per_split=100).parts
    assert len(parts) == task.folds
    assert sorted(row for _, test in parts for row in test) == [*range(50 if pooled else 40)]
    tested = read_examples("topics", task, "test", per_split=0)
    counts = [len(part) for part in tested.parts[0]]
    assert counts == ([33, 17] if pooled else [8, 2] if task.cross_fit else [40, 10])


STAR = [(0, n) for n in range(50, 60)] + [(n, n + 1) for n in range(1, 40)]  # and a chain
RING = [(n, (n + step) % 60) for step in (1, 2, 3) for n in range(60)]


@pytest.mark.parametrize("pairs", [STAR, RING])
@pytest.mark.parametrize("groups", [60, 30])
def test_pairs_that_hang_together_are_tested_by_what_shares_no_text_with_them(
    root, write, pairs, groups
):
    rows = ({"id": n, "text": f"text {n}", "group": f"g{n % groups}"} for n in range(60))
    write(root / "own/documents.jsonl", *rows)
    labelled = ({"a": a, "b": b, "label": n % 2} for n, (a, b) in enumerate(pairs))
    write(root / "own/tasks/links/train.jsonl", *labelled)
    for split in ("validation", "test"):
        (root / f"own/tasks/links/{split}.jsonl").unlink()
    task = read(root, "links", folds=3)
    chosen = read_examples("links", task, "test", per_split=0)
    assert len({*chosen.tested}) == len(chosen.tested) > len(pairs) / 6, "none of them twice"
    names = np.array([int(text_id) % groups for text_id in chosen.text_ids])[chosen.inputs]
    for train, test in chosen.parts:
        assert len(train) and not {*names[train].flat} & {*names[test].flat}
    if pairs is STAR and groups == 60:
        assert {*range(10)} < {*chosen.tested}, "leaves are not cut off"


def test_texts_that_carry_a_mark_are_left_out(root):
    task = read(root, "topics", blocks=5, without=r"\b[34]\d\Z")
    assert {*task.texts} == {str(n) for n in range(30)} and len(task.inputs["train"]) == 30
    assert "20 examples left out" in task.notes[0]


def test_what_a_corpus_must_not_hold(root):
    links = read(root, "links")
    assert links.held_out() == {str(n) for n in (*range(20, 31), *range(40, 51))}
    assert read(root, "topics", folds=5).held_out() == {str(n) for n in range(50)}
    assert read(root, "related").held_out() == {"0", "1", "2", "5"}
    assert read(root, "events").held_out() == {"0", "1", "2"}
    contents = task_files.held_out_contents({"links": links, "again": links})
    assert contents.dtype == np.uint64 and len(contents) == 22


@pytest.mark.parametrize("task", ["topics", "links", "related", "events"])
@pytest.mark.parametrize("limit", [18, 20])
def test_fewer_texts_have_whole_examples_of_each_split_in_turn(root, write, task, limit):
    relevant = {str(n): [n + 1, n + 2] for n in range(0, 45, 3)}
    write(root / "own/tasks/related/relevant.json", relevant)
    write(root / "own/tasks/events/clusters.jsonl", *({"id": n, "label": n} for n in range(40)))
    whole = read(root, task)
    few, again, other = (task_files.limit_texts(whole, limit, seed) for seed in (0, 0, 1))
    assert few.texts == again.texts != other.texts and few.texts.items() <= whole.texts.items()
    assert limit - 1 <= len(few.texts) <= limit
    used = {text_id for ids in few.examples["ids"] for text_id in ids}
    if task == "related":
        assert len(few.relevant) == limit // 3 and all(len(t) == 2 for t in few.relevant.values())
    else:
        assert used == {*few.texts}
        counts = [len(ids) for ids in few.inputs.values()]
        assert not counts or max(counts) <= min(counts) + (4 if task == "links" else 1)
    assert task_files.limit_texts(whole, 60, seed=0) is task_files.limit_texts(whole, None, 0)
    held_out = [task_files.held_out_contents({"": each}).tolist() for each in (whole, few)]
    assert held_out[0] == held_out[1], "what a limit cuts off is not trained on either"
    if task in ("topics", "links"):
        with pytest.raises(ValueError, match="a class of a split has no examples"):
            task_files.limit_texts(whole, 2, seed=0)


PAIR = {"a": "0", "b": "1", "label": 1}
LINKS = "links/train.jsonl"
TWICE = [{"id": 0, "label": "a"}, {"id": 0, "label": "b"}]
IN_TRAIN = [{"a": 50, "b": 51, "label": 1}, {"a": 4, "b": 3, "label": 1}]


@pytest.mark.parametrize(
    "file, rows, message",
    [
        (LINKS, [PAIR, {**PAIR, "b": "99"}], "train.jsonl:2: expected 2 different documents"),
        (LINKS, [{**PAIR, "b": "0"}], "train.jsonl:1: expected 2 different"),
        (LINKS, [PAIR, {"a": 1, "b": 2}], "train.jsonl:2: .* and a label"),
        (LINKS, [PAIR, {"a": "1", "b": "0", "label": 0}], r"\('0', '1'\) .* have two labels"),
        (LINKS, [PAIR, {**PAIR, "label": ["a", "b"]}], "train.jsonl:2: .*expected one name, got"),
        ("links/dev.jsonl", [PAIR], r"found \['dev.jsonl', "),
        ("events/test.jsonl", [PAIR], r"found \['clusters.jsonl', 'test.jsonl'"),
        ("links/test.jsonl.gz", [PAIR], r"found \['test.jsonl', 'test.jsonl.gz', "),
        ("links/test.jsonl", [{"a": 40, "b": 41, "label": 7}], "all of them in train.jsonl"),
        ("links/test.jsonl", IN_TRAIN, r"\('3', '4'\) are in two splits"),
        ("related/relevant.json", [{"0": ["77"]}], "relevant.json: expected 2 different"),
        ("related/relevant.json", [{"0": "12"}], "relevant.json: .*'b': '12'"),
        ("related/relevant.json", [{"0": ["13"], "1": []}], r"relevant.json: .*got \[\]"),
        ("related/relevant.json", ["{"], "relevant.json: "),
        ("events/clusters.jsonl", TWICE, "have two labels"),
    ],
)
def test_what_would_make_a_number_wrong_is_refused(root, write, file, rows, message):
    write(root / "own/documents.jsonl", *({"id": n, "text": f"{n}"} for n in range(60) if n != 12))
    write(root / "own/tasks" / file, *rows)
    with pytest.raises(ValueError, match=message):
        read(root, file.partition("/")[0])
    with pytest.raises(ValueError, match="own/link: found 0 of this name in"):
        read(root, "link")


@pytest.mark.parametrize("names", [["match", "no match"], ["no", "perhaps", "yes"]])
def test_labels_of_pairs_say_which_pairs_belong_together(root, write, names):
    for split in task_files.SPLITS:
        (root / f"own/tasks/links/{split}.jsonl").unlink()
    rows = [{"a": n, "b": n + 1, "label": names[n % len(names)]} for n in range(10)]
    write(root / "own/tasks" / LINKS, *rows)
    with pytest.raises(ValueError, match=rf"'true'.*second .* belong together.*got .'{names[0]}'"):
        read(root, "links")


def test_what_real_data_have_is_kept_and_counted(root, write):
    rows = [{"id": n, "text": "" if n in (1, 3) else f"text {n % 50}"} for n in range(60)]
    rows = [row | {"group": f"g{row['id'] // 9}" + " " * (row["id"] % 2)} for row in rows]
    write(root / "own/documents.jsonl", b"\xef\xbb\xbf" + json.dumps(rows[0]).encode(), *rows[1:])
    with (root / "own/tasks/links/train.jsonl").open("a") as stream:
        for a, b in ((8, 9), (9, 8), (5, 55)):
            pair = {"a": a, "b": b, "label": 0}
            stream.write("\n" + json.dumps(pair))
    with (root / "own/tasks/links/test.jsonl").open("a") as stream:
        stream.write("\n" + json.dumps({"a": 6, "b": 4, "label": 1}))
    links = read(root, "links")
    assert links.notes == (
        "4 examples left out, with texts that are blank or unwanted",
        "2 examples repeat others, and count again",
        "2 texts are in more than one split",
        "1 groups are in more than one split",
    )
    assert len(links.inputs["train"]) == 9 and "1" not in links.texts
    assert links.groups["4"] == links.groups["5"] == "g0"
    assert read(root, "related").relevant == {"0": ["2"], "5": ["0"]}
    assert read(root, "events").clusters == {"0": "x", "2": "y"}
    rows = {"id": 0, "label": -1}, {"id": 4, "label": "-1.0"}
    write(root / "own/tasks/events/clusters.jsonl", *rows)
    told = ("the label -1 counts like any other", "the labels -1 and -1.0 are different ones")
    assert read(root, "events").notes == told


def test_names_are_the_same_in_either_canonical_form(root, write):
    """Ids, labels and groups."""
    typed, held = (lambda name, f=form: unicodedata.normalize(f, name) for form in ("NFC", "NFD"))
    rows = ({"id": held(f"é{n}"), "text": f"{n}", "group": held(f"à{n}")} for n in range(20))
    write(root / "own/documents.jsonl", *rows)
    for split, numbers in {"train": range(16), "test": range(16, 20)}.items():
        labels = [(typed, held)[n // 2 % 2]("éñ"[n % 2]) for n in range(20)]
        examples = ({"id": typed(f"é{n}"), "label": labels[n]} for n in numbers)
        write(root / f"own/tasks/topics/{split}.jsonl", *examples)
    task = read(root, "topics")
    assert task.classes == ["é", "ñ"] and task.inputs["test"] == [(f"é{n}",) for n in range(16, 20)]
    assert {*task.groups} == {*task.texts} and task.groups["é3"] == "à3"
