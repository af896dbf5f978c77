"""How far results hang on the length of training, and on the words that a teacher has read."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import sensitivity
from lib.config import profiles
from lib.config.profiles import grid
from lib.statistics import verdicts
from tests.fake_bench import FakeBench, fake_model

STUDENTS, TIMES, DOUBLED = map(grid("beyond").get, ("students", "times", "doubled"))


def run_falling(bench, identities, *, seeds):
    """As `Bench.run`: a score falls by a hundredth for each four documents that a student read, and
    is .1 lower without a head.
    """
    training, rows = bench.profile.training, []
    for identity, seed in itertools.product(identities, seeds):
        read = 0 if identity == "Longformer" else training.documents * training.passes
        value = 0.9 - read / 400 - 0.1 * (bench.profile.heads.readout == "none")
        row = {"model": identity, "task": "OC", "seed": seed, "value": value, "chance": 0.5}
        scores = (np.arange(200) < round(200 * value)).astype(float)
        rows.append(row | {"scores": scores, "groups": np.arange(200).astype(str)})
    return pd.DataFrame(rows).assign(folds=1, readout=bench.profile.heads.readout)


def load_bench(**overrides):
    """A bench whose students all lie at 45 degrees to the teacher on one of two documents."""
    return FakeBench(
        profiles.load("smoke", overrides={"training.documents": 24} | overrides),
        run=run_falling,
        model=lambda *_: fake_model(np.array([[1.0, 0.0], [1.0, 1.0]])),
        teacher=fake_model(np.eye(2)),
    )


@pytest.fixture
def frame():
    return sensitivity.run_lengths(load_bench(max_variants=None))


def test_each_length_is_a_training_of_its_own_from_the_base_to_twice_as_long(frame):
    counts = frame.groupby(["times", "updates"])["model"].nunique().to_dict()
    few = {times: len(DOUBLED if times > 1 else STUDENTS) for times in TIMES}
    assert counts == {(0, 0): 1} | {(times, 4 * times): few[times] for times in TIMES}
    assert {*TIMES} >= {1, 2}, "what twice the updates change is checked"
    seeds = [*load_bench().profile.reference_seeds]
    assert frame["seed"].unique().tolist() == seeds
    assert frame.query("times > 1")["seed"].unique().tolist() == seeds[:1]
    assert {*frame["readout"]} == {"thesis", "none"}


def test_a_longer_training_reads_more_documents_and_then_the_same_again():
    bench = load_bench(**{"corpus.train_documents": 30})
    for times, read in {0.25: (6, 1), 1: (24, 1), 2: (24, 2), 4: (24, 4)}.items():
        assert tuple(sensitivity.find_length(bench.profile, times).values()) == read
    twice = load_bench(**{"training.passes": 2}).profile
    assert sensitivity.find_length(twice, 0.5) == {"documents": 24, "passes": 1}


def test_what_more_training_changes_is_judged_over_texts_by_one_readout(frame):
    evidence = sensitivity.collect_evidence(frame, "none")
    pairs = [("cosine ×2", "cosine ×1"), ("cosine ×0.5", "base ×0"), ("MSE ×1", "base ×0")]
    table = verdicts.compare(pairs, evidence)
    assert table["difference"].tolist() == pytest.approx([-0.12, -0.06, -0.12])
    assert table["verdict"].tolist() == ["reversed"] * 3
    assert evidence.runs[evidence.means.index.get_loc("base ×0")] == np.inf, "it was not trained"


WORDS = (1_000, 10_000, 100_000)


def make_word_records(levels, target, *, readout="none", spread=0.0):
    """Chance-corrected levels of the Paragraph Vector by words, and of SBERT, on two tasks.

    spread: how far the two seeds are apart.
    """
    rows = []
    for size, level in zip(WORDS, levels, strict=True):
        rows.append((sensitivity.REFERENCE, size, 0, level))
        rows += [(sensitivity.TEACHER, size, s, level + spread * (s - 0.5)) for s in (0, 1)]
    rows.append((sensitivity.TARGET, WORDS[-1], 0, target))
    records = pd.DataFrame(rows, columns=["model", "words", "seed", "level"])
    records["folds"] = 1
    records["value"] = 0.5 + records["level"] / 2
    records["scores"] = [np.full(40, value) for value in records["value"]]
    records["groups"] = [np.arange(40)] * len(records)
    records = records.assign(chance=0.5, readout=readout, documents=records["words"] // 100)
    return pd.concat([records.assign(task=task) for task in ("OC", "PAN")], ignore_index=True)


def reach(*arguments, **options):
    (row,) = sensitivity.extrapolate_words(make_word_records(*arguments, **options)).itertuples()
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
