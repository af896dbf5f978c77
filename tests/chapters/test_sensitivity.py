"""How far results hang on the length of training."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lib.chapters import sensitivity
from lib.config import profiles
from lib.config.profiles import grid
from tests.fake_bench import FakeBench, fake_model

STUDENTS, TIMES = (grid("beyond")[name] for name in ("students", "times"))


def run_falling(bench, identities, *, seeds):
    """As `Bench.run`: a score falls by a hundredth for each four documents that a student read, and
    is .1 lower without a head."""
    training, rows = bench.profile.training, []
    for identity, seed in itertools.product(identities, seeds):
        read = 0 if identity == "Longformer" else training.documents * training.passes
        value = 0.9 - read / 400 - 0.1 * (bench.profile.heads.classifier == "similarity")
        row = {"model": identity, "task": "OC", "seed": seed, "value": value, "chance": 0.5}
        scores = (np.arange(200) < round(200 * value)).astype(float)
        rows.append(row | {"scores": scores, "groups": np.arange(200).astype(str)})
    return pd.DataFrame(rows)


def load_bench(**overrides):
    """A bench whose students all lie at 45 degrees to the teacher on one of two documents."""
    return FakeBench(
        profiles.load("smoke", overrides=overrides),
        run=run_falling,
        embeddings=lambda *_: {"validation": np.array([[1.0, 0.0], [1.0, 1.0]])},
        teacher=fake_model(np.eye(2)),
    )


@pytest.fixture
def bench():
    return load_bench(max_variants=None)


@pytest.fixture
def frame(bench):
    return sensitivity.run_lengths(bench)


def test_each_length_is_a_training_of_its_own_from_the_base_to_twice_as_long(frame, bench):
    counts = frame.groupby(["times", "updates"])["model"].nunique().to_dict()
    students = len(STUDENTS)
    assert counts == {(0, 0): 1} | {(times, 4 * times): students for times in TIMES}
    assert {*TIMES} >= {1, 2}, "what twice the updates change is checked"
    assert {*frame["seed"]} == {*bench.profile.reference_seeds}
    assert {*frame["readout"]} == {"heads", "no head"}


def test_a_longer_training_reads_more_documents_and_then_the_same_again():
    bench = load_bench(**{"corpus.train_documents": 30})
    read = {}
    for times in (0.25, 1, 2, 4):
        read[times] = tuple(sensitivity.find_length(bench.profile, times).values())
    assert read == {0.25: (6, 1), 1: (24, 1), 2: (24, 2), 4: (24, 4)}
    twice = load_bench(**{"training.passes": 2}).profile
    assert sensitivity.find_length(twice, 0.5) == {"documents": 24, "passes": 1}


def test_what_more_training_changes_is_judged_over_texts_by_one_readout(frame):
    table = sensitivity.judge_lengths(frame, "no head").set_index(["left", "right"])
    assert table.loc[("cosine ×2", "cosine ×1"), "difference"] == pytest.approx(-0.12)
    assert table.loc[("cosine ×0.5", "base ×0"), "difference"] == pytest.approx(-0.06)
    assert table.loc[("cosine ×2", "cosine ×1"), "verdict"] == "reversed"
    assert ("cosine ×2", "MSE ×2") in table.index
    assert ("cosine ×2", "cosine ×0.5") not in table.index, "steps are doublings"
