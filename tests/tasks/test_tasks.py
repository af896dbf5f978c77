"""What tasks share: downsampling and folds."""

import numpy as np

from lib import tasks


def test_downsample_by_hand():
    # Shares .5, .3, .2 of 7: floors 3, 2, 1; the one left goes to the smallest class, the first of each class are kept.
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    assert tasks.downsample(labels, 7).tolist() == [0, 1, 2, 5, 6, 8, 9]


def test_downsample_keeps_all_of_a_small_split_and_file_order():
    labels = np.array([1, 0, 1, 0])
    assert (
        tasks.downsample(labels, 4).tolist()
        == tasks.downsample(labels, 99).tolist()
        == [0, 1, 2, 3]
    )
    assert tasks.downsample(labels, 2).tolist() == [0, 1]
    assert tasks.downsample(np.zeros(5, dtype=int), 3).dtype == np.int64


def test_downsample_never_takes_more_than_a_class_holds():
    labels = np.array([0] * 50 + [1] * 49 + [2])
    kept = tasks.downsample(labels, 99)
    assert len(kept) == len(set(kept.tolist())) == 99 and np.bincount(labels[kept])[2] == 1
