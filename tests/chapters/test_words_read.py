"""How a Paragraph Vector grows with its words: the line and its end."""

import numpy as np
import pandas as pd
import pytest

from lib.chapters import words_read

WORDS = (1_000, 10_000, 100_000)


def make_records(levels, target, *, readout="none", spread=0.0):
    """Chance-corrected levels of the Paragraph Vector by words, and of SBERT, on two tasks.

    spread: how far the two seeds are apart.
    """
    rows = []
    for size, level in zip(WORDS, levels, strict=True):
        rows.append((words_read.REFERENCE, size, 0, level))
        rows += [(words_read.TEACHER, size, s, level + spread * (s - 0.5)) for s in (0, 1)]
    rows.append((words_read.TARGET, WORDS[-1], 0, target))
    records = pd.DataFrame(rows, columns=["model", "words", "seed", "level"])
    records["value"] = 0.5 + records["level"] / 2
    records["scores"] = [np.full(40, value) for value in records["value"]]
    records["groups"] = [np.arange(40)] * len(records)
    records = records.assign(chance=0.5, readout=readout, documents=records["words"] // 100)
    return pd.concat([records.assign(task=task) for task in ("OC", "PAN")], ignore_index=True)


def reach(*arguments, **options):
    (row,) = words_read.extrapolate_words(make_records(*arguments, **options)).itertuples()
    return row


def test_the_line_is_followed_to_sbert():
    """By hand: a tenth more for ten times the words, two tenths are missing; nothing is noisy."""
    row, unsure = (reach((0.1, 0.2, 0.3), 0.5, spread=spread) for spread in (0.0, 0.1))
    assert (row.gain, row.times) == pytest.approx((0.1, 100))
    assert row.low == pytest.approx(row.high) and row.words == WORDS[-1]
    assert unsure.low < row.low and unsure.high > row.high, "seeds that differ"


def test_a_level_that_is_reached_takes_no_more_words_and_a_flat_line_never_arrives():
    reached, flat = reach((0.1, 0.2, 0.3), 0.25), reach((0.3, 0.3, 0.3), 0.5)
    assert (reached.times, reached.low) == (1, 1)
    assert flat.times > 1e6 and flat.high == np.inf
