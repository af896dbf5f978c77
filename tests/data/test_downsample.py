"""Cutting a split to size keeps the shares of its classes."""

import numpy as np

from lib.data.task_files import downsample


def test_by_hand():
    # Shares .5, .3, .2 of 7: floors 3, 2, 1; what is left over goes to the smallest class.
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    assert downsample(labels, 7).tolist() == [0, 1, 2, 5, 6, 8, 9]


def test_a_small_split_is_kept_in_its_order():
    labels = np.array([1, 0, 1, 0])
    assert downsample(labels, 4).tolist() == downsample(labels, 99).tolist() == [0, 1, 2, 3]
    assert downsample(labels, 2).tolist() == [0, 1]
    assert downsample(np.zeros(5, dtype=int), 3).dtype == np.int64


def test_no_class_gives_more_than_it_holds():
    labels = np.array([0] * 50 + [1] * 49 + [2])
    kept = downsample(labels, 99)
    assert len(kept) == len(set(kept.tolist())) == 99 and np.bincount(labels[kept])[2] == 1
