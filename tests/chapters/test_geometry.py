"""How embeddings lie: distances behind Figure 4.4, against loops, and collapse."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters.geometry import mark_collapsed, mean_cosine, measure_distances
from tests.fake_bench import FakeBench

GENERATOR = np.random.default_rng(0)
STUDENT, TEACHER = GENERATOR.normal(size=(2, 7, 4))


def values(frame, **where):
    for column, value in where.items():
        frame = frame[frame[column] == value]
    return np.sort(frame["value"].to_numpy())


def test_positives_are_the_documents_own_distances():
    frame = measure_distances(STUDENT, TEACHER, batch=3)
    expected = [np.mean((STUDENT[i] - TEACHER[i]) ** 2) for i in range(6)]
    np.testing.assert_allclose(
        values(frame, negatives="true", to="positives", distance="squared L2"), np.sort(expected)
    )


def test_true_negatives_are_all_other_documents_of_the_batch():
    frame = measure_distances(STUDENT, TEACHER, batch=3)
    expected = [
        1 - STUDENT[i] @ TEACHER[j] / np.linalg.norm(STUDENT[i]) / np.linalg.norm(TEACHER[j])
        for start in (0, 3)
        for i in range(start, start + 3)
        for j in range(start, start + 3)
        if i != j
    ]
    np.testing.assert_allclose(
        values(frame, negatives="true", to="negatives", distance="cosine"), np.sort(expected)
    )


def test_published_negatives_are_the_flattened_batch_moved_by_a_few_places():
    """torch.roll without `dims` flattens first: of 4 dimensions shifted by 1, three features are
    the document's own.
    """
    frame = measure_distances(STUDENT, TEACHER, batch=3)
    expected = []
    for start in (0, 3):
        flat = TEACHER[start : start + 3].ravel()
        for shift in (1, 2):
            moved = np.concatenate([flat[-shift:], flat[:-shift]]).reshape(3, 4)
            expected += [np.mean((STUDENT[start + i] - moved[i]) ** 2) for i in range(3)]
    np.testing.assert_allclose(
        values(frame, negatives="as published", to="negatives", distance="squared L2"),
        np.sort(expected),
    )


def test_too_few_documents_for_a_batch_are_refused():
    with pytest.raises(ValueError, match="7 documents"):
        measure_distances(STUDENT, TEACHER, batch=8)


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
