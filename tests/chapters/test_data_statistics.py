"""Lengths by hand on a few documents."""

from types import SimpleNamespace

import numpy as np
import pytest

from lib.chapters import data_statistics
from lib.data.task_files import Task


@pytest.fixture
def base():
    """Both tokenizers take words; the student's adds two special tokens."""

    def count(texts):
        return np.array([len(text.split()) for text in texts])

    teacher = SimpleNamespace(lengths=count)
    return SimpleNamespace(tokens=lambda texts: {"whole": count(texts) + 2}, teacher=teacher)


TEXTS = {"a": "w", "b": "w " * 60, "c": "w " * 70}
TASKS = {
    "pairs": Task(
        kind="classification",
        texts=TEXTS,
        inputs={"train": [("a", "b"), ("a", "c"), ("b", "c")], "test": [("a", "b")]},
        labels={"train": np.array([0, 1, 1]), "test": np.array([0])},
        classes=["no", "yes"],
    ),
    "search": Task(kind="retrieval", texts=TEXTS, relevant={"a": ["b", "c"], "b": ["c"]}),
}


def test_a_text_of_a_task_counts_once_in_a_split(base):
    tokens = data_statistics.count_task_tokens(TASKS, base).groupby(["task", "split"], sort=False)
    assert tokens["sbert_tokens"].apply(sorted).to_dict() == {
        ("pairs", "train"): [1, 60, 70],
        ("pairs", "test"): [1, 60],
        ("search", "test"): [1, 60, 70],
    }
