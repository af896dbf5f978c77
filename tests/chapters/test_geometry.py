"""How embeddings lie: distances behind Figure 4.4, against loops, and collapse."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters.geometry import mark_collapsed, mean_cosine, measure_distances
from tests.fake_bench import FakeBench

GENERATOR = np.random.default_rng(0)
STUDENT, TEACHER = GENERATOR.normal(size=(2, 7, 4))


def test_distances_to_the_document_to_others_and_to_the_published_negatives():
    """torch.roll without `dims` flattens first: of 4 dimensions shifted by 1, three features are
    the document's own."""
    positives, negatives, published = [], [], []
    for start in (0, 3):  # batches of three; the last document fills none
        student, teacher = STUDENT[start : start + 3], TEACHER[start : start + 3]
        positives += [np.mean((a - b) ** 2) for a, b in zip(student, teacher, strict=True)]
        norms = np.linalg.norm(student, axis=1)[:, None] * np.linalg.norm(teacher, axis=1)
        negatives += [*(1 - student @ teacher.T / norms)[~np.eye(3, dtype=bool)]]
        for shift in (1, 2):
            moved = np.roll(teacher.ravel(), shift).reshape(3, 4)
            published += [np.mean((a - b) ** 2) for a, b in zip(student, moved, strict=True)]
    frame = measure_distances(STUDENT, TEACHER, batch=3).set_index(["negatives", "to", "distance"])
    for key, expected in {
        ("true", "positives", "squared L2"): positives,
        ("true", "negatives", "cosine"): negatives,
        ("as published", "negatives", "squared L2"): published,
    }.items():
        np.testing.assert_allclose(np.sort(frame.loc[key, "value"]), np.sort(expected))


def test_a_student_has_collapsed_when_its_embeddings_point_one_way():
    """In one of its seeds; the base model, whose embeddings do so too, is no student."""
    spread, narrow = np.eye(4), np.eye(4) + 2.0  # mean cosine 0, and 20 / 21
    embedded = {("MSE", 0): spread, ("MSE", 1): narrow}
    embedded |= {("cosine", 0): spread, ("Longformer", 0): narrow}
    bench = FakeBench("mini", embeddings=lambda _, *model: {"validation": embedded[model]})
    rows = [(model, seed, task) for model, seed in embedded for task in ("ARXIV", "IMDB")]
    records = pd.DataFrame(rows, columns=["model", "seed", "task"])
    records["kind"] = records["model"].map({"Longformer": "base"}).fillna("student")
    assert mark_collapsed(records, bench).tolist() == [True] * 4 + [False] * 4
    assert mean_cosine(narrow) == pytest.approx(20 / 21)
    assert mean_cosine(spread) == 0
