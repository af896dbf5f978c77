"""The base as a language model: a product of its own, in the names of all that starts from it."""

import numpy as np
import pytest
import torch

from lib.distillation import variants
from lib.distillation.variants import Variant
from lib.experiments import models
from lib.student import masked_words

COSINE, BASE = variants.parse("cosine"), Variant("base")
CONTEXTUAL = "cosine;100d;S:768x100;C:-"


def name_all(bench):
    """The base, a student, the student's vectors' table, and the token ids'."""
    return {
        "base": bench._find_encoder(BASE, 0).table.name,
        "student": bench.student_product(COSINE, 0).name,
        "tokens": sorted(path.name for path in (bench.cache.folder / "tokens").iterdir()),
    }


@pytest.fixture
def none_trained(monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a language model is trained")

    monkeypatch.setattr(masked_words, "train_masked_words", fail)


def test_the_base_is_what_the_language_model_left(make_bench, none_trained):
    bench = make_bench()
    layers = models.load_layers(bench.profile.student).state_dict()
    weights = bench.cache.arrays(bench._name_base().language_model, models.miss_product)
    started = bench.base_student().state_dict()
    assert {*started} - {*weights} == {"embeddings.word_embeddings.weight"}
    for name, value in started.items():
        assert np.array_equal(value, weights.get(name, layers[name]))
    moved = [name for name in weights if not np.array_equal(weights[name], layers[name])]
    assert len(moved) == len(weights)


def test_its_note_says_what_it_learned(make_bench, none_trained):
    note = make_bench().language_model()
    assert len(note["loss"]) == 7 and note["seconds"] > 0
    assert note["held_out"] > 0 and note["unigram"] > 0
    assert make_bench(student__language_model=None).language_model() is None


def test_students_start_from_it(make_bench, none_trained):
    lesson = make_bench().lesson(COSINE, 0)
    started = make_bench().base_student().encode(lesson.documents.token_ids[:3])
    assert np.array_equal(lesson.base.load(0.0).encode(lesson.documents.token_ids[:3]), started)


def test_another_language_model_is_another_base_and_another_student(make_bench, none_trained):
    before = name_all(make_bench())
    longer = make_bench().profile.student.language_model.model_dump() | {"epochs": 2}
    after = name_all(make_bench(student__language_model=longer))
    assert before["base"] != after["base"] and before["student"] != after["student"]
    assert before["tokens"] == after["tokens"]


def test_its_code_makes_the_base_and_students_stale(make_bench, edit_source, none_trained):
    before = name_all(make_bench()), name_all(make_bench(student__language_model=None))
    edit_source("lib.student.masked_words", lambda source: source + "\nEXTRA = 1\n")
    after = name_all(make_bench()), name_all(make_bench(student__language_model=None))
    assert before[0]["base"] != after[0]["base"] and before[0]["student"] != after[0]["student"]
    assert before[1] == after[1]


def test_without_one_the_base_is_a_slice_of_the_teacher(make_bench, none_trained):
    bench = make_bench(student__language_model=None)
    layers = models.load_layers(bench.profile.student).state_dict()
    started = bench.base_student().state_dict()
    assert all(torch.equal(value, layers[name]) for name, value in started.items())
    inputs = bench.student_product(COSINE, 0).inputs
    assert {*inputs["base"]} == {*type(bench.profile.student).model_fields, "files"} - {
        "language_model"
    }, "students are named as before there were language models"
    assert "passes" not in inputs["training"]


def test_several_passes_are_another_student(make_bench, none_trained):
    assert name_all(make_bench()) != name_all(make_bench(training__passes=2))


def test_a_training_that_is_killed_leaves_nothing(make_bench, monkeypatch):
    changed = make_bench().profile.student.language_model.model_dump() | {"seed": 1}
    bench = make_bench(student__language_model=changed)
    folder = bench.cache.folder / "language_model"
    before = {path.name for path in folder.iterdir()}

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(masked_words, "cross_entropy", killed)
        with pytest.raises(KeyboardInterrupt):
            bench.base_student()
    assert {path.name for path in folder.iterdir() if path.suffix != ".lock"} == {
        name for name in before if not name.endswith(".lock")
    }
    assert len(bench.language_model()["loss"]) == 7


def test_reading_says_that_it_is_missing(make_bench, none_trained):
    changed = make_bench().profile.student.language_model.model_dump() | {"seed": 1}
    with pytest.raises(LookupError, match="language_model .* is not in"):
        make_bench(student__language_model=changed).reading().base_student()


def test_what_a_contextual_student_starts_from_is_made_first(make_bench):
    """It is measured against the base before it is trained."""
    other = make_bench().profile.student.language_model.model_dump() | {"seed": 5}
    lesson = make_bench(student__language_model=other).lesson(variants.parse(CONTEXTUAL), 0)
    started = lesson.base.load(0.0).encode(lesson.held_out.token_ids, precision=lesson.precision)
    assert np.allclose(lesson.start[:], started, atol=1e-5)
