"""The eight mini tasks: splits, balance, lengths, leaks."""

import itertools
from collections import Counter

import numpy as np
import pytest

from lib.data.builders.mini import mini_tasks
from lib.data.examples import read_examples

PAIRS = ["OC", "AAN", "S2ORC", "PAN"]
LIMIT = 48


@pytest.fixture(scope="module")
def passages(mini):
    return mini_tasks.MiniTasks(mini.build).by_id


def read(mini, name, split):
    return read_examples(name, mini.tasks[name], split, mini.limit)


@pytest.mark.parametrize("split, articles", [("validation", 40), ("test", 50)])
def test_each_article_is_tested_once_by_heads_that_never_saw_it(mini, split, articles):
    for name in PAIRS:
        task, examples = mini.tasks[name], read(mini, name, split)
        groups = np.array([task.groups[text_id] for text_id in examples.text_ids])
        tested = [set(groups[examples.inputs[test]].ravel()) for _, test in examples.parts]
        assert len(tested) == 5 and len(set().union(*tested)) == sum(map(len, tested)) == articles
        assert {len(part) for part in tested} == {articles // 5}
        assert len({len(train) for train, _ in examples.parts}) == 1, "heads train on as many"
        assert examples.tested.tolist() == list(range(len(examples.labels)))
        assert examples.chance == 0.5
        for part, (train, _) in zip(tested, examples.parts, strict=True):
            assert not part & set(groups[examples.inputs[train]].ravel())


def test_one_text_alone_says_nothing_about_the_label(mini):
    for name, split, side in itertools.product(PAIRS, mini_tasks.CHAPTERS, (0, 1)):
        task = mini.tasks[name]
        counts = (Counter(), Counter())
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            counts[label][ids[side]] += 1
        assert counts[0] == counts[1], (name, split)


def test_labels_are_true(mini, passages):
    for name, split in itertools.product(("OC", "AAN", "S2ORC"), mini_tasks.CHAPTERS):
        task = mini.tasks[name]
        for ids, label in zip(task.inputs[split], task.labels[split], strict=True):
            a, b = (passages[text_id] for text_id in ids)
            assert a.split == b.split == split
            if name == "AAN":
                assert a.article == b.article and (a.section == b.section) == label, ids
            else:
                assert (a.article == b.article) == label, ids
            if name == "S2ORC":
                assert (a.section == b.section) == label, ids
                assert (a.use == "paired") != (b.use == "paired"), ids
    task = mini.tasks["ARXIV"]
    for (text_id,), label in zip(task.inputs["test"], task.labels["test"], strict=True):
        assert passages[text_id].article == task.classes[label]
