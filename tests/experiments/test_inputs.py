"""Task texts: each once, those of training and validation first, one id with two texts kept apart."""

import numpy as np
import pytest

from lib.config import profiles
from lib.experiments import inputs
from lib.tasks import Task


def pairs(name, texts, train, validation, test):
    examples = {"train": train, "validation": validation, "test": test}
    labels = {split: np.arange(len(found)) % 2 for split, found in examples.items()}
    return Task(name, "classification", texts, inputs=examples, labels=labels, classes=["no", "yes"])


TEXTS = {"a": "alpha", "b": "beta", "c": "gamma", "d": "delta", "e": "epsilon", "f": "zeta"}
TASKS = {
    "OC": pairs("OC", TEXTS, [("a", "b"), ("b", "c"), ("e", "e"), ("e", "f")], [("c", "c"), ("a", "a")], [("d", "a")]),
    "AAN": pairs("AAN", {"a": "another alpha", "b": "beta"}, [("a", "b"), ("b", "a")], [("b", "b"), ("a", "a")], []),
    "GAMES": Task("GAMES", "retrieval", {"a": "alpha", "z": "omega"}, relevant={"a": ["z", "gone"]}),
}


@pytest.fixture
def data(monkeypatch, tmp_path):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    made = inputs.Inputs(profiles.load("smoke", overrides={"tasks.limit": 2}))
    made.tasks = TASKS
    return made


def test_a_text_that_two_tasks_share_is_embedded_once_and_one_id_with_two_texts_twice(data):
    assert list(data.task_texts.values()).count("beta") == 1
    assert data.task_texts["a"] == "alpha" and data.task_texts["AAN/a"] == "another alpha"


def test_what_training_and_validation_need_comes_first_and_no_more(data):
    """limit 2 keeps the first example of each class: ("a", "b") and ("b", "c") of OC's four, not e and f."""
    first = data.texts("tasks")
    assert sorted(first) == ["alpha", "another alpha", "beta", "gamma"]
    assert data.texts("all_tasks")[: len(first)] == first
    assert sorted(data.texts("all_tasks")[len(first) :]) == ["delta", "epsilon", "omega", "zeta"]


def test_arrays_point_at_the_examples_texts(data):
    texts = list(data.task_texts.values())
    found = data.task_arrays("OC")
    assert [[texts[row] for row in pair] for pair in found["inputs_train"]] == [
        ["alpha", "beta"], ["beta", "gamma"], ["epsilon", "epsilon"], ["epsilon", "zeta"]
    ]  # fmt: skip
    assert [texts[row] for row in data.task_arrays("AAN")["inputs_train"][0]] == ["another alpha", "beta"]
    games = data.task_arrays("GAMES")
    assert [texts[row] for row in games["candidates"]] == ["alpha", "omega"]
    assert [texts[row] for row in games["targets_0"]] == ["omega"]  # a target without a text is dropped


def test_examples_are_cut_to_the_limit_per_class(data):
    rows, labels = inputs.examples(data.task_arrays("OC"), "train", 2)
    assert labels.tolist() == [0, 1] and len(rows) == 2
    assert len(inputs.examples(data.task_arrays("OC"), "train", None)[1]) == 4


def test_a_fresh_object_reads_the_same_from_the_store(data):
    texts, arrays = data.task_texts, data.task_arrays("OC")
    again = inputs.Inputs(data.profile)
    again.tasks = None  # reading the sources once more would fail
    assert again.task_texts == texts
    np.testing.assert_array_equal(again.task_arrays("OC")["inputs_train"], arrays["inputs_train"])
