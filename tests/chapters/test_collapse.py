"""How embeddings lie: collapse."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters.chapter4 import mark_collapsed
from lib.evaluation.metrics import mean_cosine
from tests.fake_bench import FakeBench, fake_model


def test_a_student_has_collapsed_when_its_embeddings_point_one_way():
    """In one of its seeds; the base model, whose embeddings do so too, is no student."""
    spread, narrow = np.eye(4), np.eye(4) + 2.0  # mean cosine 0, and 20 / 21
    embedded = {("MSE", 0): spread, ("MSE", 1): narrow}
    embedded |= {("cosine", 0): spread, ("Longformer", 0): narrow}
    bench = FakeBench("mini", model=lambda _, *run: fake_model(embedded[run]))
    rows = [(model, seed, task) for model, seed in embedded for task in ("ARXIV", "IMDB")]
    records = pd.DataFrame(rows, columns=["model", "seed", "task"])
    records["kind"] = records["model"].map({"Longformer": "base"}).fillna("student")
    assert mark_collapsed(records, bench).tolist() == [True] * 4 + [False] * 4
    assert mean_cosine(narrow) == pytest.approx(20 / 21)
    assert mean_cosine(spread) == 0
