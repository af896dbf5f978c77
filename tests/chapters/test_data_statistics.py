"""Lengths by hand on a few documents."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
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
PAIRS = {
    "split": ["train", "train", "train", "test"],
    "ids": [("a", "b"), ("a", "c"), ("b", "c"), ("a", "b")],
    "label": ["no", "yes", "yes", "no"],
}
SEARCH = {"split": "relevant", "ids": [("a", "b"), ("a", "c"), ("b", "c")], "label": ""}
TASKS = {
    "pairs": Task("classification", TEXTS, pd.DataFrame(PAIRS)),
    "search": Task("retrieval", TEXTS, pd.DataFrame(SEARCH)),
}


def test_a_text_of_a_task_counts_once_in_a_split(base):
    tokens = data_statistics.count_task_tokens(TASKS, base).groupby(["task", "split"], sort=False)
    assert tokens["sbert_tokens"].apply(sorted).to_dict() == {
        ("pairs", "train"): [1, 60, 70],
        ("pairs", "test"): [1, 60],
        ("search", "test"): [1, 60, 70],
    }
