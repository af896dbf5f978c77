"""Tasks of dataset folders: the kinds, and what would make results wrong."""

import json
import unicodedata

import numpy as np
import pytest

from lib.data import task_files
from lib.data.examples import group_examples, make_folds, read_examples


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
    events = ({"id": n, "label": label} for n, label in enumerate("xyy"))
    write(tasks / "events/clusters.jsonl", *events)
    return tmp_path


def read(root, task, **settings):
    return task_files.read_task(task_files.find_task([root], f"own/{task}"), **settings)


def examples(task, split):
    rows = zip(task.inputs[split], task.labels[split], strict=True)
    return [(ids, task.classes[label]) for ids, label in rows]


def test_all_kinds(root):
    links, related, events = (read(root, task) for task in ("links", "related", "events"))
    assert (links.kind, related.kind, events.kind) == ("classification", "retrieval", "clustering")
    assert examples(links, "validation")[:2] == [(("20", "21"), "0"), (("21", "22"), "1")]
    assert related.relevant == {"0": ["1", "2"], "5": ["0"]}
    assert events.clusters == {"0": "x", "1": "y", "2": "y"}
    assert not links.notes + related.notes + events.notes
    folded = read(root, "topics", folds=5)
    assert len(folded.inputs["train"]) == 40 and "validation" not in folded.inputs
    task = read(root, "topics", folds=5, cross_fit=True)
    assert task.cross_fit and list(task.inputs) == ["train", "test"]
    assert task.held_out() == {str(n) for n in range(50)}, "each is tested in one of the chapters"


def test_a_block_is_tested_by_what_shares_no_text_with_it(root, write):
    """Each pair of a chain shares a text with the next; 0 and its leaves are a star."""
    star = [(0, n) for n in range(50, 60)]
    chain = [(n, n + 1) for n in range(1, 40)]
    for split, pairs in (("train", chain[:30]), ("validation", chain[30:]), ("test", star)):
        rows = ({"a": a, "b": b, "label": n % 2} for n, (a, b) in enumerate(pairs))
        write(root / f"own/tasks/links/{split}.jsonl", *rows)
    task = read(root, "links", blocks=3, seed=1)
    assert list(task.inputs) == ["train"] and len(task.inputs["train"]) == len(star + chain)
    assert not task.notes and task.held_out() == {*task.texts}
    assert len({task.blocks[str(n)] for n in (0, *range(50, 60))}) == 1, "leaves are not cut off"
    folds = make_folds(task.labels["train"], 3, group_examples(task, "train"))
    tested = [row for _, test in folds for row in test]
    assert len({*tested}) == len(tested) >= len(star)
    for train, test in folds:
        sides = [{i for row in rows for i in task.inputs["train"][row]} for rows in (train, test)]
        assert sides[0] and sides[1] and not sides[0] & sides[1]
    assert read(root, "links", blocks=3, seed=1).blocks == task.blocks


@pytest.mark.parametrize("grouped", [False, True])
def test_pairs_that_hang_together_are_tested_by_what_shares_no_text_with_them(root, write, grouped):
    rows = ({"id": n, "text": f"text {n}", "group": f"g{n}"} for n in range(60))
    if grouped:
        write(root / "own/documents.jsonl", *rows)
    pairs = [(n, (n + step) % 60) for step in (1, 2, 3) for n in range(60)]
    (root / "own/tasks/links/validation.jsonl").unlink()
    told = [{"a": a, "b": b, "label": a % 2} for a, b in pairs]
    write(root / "own/tasks/links/train.jsonl", *told[:120])
    write(root / "own/tasks/links/test.jsonl", *told[120:])
    task = read(root, "links", folds=5, cross_fit=True)
    assert "is tested by none" in task.notes[-1]
    for split in ("validation", "test"):
        chosen = read_examples("links", task, split, cut=200)
        assert all(len(test) for _, test in chosen.parts)
        for train, test in chosen.parts:
            assert not {*chosen.inputs[train].flat} & {*chosen.inputs[test].flat}
    if not grouped:  # groups stay whole, so with them it is refused
        assert "are in more than one split" in str(read(root, "links").notes)


def test_blocks_part_neither_groups_nor_equal_texts(root, write):
    texts = (f"text {n // 2}" if n < 20 else f"text {n}" for n in range(60))
    rows = ({"id": n, "text": text} for n, text in enumerate(texts))
    grouped = (row | ({"group": f"g{row['id'] % 4}"} if row["id"] >= 30 else {}) for row in rows)
    write(root / "own/documents.jsonl", *grouped)
    blocks = read(root, "topics", blocks=4).blocks
    assert all(blocks[str(n)] == blocks[str(n + 1)] for n in range(0, 20, 2))
    assert all(blocks[str(n)] == blocks[str(n + 4)] for n in range(30, 46))


def test_texts_that_carry_a_mark_are_left_out(root):
    task = read(root, "topics", blocks=5, without=r"\b[34]\d\Z")
    assert sorted(task.texts, key=int) == [str(n) for n in range(30)]
    assert len(task.inputs["train"]) == 30 and "20 examples left out" in task.notes[0]
    assert {*read(root, "topics", folds=5, without="5").texts}.isdisjoint({"5", "15", "25"})


def test_fewer_texts_are_chosen_by_what_is_left_of_the_pairs(root, write):
    """A hub of leaves is used most, but leaves go first, and then nothing is left of the hub."""
    splits = {"train": [(0, 1), (1, 2), (0, 2)], "validation": [(3, 10), (3, 11)]}
    splits["test"] = [(3, n) for n in range(12, 16)]
    for split, pairs in splits.items():
        rows = ({"a": a, "b": b, "label": n % 2} for n, (a, b) in enumerate(pairs))
        write(root / f"own/tasks/links/{split}.jsonl", *rows)
    assert {*read(root, "links", blocks=2, texts=5).texts} > {"0", "1", "2"}


def test_what_a_corpus_must_not_hold(root):
    links = read(root, "links")
    assert links.held_out() == {str(n) for n in (*range(20, 31), *range(40, 51))}
    assert read(root, "topics", folds=5).held_out() == {str(n) for n in range(50)}
    assert read(root, "related").held_out() == {"0", "1", "2", "5"}
    assert read(root, "events").held_out() == {"0", "1", "2"}
    contents = task_files.held_out_contents({"links": links, "again": links})
    assert contents.dtype == np.uint64 and len(contents) == 22


def test_fewer_texts_keep_as_many_single_documents_of_each_split(root):
    whole = read(root, "topics", seed=1)
    task = task_files.limit_texts(whole, 16, seed=0)
    counts = {split: len(ids) for split, ids in task.inputs.items()}
    assert counts == {"train": 6, "validation": 4, "test": 6} and len(task.texts) == 16
    assert {*examples(task, "test")} < {*examples(whole, "test")}
    assert task_files.limit_texts(whole, 16, seed=0).inputs == task.inputs
    assert task_files.limit_texts(whole, 16, seed=1).inputs != task.inputs


def test_missing_validation_is_a_stratified_seeded_part_of_train(root, write):
    task = read(root, "topics", seed=1)
    assert list(task.inputs) == ["train", "validation", "test"]
    assert task.classes == ["a", "b"] and sorted(task.labels["validation"]) == [0, 0, 1, 1]
    assert not set(task.inputs["validation"]) & set(task.inputs["train"])
    assert len(task.inputs["train"]) == 36
    assert read(root, "topics", seed=1).inputs == task.inputs
    assert read(root, "topics", seed=2).inputs != task.inputs
    few = ({"id": n, "label": "ab"[n > 1]} for n in range(5))
    write(root / "own/tasks/topics/train.jsonl", *few)
    validation = read(root, "topics").labels["validation"]
    assert sorted(validation) == [0, 1], "one of each class where a tenth is less"


def test_validation_taken_from_train_never_cuts_a_group(root, write):
    def group_all(name):
        rows = ({"id": n, "text": f"text {n}", "group": name(n)} for n in range(60))
        write(root / "own/documents.jsonl", *rows)

    group_all(lambda n: f"g{n // 4}" if n < 40 else "")
    task = read(root, "topics")
    train, validation = ({int(i) // 4 for (i,) in task.inputs[s]} for s in ("train", "validation"))
    assert train and validation and not train & validation
    group_all(lambda n: "all")
    with pytest.raises(ValueError, match="topics: no tenth of train leaves all groups whole and"):
        read(root, "topics")


PAIR = {"a": "0", "b": "1", "label": 1}
TURNED = {"a": "1", "b": "0", "label": 0}
TWICE = [{"id": 0, "label": "a"}, {"id": 0, "label": "b"}]
IN_TRAIN = [{"a": 50, "b": 51, "label": 1}, {"a": 3, "b": 4, "label": 1}]
# Task, its file and lines, what is said.
WRONG = [
    ("links", "train.jsonl", [{**PAIR, "b": "99"}], "train.jsonl:1: id '99' is no document"),
    (
        "links",
        "train.jsonl",
        [PAIR, TURNED],
        "jsonl:2: the same documents have another label",
    ),
    ("links", "train.jsonl", [{**PAIR, "b": "0"}], "train.jsonl:1: two different documents"),
    ("links", "test.jsonl", [{"a": 40, "b": 41, "label": 7}], "all of them in train.jsonl"),
    ("links", "test.jsonl", IN_TRAIN, "test.jsonl:2: the same documents have another split"),
    ("related", "relevant.json", [{"0": ["77"]}], "relevant.json: id '77' is no document"),
    ("related", "relevant.json", [{"0": ["0"]}], "relevant.json: two different documents"),
    ("related", "relevant.json", ['{"0": ["1"], "0": ["2"]}'], "not JSON: a key occurs twice"),
    ("events", "clusters.jsonl", TWICE, "clusters.jsonl:2: the same documents have another label"),
]


@pytest.mark.parametrize("task, file, rows, message", WRONG)
def test_what_would_make_a_number_wrong_is_refused(root, write, task, file, rows, message):
    write(root / "own/tasks" / task / file, *rows)
    with pytest.raises(ValueError, match=message):
        read(root, task)


@pytest.mark.parametrize(
    "task, settings, message",
    [
        ("link", {}, "link: expected a folder with .* found none"),
        ("links", {"folds": 5}, "links: expected .* train.jsonl without validation.json"),
        ("topics", {"folds": 5, "texts": 2}, "2 texts leave a class of a split without examples"),
    ],
)
def test_settings_that_do_not_fit_the_files(root, task, settings, message):
    with pytest.raises(ValueError, match=message):
        read(root, task, **settings)


def test_what_real_data_have_is_kept_and_counted(root, write):
    rows = [{"id": n, "text": "" if n in (1, 3) else f"text {n % 50}"} for n in range(60)]
    rows = [row | {"group": f"g{row['id'] // 9}"} for row in rows]
    write(root / "own/documents.jsonl", b"\xef\xbb\xbf" + json.dumps(rows[0]).encode(), *rows[1:])
    with (root / "own/tasks/links/train.jsonl").open("a") as stream:
        for pair in ({"a": 8, "b": 9, "label": 0}, {"a": 5, "b": 55, "label": 0}):
            stream.write("\n" + json.dumps(pair))
    with (root / "own/tasks/links/test.jsonl").open("a") as stream:
        stream.write("\n" + json.dumps({"a": 6, "b": 5, "label": 1}))
    links = read(root, "links")
    assert links.notes == (
        "4 examples left out, with texts that are blank or unwanted",
        "2 texts are in more than one split",
        "1 groups are in more than one split",
    )
    assert len(links.inputs["train"]) == 8 and "1" not in links.texts
    assert read(root, "related").relevant == {"0": ["2"], "5": ["0"]}
    assert read(root, "events").clusters == {"0": "x", "2": "y"}


def test_equal_texts_are_not_carved_apart(root, write):
    rows = ({"id": n, "text": f"text {n % 4 if n < 40 else n}"} for n in range(60))
    write(root / "own/documents.jsonl", *rows)
    task = read(root, "topics")
    sides = [{task.texts[i] for (i,) in task.inputs[split]} for split in ("train", "validation")]
    assert all(sides) and sides[0].isdisjoint(sides[1])


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
