"""Students trained by a recipe: each recipe on a few texts, and the joint target."""

import numpy as np
import pytest

from lib.vectors import trained
from lib.vectors.lexical import scale_rows
from lib.vectors.recipes import RECIPES

SUBJECTS = {"sea": "ship wave harbour sail tide", "farm": "cow field barn plough harvest"}


def write_texts(count, seed):
    generator = np.random.default_rng(seed)
    words = [[*SUBJECTS["sea"].split()], [*SUBJECTS["farm"].split()]]
    return [" ".join(generator.choice(words[row % 2], 150)) for row in range(count)]


@pytest.fixture(scope="module")
def lessons():
    return trained.read_lesson(write_texts(6, 0)), trained.read_lesson(write_texts(4, 1))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(trained, "TOKENS", 400)
    monkeypatch.setattr(trained, "CHECK_EVERY", 1)


def test_a_lesson_has_the_teachers_vectors_of_stretches(lessons):
    train, _ = lessons
    document = train.documents[0]
    assert document.sizes[0] == 126 and len(document.ends) == 2
    vectors = scale_rows(trained.load_teacher().encode(train.pieces[:2]))
    np.testing.assert_allclose(document.stretches, vectors, atol=1e-6)


def test_the_start_repeats_the_positions_of_training():
    student = trained.load_start()
    table, first = student.embeddings.position_embeddings.weight.detach(), student.padding + 1
    np.testing.assert_array_equal(table[first + 128], table[first + 1])


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_trains(lessons, name):
    student, history = trained.train_student(RECIPES[name], *lessons, updates=2, seed=0)
    assert len(history.loss) == 2 and [update for update, _ in history.held_out] == [0, 1, 2]
    vectors = student.encode(lessons[0].texts)
    moved = np.abs(vectors - trained.load_start().encode(lessons[0].texts)).max()
    assert (moved > 0) == (history.best > 0)


def test_a_joint_target_is_near_the_start_and_has_both_parts(lessons):
    train, held_out = lessons
    start = trained.load_start().encode(train.texts)
    joint, _ = trained.join_targets(train, held_out, start)
    whole = np.stack([document.whole for document in joint.documents])
    cosines = (scale_rows(whole) * scale_rows(start)).sum(axis=1)
    assert cosines.min() > 0.5
    similar = scale_rows(whole) @ scale_rows(whole).T
    subjects = np.arange(len(whole)) % 2
    alike = subjects[:, None] == subjects
    assert similar[alike].mean() > similar[~alike].mean()
