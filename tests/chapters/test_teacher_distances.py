"""Distances behind Figure 4.4: both ways of pairing negatives, against loops."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters.teacher_distances import find_mode, measure_distances

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


def test_the_mode_is_where_values_are_dense_and_that_of_equal_values_is_theirs():
    values = pd.Series([*GENERATOR.normal(2, 0.1, 300), *GENERATOR.normal(5, 1.0, 100)])
    assert find_mode(values) == pytest.approx(2, abs=0.2)
    assert find_mode(pd.Series([0.25] * 9)) == 0.25


def test_too_few_documents_for_a_batch_are_refused():
    with pytest.raises(ValueError, match="7 documents"):
        measure_distances(STUDENT, TEACHER, batch=8)
