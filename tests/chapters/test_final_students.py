"""Chapter 5: the profile of its training, and Table 5.7."""

import pandas as pd
import pytest

from lib.chapters import final_students
from lib.config import paths, profiles
from tests.fake_bench import FakeBench


def test_final_students_train_with_table_5_2():
    changes = {"final.learning_rate": 2e-4, "final.accumulation": 5}
    changes |= {"final.documents": 90, "final.warmup_updates": 1}
    profile = profiles.load("mini", overrides=changes)
    found = final_students.prepare_bench(FakeBench(profile)).profile
    scheme = found.training
    assert (scheme.learning_rate, scheme.accumulation, scheme.documents) == (2e-4, 5, 90)
    assert found.training.warmup_share == pytest.approx(profile.final.warmup_updates / 3)
    assert found.contextual_teacher.seed != profile.contextual_teacher.seed


def test_summaries_that_do_not_follow_from_their_rows_are_the_few_shot_ones():
    """The normalised means of the 1k and 10k rounds are too low; those of "all" follow."""
    table = pd.read_csv(paths.ROOT / "figures/mini/tab5_7.csv")
    off = table[table["follows"] == "no"]
    assert set(off["task"]) == {"norm_mean"} and set(off["round"]) == {"1k", "10k"}
    assert (off["recomputed"] > off["published"]).all()
