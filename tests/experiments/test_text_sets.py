"""Task texts: each once, those of training and validation first, one id with two texts kept apart."""

import numpy as np
import pytest

from lib.config import profiles
from lib.experiments import task_texts, text_sets
from lib.store import records
from lib.tasks import Task


def pairs(texts, train, validation, test):
    examples = {"train": train, "validation": validation, "test": test}
    labels = {split: np.arange(len(found)) % 2 for split, found in examples.items()}
    return Task("classification", texts, inputs=examples, labels=labels, classes=["no", "yes"])


TEXTS = {"a": "alpha", "b": "beta", "c": "gamma", "d": "delta", "e": "epsilon", "f": "zeta"}
TASKS = {
    "OC": pairs(TEXTS, [("a", "b"), ("b", "c"), ("e", "e"), ("e", "f")], [("c", "c"), ("a", "a")], [("d", "a")]),
    "AAN": pairs({"a": "another alpha", "b": "beta"}, [("a", "b"), ("b", "a")], [("b", "b"), ("a", "a")], []),
    "GAMES": Task("retrieval", {"a": "alpha", "z": "omega"}, relevant={"a": ["z", "gone"]}),
}


@pytest.fixture
def profile(monkeypatch, tmp_path):
    """A profile with the tasks above, its store and this process' memory empty."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(records, "_held", {})
    monkeypatch.setattr(task_texts, "read", lambda profile: TASKS)
    return profiles.load("smoke", overrides={"tasks.limit": 2})


def test_a_text_that_two_tasks_share_is_embedded_once_and_one_id_with_two_texts_twice(profile):
    assert task_texts.texts(profile).count("beta") == 1
    assert {"alpha", "another alpha"} <= {*task_texts.texts(profile)}


def test_what_training_and_validation_need_comes_first_and_no_more(profile):
    """limit 2 keeps the first example of each class: ("a", "b") and ("b", "c") of OC's four, not e and f."""
    first = text_sets.texts("tasks", profile)
    assert sorted(first) == ["alpha", "another alpha", "beta", "gamma"]
    assert text_sets.texts("all_tasks", profile)[: len(first)] == first
    assert sorted(text_sets.texts("all_tasks", profile)[len(first) :]) == ["delta", "epsilon", "omega", "zeta"]


def test_arrays_point_at_the_examples_texts(profile):
    texts = task_texts.texts(profile)
    found = task_texts.arrays("OC", profile)
    assert [[texts[row] for row in pair] for pair in found["inputs_train"]] == [
        ["alpha", "beta"], ["beta", "gamma"], ["epsilon", "epsilon"], ["epsilon", "zeta"]
    ]  # fmt: skip
    assert [texts[row] for row in task_texts.arrays("AAN", profile)["inputs_train"][0]] == ["another alpha", "beta"]
    games = task_texts.arrays("GAMES", profile)
    assert [texts[row] for row in games["candidates"]] == ["alpha", "omega"]
    assert [texts[row] for row in games["targets_0"]] == ["omega"]  # a target without a text is dropped


def test_examples_are_cut_to_the_limit_per_class(profile):
    rows, labels = task_texts.examples(task_texts.arrays("OC", profile), "train", 2)
    assert labels.tolist() == [0, 1] and len(rows) == 2
    assert len(task_texts.examples(task_texts.arrays("OC", profile), "train", None)[1]) == 4


def test_another_process_reads_the_same_from_the_store(profile, monkeypatch):
    texts, arrays = task_texts.texts(profile), task_texts.arrays("OC", profile)
    monkeypatch.setattr(records, "_held", {})
    monkeypatch.setattr(task_texts, "read", None)  # reading the sources once more would fail
    assert task_texts.texts(profile) == texts
    np.testing.assert_array_equal(task_texts.arrays("OC", profile)["inputs_train"], arrays["inputs_train"])


def test_token_ids_come_back_from_the_store():
    lists = [[1, 2, 3], [4], [5, 6]]
    assert text_sets._unragged(text_sets._ragged(lists)) == lists
    assert text_sets._unragged(text_sets._ragged([])) == []
