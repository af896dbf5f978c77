"""Which examples heads are trained and tested on."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from lib.data.task_files import Task
from lib.experiments import judging
from lib.experiments.bench import Bench

BLOCKS, PAIRS = 3, 8


@pytest.fixture
def task():
    """Pairs of texts of three blocks of two articles, others in each chapter, dealt in turn."""
    rng = np.random.default_rng(0)
    texts, groups, inputs, labels = {}, {}, {}, {}
    for split in ("train", "test"):
        rows = []
        for block, number in itertools.product(range(BLOCKS), range(PAIRS)):
            ids = tuple(f"{split} {block} {side} {number}" for side in range(2))
            articles = (2 * block, 2 * block + (number > 1))
            texts |= {text_id: text_id for text_id in ids}
            groups |= dict(zip(ids, map(str, articles), strict=True))
            rows.append((ids, number % 2))
        rows = [rows[row] for row in rng.permutation(len(rows))]
        inputs[split], labels[split] = [ids for ids, _ in rows], np.array([y for _, y in rows])
    options = {"folds": BLOCKS, "cross_fit": True, "groups": groups}
    return Task("classification", texts, inputs, labels, ["no", "yes"], **options)


@pytest.mark.parametrize("split, file", [("validation", "train"), ("test", "test")])
def test_each_chapter_is_cross_validated_on_its_own_pairs(task, split, file):
    examples = judging.read_examples("OC", task, split, cut=1000)
    assert {text_id.split()[0] for text_id in examples.text_ids} == {file}
    assert examples.tested.tolist() == list(range(BLOCKS * PAIRS)) and examples.chance == 0.5
    tested = set()
    for train, test in examples.parts:
        blocks = [
            {examples.text_ids[row].split()[1] for row in examples.inputs[part].ravel()}
            for part in (train, test)
        ]
        assert len(blocks[1]) == 1 and not blocks[0] & blocks[1]
        assert (len(train), len(test)) == ((BLOCKS - 1) * PAIRS, PAIRS)
        tested |= blocks[1]
    assert len(tested) == BLOCKS


def test_a_limit_is_on_training_pairs_alone(task):
    examples = judging.read_examples("OC", task, "test", cut=1000, limit=0.5)
    assert {len(train) for train, _ in examples.parts} == {PAIRS}
    assert len(examples.tested) == BLOCKS * PAIRS
    for train, _ in examples.parts:
        assert np.bincount(examples.labels[train]).tolist() == [PAIRS // 2] * 2


def test_the_most_frequent_class_of_all_folds_is_chance(task):
    task.labels["train"][:] = 0
    task.labels["train"][::4] = 1
    assert judging.read_examples("OC", task, "validation", cut=1000).chance == 0.75


def test_more_folds_than_groups_are_refused(task):
    many = Task(**(vars(task) | {"folds": BLOCKS + 1}))
    with pytest.raises(ValueError, match="fewer groups than folds, 3 for 4"):
        judging.read_examples("OC", many, "test", cut=1000)


def test_texts_are_told_apart_by_short_names_however_long_they_are():
    long = "word " * 20_000
    texts = {"one": {"1": long, "2": "grouped"}, "two": {"1": long + "!", "3": long}}
    tasks = {name: Task("classification", part) for name, part in texts.items()}
    tasks["three"] = Task("classification", {"1": long})
    bench = SimpleNamespace(tasks=tasks, _groups={("2", "grouped"): "an article"})
    pairs = Bench._name_groups(bench, "one", ["1", "2"], np.array([[0, 1], [1, 1]]))
    assert pairs.shape == (2, 2) and pairs.nbytes < len(long)
    assert {*pairs[:, 1], pairs[1, 0]} == {"an article"}
    one, other, same = (
        Bench._name_groups(bench, name, ids, np.array([[0]])).item()
        for name, ids in (("one", ["1"]), ("two", ["1"]), ("three", ["1"]))
    )
    assert one == same != other, "a text of two tasks is one, where id and content are"
