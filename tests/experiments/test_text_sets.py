"""Task texts: each once, those of training and validation first, one id with two texts kept apart."""

from types import SimpleNamespace

import numpy as np
import pytest

from lib.config import profiles
from lib.experiments import keys, models, text_sets
from lib.store import records
from lib.tasks import Task


def pairs(texts, train, validation, test):
    examples = {"train": train, "validation": validation, "test": test}
    labels = {split: np.arange(len(found)) % 2 for split, found in examples.items()}
    return Task("classification", texts, inputs=examples, labels=labels, classes=["no", "yes"])


TEXTS = {"a": "alpha", "b": "beta", "c": "gamma", "d": "delta", "e": "epsilon", "f": "zeta"}
TASKS = {
    "OC": pairs(
        TEXTS,
        [("a", "b"), ("b", "c"), ("e", "e"), ("e", "f")],
        [("c", "c"), ("a", "a")],
        [("d", "a")],
    ),
    "AAN": pairs(
        {"a": "another alpha", "b": "beta"}, [("a", "b"), ("b", "a")], [("b", "b"), ("a", "a")], []
    ),
    "GAMES": Task("retrieval", {"a": "alpha", "z": "omega"}, relevant={"a": ["z", "gone"]}),
}


@pytest.fixture
def profile(monkeypatch, tmp_path):
    """A profile with the tasks above, its store and this process' memory empty."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(records, "_held", {})
    monkeypatch.setattr(text_sets, "read", lambda profile: TASKS)
    return profiles.load("smoke", overrides={"tasks.limit": 2})


def test_a_text_that_two_tasks_share_is_embedded_once_and_one_id_with_two_texts_twice(profile):
    assert text_sets.texts("all_tasks", profile).count("beta") == 1
    assert {"alpha", "another alpha"} <= {*text_sets.texts("all_tasks", profile)}


def test_what_training_and_validation_need_comes_first_and_no_more(profile):
    """limit 2 keeps the first example of each class: ("a", "b") and ("b", "c") of OC's four, not e and f."""
    first = text_sets.texts("tasks", profile)
    assert sorted(first) == ["alpha", "another alpha", "beta", "gamma"]
    assert text_sets.texts("all_tasks", profile)[: len(first)] == first
    assert sorted(text_sets.texts("all_tasks", profile)[len(first) :]) == [
        "delta",
        "epsilon",
        "omega",
        "zeta",
    ]


def test_arrays_point_at_the_examples_texts(profile):
    texts = text_sets.texts("all_tasks", profile)
    found = text_sets.task("OC", profile)
    assert [[texts[row] for row in pair] for pair in found["inputs_train"]] == [
        ["alpha", "beta"], ["beta", "gamma"], ["epsilon", "epsilon"], ["epsilon", "zeta"]
    ]  # fmt: skip
    assert [texts[row] for row in text_sets.task("AAN", profile)["inputs_train"][0]] == [
        "another alpha",
        "beta",
    ]
    games = text_sets.task("GAMES", profile)
    assert [texts[row] for row in games["candidates"]] == ["alpha", "omega"]
    assert [texts[row] for row in games["targets_0"]] == [
        "omega"
    ]  # a target without a text is dropped


def test_examples_are_cut_to_the_limit_per_class(profile):
    rows, labels = text_sets.examples(text_sets.task("OC", profile), "train", 2)
    assert labels.tolist() == [0, 1] and len(rows) == 2
    assert len(text_sets.examples(text_sets.task("OC", profile), "train", None)[1]) == 4


def test_another_process_reads_the_same_from_the_store(profile, monkeypatch):
    texts, arrays = text_sets.texts("all_tasks", profile), text_sets.task("OC", profile)
    monkeypatch.setattr(records, "_held", {})
    monkeypatch.setattr(text_sets, "read", None)  # reading the sources once more would fail
    assert text_sets.texts("all_tasks", profile) == texts
    np.testing.assert_array_equal(
        text_sets.task("OC", profile)["inputs_train"], arrays["inputs_train"]
    )


def test_token_ids_come_back_from_the_store(profile, monkeypatch):
    for expected in ([[1, 2, 3], [4], [5, 6]], []):
        student = SimpleNamespace(tokenize=lambda texts, expected=expected: expected)
        monkeypatch.setattr(models, "base_student", lambda profile, student=student: student)
        monkeypatch.setattr(
            keys,
            "tokens",
            lambda name, profile, expected=expected: {"kind": "tokens", "of": expected},
        )
        for ids in (text_sets.token_ids("all_tasks", profile) for _ in range(2)):
            assert [row.tolist() for row in ids] == [row.tolist() for row in ids[:]] == expected
            assert (
                [row.tolist() for row in (ids[-1], ids[0])] == [expected[-1], expected[0]]
                if expected
                else not len(ids)
            )
            assert all(row.dtype == np.int32 for row in ids)
