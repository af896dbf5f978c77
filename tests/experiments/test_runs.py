"""From variants to records, on real texts at smoke scale: what is trained, what is reused, what a change retrains."""

from concurrent.futures import Executor, Future

import numpy as np
import pytest

from lib.config import profiles
from lib.distillation.variants import parse
from lib.experiments import accuracies, embeddings, keys, runs, student_training
from lib.store import records


class Inline(Executor):
    """An executor that works at once, in this process."""

    def submit(self, function, /, *arguments, **keywords):
        future = Future()
        try:
            future.set_result(function(*arguments, **keywords))
        except Exception as error:
            future.set_exception(error)
        return future


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """The smoke profile with an artifact root of its own, shared by this module's tests."""
    patch = pytest.MonkeyPatch()
    patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("artifacts")))
    yield profiles.load("smoke", overrides={"training.documents": 12})
    patch.undo()


def test_records_are_tidy_and_a_second_call_trains_nothing(profile, monkeypatch):
    frame = runs.run(
        ["SBERT", "cosine"], profile=profile, seeds=[0], tasks=["OC", "IMDB"], executor=Inline()
    )
    assert frame[["model", "task"]].to_numpy().tolist() == [
        ["SBERT", "OC"], ["SBERT", "IMDB"], ["cosine", "OC"], ["cosine", "IMDB"]
    ]  # fmt: skip
    assert frame["value"].between(0, 1).all() and (frame["metric"] == "accuracy").all()
    assert (
        frame["fingerprint"].is_unique
        and (frame["device"] == "cpu").all()
        and (frame["seconds"] > 0).all()
    )

    def never(*arguments, **keywords):
        raise AssertionError("trained again")

    monkeypatch.setattr(student_training, "train_student", never)
    monkeypatch.setattr(accuracies, "evaluate", never)
    again = runs.run(
        ["SBERT", "cosine"], profile=profile, seeds=[0], tasks=["OC", "IMDB"], executor=Inline()
    )
    assert again.equals(frame)


def test_a_profile_with_one_task_of_any_name_and_a_model_that_the_thesis_lacks(profile):
    """S4 and S7: tasks come from the profile, by kind; a gamma of one's own is trained and recorded."""
    folders = profile.tasks.model_dump(mode="json")["folders"]
    changes = {"training.documents": 12, "tasks.folders": {"own links": folders["OC"]}}
    own = profiles.load("smoke", overrides=changes)
    frame = runs.run(["max-margin;cosine;γ=2.0"], profile=own, seeds=[5], executor=Inline())
    assert frame[["model", "task", "seed"]].to_numpy().tolist() == [
        ["max-margin;cosine;γ=2.0", "own links", 5]
    ]
    assert 0 <= frame["value"][0] <= 1
    assert runs.retrieve(
        ["SBERT"], profile=own, seeds=[5], executor=Inline()
    ).empty  # it has no such task


def test_a_damaged_record_is_rebuilt_with_the_same_value(profile):
    frame = runs.run(["SBERT"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline())
    path = records.store().folder / "records" / f"{frame['fingerprint'][0]}.json"
    path.write_text(path.read_text()[:5])
    with pytest.warns(UserWarning, match="damaged or unfinished"):
        again = runs.run(["SBERT"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline())
    assert again["value"][0] == frame["value"][0]


def test_a_students_contextual_training_is_watched(profile):
    made = embeddings.of("only-contextual;100d;S:768;C:768", 0, profile)
    updates, *measured, share = made["watched"].T
    assert updates.tolist() == [0, 1, 2] and len(made["loss"]) == 2
    assert all(((0 <= values) & (values <= 1)).all() for values in measured) and share.tolist() == [
        1,
        1,
        1,
    ]


def test_retrieval_scores_every_model_on_both_metrics(profile):
    frame = runs.retrieve(["SBERT", "TF-IDF"], profile=profile, seeds=[0], executor=Inline())
    assert len(frame) == 2 * 2 * 2
    assert set(frame["metric"]) == {"MAP", "MRR"} and frame["value"].between(0, 1).all()
    scores = frame.set_index(["model", "task", "metric"])["value"]
    assert (scores.xs("MRR", level="metric") >= scores.xs("MAP", level="metric")).all()


def test_the_first_error_is_raised_after_the_others_are_done(profile, monkeypatch):
    real = student_training.train_student

    def fail(variant, *arguments, **options):
        if variant.structural == "MSE":
            raise FloatingPointError("loss is nan at update 1 of 2")
        return real(variant, *arguments, **options)

    monkeypatch.setattr(student_training, "train_student", fail)
    with (
        pytest.warns(UserWarning, match="models: MSE failed: loss is nan"),
        pytest.raises(FloatingPointError, match="update 1 of 2"),
    ):
        runs.run(
            ["MSE", "contrastive"], profile=profile, seeds=[0], tasks=["OC"], executor=Inline()
        )
    assert records.store().has(keys.embeddings(parse("contrastive"), 0, profile))


def test_halves_that_are_alike_find_each_other(monkeypatch):
    halves = {"alike": np.tile(np.eye(3), (2, 1)), "half alike": np.eye(4)[[0, 1, 0, 2]]}
    monkeypatch.setattr(embeddings, "of", lambda model, seed, profile: {"halves": halves[model]})
    assert runs.halves_mrr("alike", 0, None) == 1.0
    # 0 and 2 find each other first; 1 has 3 as the last of three equally far, 3 has 1 after 0
    assert runs.halves_mrr("half alike", 0, None) == pytest.approx((1 + 1 / 3 + 1 + 1 / 2) / 4)
