"""Balanced pairs: negatives that match the positives, so that one text alone says nothing."""

from collections import Counter

import numpy as np
import pytest

from lib.data.builders.mini.pairs import NO, YES, balanced, both_orders, round_robin


def groups(n, size):
    return [[(f"{g}-{a}", f"{g}-{b}") for a in range(size) for b in range(a + 1, size)] for g in range(n)]


def same(a, b):
    return a.split("-")[0] == b.split("-")[0]


@pytest.mark.parametrize("wanted, expected", [(1000, 120), (60, 60), (61, 60)])
def test_balanced_valid_and_matched(wanted, expected):
    rng = np.random.default_rng(0)
    examples = balanced(both_orders(round_robin(groups(10, 3), rng)), wanted, same, rng)
    assert Counter(label for _, label in examples) == {YES: expected // 2, NO: expected // 2}
    assert len({pair for pair, _ in examples}) == len(examples)
    assert all(same(*pair) == (label == YES) for pair, label in examples)
    for side in (0, 1):
        counts = [Counter(pair[side] for pair, label in examples if label == kind) for kind in (YES, NO)]
        assert counts[0] == counts[1]


def test_without_a_valid_negative_no_pair_is_left():
    assert balanced(groups(1, 3)[0], 100, same, np.random.default_rng(0)) == []


def test_round_robin_spreads_prefixes():
    pairs = round_robin(groups(5, 4), np.random.default_rng(0))
    assert len(pairs) == 30 and Counter(a.split("-")[0] for a, _ in pairs[:10]) == dict.fromkeys("01234", 2)
