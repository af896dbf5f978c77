"""Rows of a teacher with negatives behind them, and a student that learns from them."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lib.distillation.negatives import RowsWithNegatives
from tests.distillation import tiny

VALUES = np.arange(20, dtype=np.float32).reshape(10, 2)


def test_a_row_is_the_document_s_own_and_then_others_without_repetition():
    rows = RowsWithNegatives(VALUES, 9)
    for place in range(10):
        own, *others = rows[place].reshape(10, 2).tolist()
        assert own == VALUES[place].tolist()
        assert sorted(others) == np.delete(VALUES, place, axis=0).tolist()


def test_rows_are_the_same_however_they_are_asked_for():
    rows, asked = RowsWithNegatives(VALUES, 3), np.array([7, 0, 7])
    together = rows[asked]
    assert together.shape == (3, 8) and len(rows) == 10
    assert_array_equal(together, np.stack([rows[place] for place in asked]))
    assert_array_equal(rows[:], rows[np.arange(10)])


def test_documents_have_negatives_of_their_own():
    rows = RowsWithNegatives(np.zeros((1000, 1), np.float32), 5)
    drawn = np.stack([rows.draw(place)[1:] for place in range(100)])
    assert len(np.unique(drawn)) > 300 and abs(drawn.mean() - 499.5) < 50


def test_with_few_documents_negatives_repeat_and_are_never_the_document():
    rows = RowsWithNegatives(VALUES[:2], 5)
    assert rows.draw(0).tolist() == [0, 1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match="at least two are needed, got 1"):
        RowsWithNegatives(VALUES[:1], 5)


def test_a_student_learns_from_them():
    data = tiny.documents()
    data = replace(data, structural=RowsWithNegatives(data.structural, 16), contextual=None)
    _, _, history = tiny.train(data, "max-margin;MSE;γ=1.0;negatives=16", scheme={"passes": 4})
    losses = history.loss
    assert np.isfinite(losses).all() and np.mean(losses[-4:]) < np.mean(losses[:4])
