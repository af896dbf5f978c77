"""The measure and the rule by which the contextual teachers' epochs are chosen."""

from types import SimpleNamespace

import pandas as pd
import pytest

from benchmarks import teacher_epochs
from tests.fake_bench import FakeBench

TOPICS = ("apple tree garden leaf", "saw shed blade wood", "boat lake wind sail")


def make_bench():
    """Twenty-one training documents on three topics in turn, and a held-out one of each."""
    documents = [
        SimpleNamespace(text=" ".join([TOPICS[number % 3]] * 4 + [f"word{number}"] * 2))
        for number in range(24)
    ]
    bench = FakeBench("smoke")
    bench.corpus = SimpleNamespace(train=documents[:21], validation=documents[21:])
    return bench


def test_no_teacher_reads_what_it_is_measured_on():
    read, halves = teacher_epochs.split_documents(make_bench())
    assert len(read) == 18 and len(halves) == 2 * (3 + 3)
    for number in (0, 7, 14, 21, 22, 23):
        assert not any(f"word{number} " in text + " " for text in read)
        assert any(f"word{number} " in text + " " for text in halves)


def test_each_teacher_is_measured_at_each_length():
    table = teacher_epochs.measure_teachers(make_bench(), [1, 2], [5])
    assert len(table) == 3 * 2 * 2 and table["mrr"].between(0, 1).all()
    means = table.groupby(["teacher", "inference"])["mrr"].mean()
    assert means["DM;100d", 0] != means["DM;100d", 5]


@pytest.mark.parametrize(
    ("measured", "chosen"),
    [((0.10, 0.20, 0.205, 0.3), 10), ((0.1, 0.2, 0.3, 0.4), None), ((0.2, 0.1, 0.1, 0.1), 5)],
)
def test_the_first_length_counts_whose_double_adds_less_than_a_twentieth(measured, chosen):
    means = pd.Series(measured, index=[5, 10, 20, 40])
    assert teacher_epochs.choose_epochs(means) == chosen
