"""Token ids that are cut where the structural teacher stops."""

import numpy as np

from lib.experiments.encoders import CutIds
from lib.store.cache import hash_items


def test_a_long_text_is_cut_and_keeps_its_last_token_and_a_short_one_is_itself():
    ids = [np.array([0, 5, 6, 7, 8, 2]), np.array([0, 5, 2])]
    cut = CutIds(ids, 4)
    assert [row.tolist() for row in cut[:]] == [[0, 5, 6, 2], [0, 5, 2]]
    assert [row.tolist() for row in cut] == [[0, 5, 6, 2], [0, 5, 2]]
    same = hash_items(cut) == hash_items(ids)
    assert same.tolist() == [False, True], "only what is cut is embedded once more"
