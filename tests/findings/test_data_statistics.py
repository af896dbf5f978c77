"""The data tables, by hand on a few documents."""

import pandas as pd
import pytest

from lib.config import profiles
from lib.findings import data_statistics

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
    table = data_statistics.corpus_table(LENGTHS, profiles.load("mini")).set_index("split")
    train = table.loc["train"]
    assert (train["documents"], train["tokens"], train["cut"]) == (3, 5300, 1)
    assert train["tokens_mean"] == pytest.approx(5300 / 3)
    assert train["over_384_percent"] == pytest.approx(200 / 3)  # 48 itself is read whole
    assert train["over_512_percent"] == pytest.approx(100 / 3)
    assert table.loc["validation", ["over_384_percent", "cut"]].tolist() == [0, 0]


def test_a_teacher_with_the_thesis_limit_counts_against_384_and_512():
    profile = profiles.load("mini", overrides={"structural_teacher.max_tokens": 384})
    table = data_statistics.corpus_table(LENGTHS.assign(sbert_tokens=[384, 385, 513, 1]), profile).set_index("split")
    assert table.loc["train", "over_384_percent"] == pytest.approx(200 / 3)
    assert table.loc["train", "over_512_percent"] == pytest.approx(100 / 3)
