"""The joint target: distances kept, turned onto the student, cosines of both parts."""

import doctest

import numpy as np
import pytest
from scipy.linalg import orthogonal_procrustes

from lib.distillation import joint_target
from lib.distillation.joint_target import fit_joint_target, join_parts, scale_rows


def draw(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def cosines(x):
    return scale_rows(x) @ scale_rows(x).T


def test_example_of_the_docstring():
    assert not doctest.testmod(joint_target).failed


def test_cosines_of_joined_rows_are_means_of_both():
    dense, lexical = draw(0, 5, 3), draw(1, 5, 4)
    joined = join_parts(7 * dense, lexical)
    np.testing.assert_allclose(joined @ joined.T, (cosines(dense) + cosines(lexical)) / 2)


def test_distances_stay_when_nothing_is_cut_off():
    dense, lexical, student = draw(0, 9, 3), draw(1, 9, 4), draw(2, 9, 7)
    target = fit_joint_target(dense, lexical, student)
    assert target.kept == pytest.approx(1)
    z, joined = target.transform(dense, lexical), join_parts(dense, lexical)
    gaps = [np.linalg.norm(x[:, None] - x, axis=-1) for x in (z, joined)]
    np.testing.assert_allclose(*gaps, atol=1e-5)
    np.testing.assert_allclose(z.mean(axis=0), scale_rows(student).mean(axis=0), atol=1e-6)


def test_reference():
    """scipy's Procrustes, where all directions are kept."""
    dense, lexical, student = draw(0, 20, 2), draw(1, 20, 2), draw(2, 20, 4)
    z = fit_joint_target(dense, lexical, student).transform(dense, lexical)
    joined, own = join_parts(dense, lexical), scale_rows(student)
    centred = joined - joined.mean(0)
    rotation, _ = orthogonal_procrustes(centred, own - own.mean(0))
    np.testing.assert_allclose(z, centred @ rotation + own.mean(0), atol=1e-6)


def test_a_turned_student_is_met_where_it_is():
    """A student that says the same, turned, is its own target, up to its mean."""
    dense = draw(0, 12, 3)
    joined = join_parts(dense, dense)
    rotation = np.linalg.qr(draw(3, 6, 6))[0]
    student = joined @ rotation
    z = fit_joint_target(dense, dense, student).transform(dense, dense)
    np.testing.assert_allclose(z, student, atol=1e-6)


def test_few_documents_have_few_directions():
    target = fit_joint_target(draw(0, 3, 5), draw(1, 3, 5), draw(2, 3, 8))
    assert np.linalg.matrix_rank(target.turn) == 2  # three centred rows
    assert target.transform(draw(3, 4, 5), draw(4, 4, 5)).shape == (4, 8)


def test_a_narrow_student_keeps_the_largest_directions():
    dense, lexical = draw(0, 30, 5), draw(1, 30, 5)
    wide, narrow = (fit_joint_target(dense, lexical, draw(2, 30, width)).kept for width in (10, 2))
    assert wide == pytest.approx(1) and 0.2 < narrow < 0.8


def test_rows_that_do_not_match_are_refused():
    with pytest.raises(ValueError, match="3, 4 and 3"):
        fit_joint_target(draw(0, 3, 2), draw(1, 4, 2), draw(2, 3, 2))
    with pytest.raises(ValueError, match="two at least"):
        fit_joint_target(draw(0, 1, 2), draw(1, 1, 2), draw(2, 1, 2))
