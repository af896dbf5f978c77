"""How a Paragraph Vector grows with its words: the line, its end, and what it says."""

import numpy as np
import pandas as pd
import pytest

from lib import published
from lib.chapters import words_read
from lib.config import profiles
from lib.ledger import claims, testability
from tests.fake_bench import FakeBench

WORDS = (1_000, 10_000, 100_000)


def make_records(levels, target, *, readout="none", spread=0.0, seeds=(0, 1)):
    """Chance-corrected levels of the Paragraph Vector by words, and of SBERT, on two tasks.

    spread: how far the two seeds are apart.
    """
    rows = []
    for size, level in zip(WORDS, levels, strict=True):
        for seed in seeds:
            rows.append((words_read.TEACHER, size, seed, level + spread * (seed - 0.5)))
        rows.append((words_read.REFERENCE, size, 0, level))
    rows.append((words_read.TARGET, WORDS[-1], 0, target))
    frames = []
    for task in ("OC", "PAN"):
        for model, size, seed, level in rows:
            value = 0.5 + level / 2
            frames.append(
                {
                    "model": model,
                    "task": task,
                    "seed": seed,
                    "value": value,
                    "chance": 0.5,
                    "scores": np.full(40, value),
                    "groups": np.arange(40),
                    "readout": readout,
                    "documents": size // 100,
                    "words": size,
                }
            )
    return pd.DataFrame(frames)


def reach(*arguments, **options):
    (row,) = words_read.extrapolate_words(make_records(*arguments, **options)).itertuples()
    return row


def test_the_line_is_followed_to_sbert():
    """By hand: a tenth more for ten times the words, two tenths are missing; nothing is noisy."""
    row = reach((0.1, 0.2, 0.3), 0.5)
    assert (row.gain, row.missing, row.times) == pytest.approx((0.1, 0.2, 100))
    assert row.low == pytest.approx(row.high) and row.words == WORDS[-1]


def test_seeds_that_differ_widen_the_interval():
    sure, unsure = (reach((0.1, 0.2, 0.3), 0.5, spread=spread) for spread in (0.0, 0.1))
    assert unsure.low < sure.low and unsure.high > sure.high


def test_a_level_that_is_reached_takes_no_more_words():
    row = reach((0.1, 0.2, 0.3), 0.25)
    assert (row.times, row.low) == (1, 1)
    assert "at SBERT's level already" in words_read.describe_reach(row)


def test_a_line_that_does_not_rise_never_arrives():
    row = reach((0.3, 0.3, 0.3), 0.5)
    assert row.times > 1e6 and row.high == np.inf
    assert "more than a million times" in words_read.describe_reach(row)


def test_the_table_has_what_was_measured_its_end_and_other_corpora():
    table = words_read.tabulate_words(make_records((0.1, 0.2, 0.3), 0.5))
    assert table["corpus"].tolist() == [
        *("10 documents", "100 documents", "1,000 documents"),
        "SBERT's level, extrapolated",
        *("lab", "thesis"),
    ]
    assert table["paragraph_vector"][:4].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.5])
    assert table["sbert"][:4].tolist() == pytest.approx([0.5] * 4)
    assert table["words"][3] == pytest.approx(100 * WORDS[-1])


def test_each_part_of_the_corpus_is_read_once_and_sbert_judged_once():
    """Readouts judge the same Paragraph Vectors; the whole corpus is the profile's own teacher."""
    asked = []

    def run(bench, models, *, seeds):
        documents = bench.profile.contextual_teacher.documents
        asked.append((bench.profile.heads.classifier, documents, models))
        frame = pd.DataFrame([(m, s) for m in models for s in seeds.get(m, [0])])
        return frame.set_axis(["model", "seed"], axis=1)

    bench = FakeBench(
        "mini",
        run=run,
        first_texts=lambda bench, count: ["two words", "two\u200bwords", "宣布", "新的"] * 200,
        with_readout=lambda bench, name: bench.changed("heads", classifier=name),
    )
    records = words_read.run_words(bench)
    small = [words_read.TEACHER, words_read.REFERENCE]
    assert asked == [
        (readout, documents, small if documents else [*small, "SBERT"])
        for readout in ("compare", "none")
        for documents in (100, 200, 400, None)
    ]
    teacher = records[records["model"] == words_read.TEACHER]
    assert sorted(teacher["words"].unique()) == [200, 400, 800, 1600]
    assert {*teacher["seed"]} == {*profiles.load("mini").reference_seeds}


def test_parts_of_the_corpus_are_read_with_one_seed_where_references_alone_are_repeated():
    asked = {}

    def run(bench, models, *, seeds):
        asked[bench.profile.contextual_teacher.documents] = [*seeds[words_read.TEACHER]]
        return pd.DataFrame({"model": models})

    words_read.run_words(FakeBench("lab", run=run, first_texts=lambda bench, count: ["a b"] * 80))
    assert asked == {10: [0], 20: [0], 40: [0], None: [0, 1]}


@pytest.mark.parametrize(("target", "passed"), [(0.35, True), (0.45, False)])
def test_a_paragraph_vector_that_lacks_words_is_not_ranked(monkeypatch, target, passed):
    """Half of ten times the words, and more than ten times; the better readout decides."""
    records = [
        make_records((0.1, 0.2, 0.3), target, readout="none"),
        make_records((0.1, 0.15, 0.2), 0.9, readout="compare"),
    ]
    monkeypatch.setattr(words_read, "run_words", lambda bench: pd.concat(records))
    check = testability._check_words(FakeBench("mini"))
    assert check.passed is passed and "none" in check.what
    failures = testability.describe_failures(pd.DataFrame([check]))
    assert bool(failures) is not passed


def is_paragraph_vector(name):
    return name.startswith(("DM", "DBOW", "PV"))


def test_what_compares_a_paragraph_vector_alone_with_an_encoder_needs_the_check():
    """Where it is one of several rivals, the others decide, and the finding can be judged."""
    wanted = set()
    for claim in claims.load_claims():
        if claim.metric == "F1" or claim.kind not in ("beats", "count_pairs"):
            continue
        sides = claim.sides(published.load(claim.source)["model"].unique().tolist())
        pairs = zip(sides[::2], sides[1::2], strict=True)
        if claim.kind == "count_pairs":
            pairs = [([left], [right]) for left, right in sides]
        for pair in pairs:
            if sum(all(map(is_paragraph_vector, side)) for side in pair) == 1:
                wanted.add(claim.id)
    marked = {claim.id for claim in claims.load_claims() if testability.HAS_READ in claim.checks}
    assert marked == wanted and len(wanted) == 4
