"""The data tables, by hand on a few documents."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from lib.chapters import data_statistics
from lib.config import profiles
from lib.data.corpus import Corpus
from lib.data.dataset_folder import Document
from lib.experiments import keys, models, structural_teacher, text_sets

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
    table = data_statistics.corpus_table(
        LENGTHS.assign(sbert_tokens=[384, 385, 513, 1]), profile
    ).set_index("split")
    assert table.loc["train", "over_384_percent"] == pytest.approx(200 / 3)
    assert table.loc["train", "over_512_percent"] == pytest.approx(100 / 3)


@pytest.mark.parametrize(("limit", "scale"), [(48, 8), (64, 6), (384, 1), (512, 1)])
def test_the_scale_is_the_thesis_limit_over_the_teacher_s(limit, scale):
    """The thesis profile reads 512 tokens, yet its lengths are the thesis'."""
    profile = profiles.load("mini", overrides={"structural_teacher.max_tokens": limit})
    assert data_statistics.scale(profile) == scale


def test_lengths_of_the_corpus_by_hand(tmp_path, monkeypatch):
    """Both tokenizers take words; the student's adds two special tokens, the teacher's count is without them."""
    sources = [(10, "wikipedia"), (39, "wikipedia"), (40, "wikipedia"), (100, "news")]
    documents = [
        Document(id=str(n), text="w " * words, source=source)
        for n, (words, source) in enumerate(sources)
    ]
    student = SimpleNamespace(
        tokenizer=lambda texts, **_: {"input_ids": [[0, *text.split(), 0] for text in texts]}
    )
    teacher = SimpleNamespace(lengths=lambda texts: np.array([len(text.split()) for text in texts]))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(data_statistics, "_BATCH", 3)
    monkeypatch.setattr(text_sets, "corpus", lambda profile: Corpus(documents, documents[3:], {}))
    monkeypatch.setattr(models, "base_student", lambda profile: student)
    monkeypatch.setattr(structural_teacher, "load", lambda profile: teacher)
    for name in ("base", "corpus", "structural_teacher"):
        monkeypatch.setattr(keys, name, lambda profile: "key")
    for _ in ("counted", "kept"):
        lengths = data_statistics.corpus_lengths(profiles.load("mini"))
        assert lengths.columns.tolist() == ["source", "split", "longformer_tokens", "sbert_tokens"]
        assert lengths["longformer_tokens"].tolist() == [12, 41, 42, 102, 102]
        assert lengths["sbert_tokens"].tolist() == [10, 39, 40, 100, 100]
        assert lengths["split"].tolist() == ["train"] * 4 + ["validation"]
        assert lengths["source"].tolist() == ["wikipedia"] * 3 + ["news"] * 2
