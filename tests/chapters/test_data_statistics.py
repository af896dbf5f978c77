"""The data tables, by hand on a few documents."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.chapters import data_statistics
from lib.config import profiles
from lib.data.dataset_folder import Document
from lib.data.task_files import Task

MINI = profiles.load("mini")
# mini: the teacher reads 48 tokens under the thesis' label 384, so "over 512" starts above 64.
LENGTHS = pd.DataFrame(
    {
        "source": ["wikipedia", "news", "news", "wikipedia"],
        "split": ["train", "train", "train", "validation"],
        "longformer_tokens": [100, 200, 5000, 50],
        "sbert_tokens": [48, 60, 65, 20],
    }
)


def test_the_corpus_table_counts_tokens_long_documents_and_cut_ones():
    table = data_statistics.tabulate_corpus(LENGTHS, MINI).set_index("split")
    train = table.loc["train"]
    assert (train["documents"], train["tokens"], train["cut"]) == (3, 5300, 1)
    assert train["tokens_mean"] == pytest.approx(5300 / 3)
    assert train["tokens_sd"] == pytest.approx(np.std([100, 200, 5000]))
    assert train["over_384_percent"] == pytest.approx(200 / 3)  # 48 itself is read whole
    assert train["over_512_percent"] == pytest.approx(100 / 3)
    assert table.loc["validation", ["over_384_percent", "cut"]].tolist() == [0, 0]


@pytest.mark.parametrize(("limit", "scale"), [(48, 8), (64, 6), (384, 1), (512, 1)])
def test_lengths_are_counted_on_the_thesis_scale(limit, scale):
    """The thesis profile reads 512 tokens, yet its lengths are the thesis'."""
    profile = profiles.load("mini", overrides={"structural_teacher.max_tokens": limit})
    assert data_statistics.find_scale(profile) == scale
    lengths = LENGTHS.assign(sbert_tokens=[384 // scale, 1 + 384 // scale, 1 + 512 // scale, 1])
    table = data_statistics.tabulate_corpus(lengths, profile).set_index("split")
    assert table.loc["train", "over_384_percent"] == pytest.approx(200 / 3)
    assert table.loc["train", "over_512_percent"] == pytest.approx(100 / 3)


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


def test_lengths_of_the_corpus_by_hand(base):
    sources = [(10, "wikipedia"), (39, "wikipedia"), (40, "wikipedia"), (100, "news")]
    documents = [Document(id=f"{n}", text="w " * n, source=name) for n, name in sources]
    corpus = SimpleNamespace(train=documents, validation=documents[3:])
    lengths = data_statistics.count_corpus_tokens(corpus, base)
    assert lengths.columns.tolist() == ["source", "split", "longformer_tokens", "sbert_tokens"]
    assert lengths["longformer_tokens"].tolist() == [12, 41, 42, 102, 102]
    assert lengths["sbert_tokens"].tolist() == [10, 39, 40, 100, 100]
    assert lengths["split"].tolist() == ["train"] * 4 + ["validation"]
    assert lengths["source"].tolist() == ["wikipedia"] * 3 + ["news"] * 2


def test_classes_of_the_tasks_by_hand():
    table = data_statistics.tabulate_classifications(TASKS, ("train", "test"), limit=2)
    assert table["documents"].tolist() == [2, 1] and table["truncated"].tolist() == ["yes", "no"]
    assert set(table["inputs"]) == {"pairs of documents"}
    assert table.loc[1, ["class_percent_mean", "class_percent_sd"]].tolist() == [50, 50]


def test_long_texts_of_a_task_count_once_in_a_split(base):
    tokens = data_statistics.count_task_tokens(TASKS, base)
    long = data_statistics.count_long(tokens, ["task", "split"], MINI).set_index(["task", "split"])
    # One of three is above 64 tokens, two of three above 48. A retrieval's texts are all tested.
    assert long.loc[("pairs", "train"), "over_512_percent"] == pytest.approx(100 / 3)
    assert long.loc[("pairs", "test"), "over_384_percent"] == pytest.approx(50)
    assert long.loc[("search", "test"), "over_384_percent"] == pytest.approx(200 / 3)
    assert {*long["cut"]} == {0}
