"""Ingredients of notebook 10 on the way from a label to a student: rows, targets, names."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lib.distillation.variants import CONTEXTUAL_TEACHERS, LSA, parse
from lib.experiments import Bench
from tests.experiments.test_reuse import add_constant

BESIDE = "cosine;LSA;S:768(ReLU)x1024;C:-"
CHUNKS = "cosine;chunks"
NEGATIVES = "max-margin;MSE;γ=1.0;negatives=7"


def test_lsa_teaches_in_the_width_of_a_paragraph_vector(make_bench):
    bench = make_bench()
    texts = bench.texts("validation")
    rows = bench.contextual(LSA, texts)[:]
    assert rows.shape == (len(texts), round(1024 * bench.profile.width))
    assert_array_equal(rows, bench._embed_texts(parse("LSA"), 0, texts))
    few = make_bench(contextual_teacher__documents=20).contextual(LSA, texts)[:]
    assert few.shape == rows.shape and not few[:, 20:].any() and few[:, :20].any()


def test_teachers_of_a_compound_stand_side_by_side(make_bench):
    bench = make_bench()
    pv, texts = CONTEXTUAL_TEACHERS["PV;2048d"], bench.texts("validation")
    parts = [bench.contextual(label, texts)[:] for label in (pv, LSA)]
    assert_array_equal(bench.contextual(f"{pv}+{LSA}", texts)[:], np.hstack(parts))


def test_a_loaded_paragraph_vector_embeds_as_the_kept_rows(make_bench):
    bench, label = make_bench(), "DM;100;lowercase;2"
    model, texts = bench.load_paragraph_vector(label), bench.texts("validation")
    assert_array_equal(model.encode(texts), bench.contextual(label, texts)[:])


@pytest.fixture
def prepared(make_bench):
    """A bench with what students of these ingredients learn from."""
    bench = make_bench()
    bench._prepare([parse(label) for label in (BESIDE, CHUNKS, NEGATIVES)], [])
    return bench


def test_targets_are_the_beginning_all_chunks_or_with_negatives(prepared):
    documents = {
        label: prepared.lesson(parse(label), 0).documents
        for label in ("cosine", CHUNKS, NEGATIVES, BESIDE)
    }
    beginning = prepared.structural("train")["embeddings"][:]
    whole = documents[CHUNKS].structural[:]
    assert whole.shape == beginning.shape
    short = (
        np.array(documents["cosine"].lengths) <= prepared.profile.training.max_structural_len - 2
    )
    same = np.isclose(whole, beginning, atol=1e-5).all(axis=1)
    assert_array_equal(same, short)
    joined = documents[NEGATIVES].structural[:].reshape(len(beginning), 8, -1)
    assert_array_equal(joined[:, 0], beginning)
    assert (joined[:, 1:] != beginning[:, None]).any(axis=2).all()
    assert_array_equal(documents[BESIDE].structural[:], beginning)
    assert documents[CHUNKS].contextual is None and documents[BESIDE].contextual is not None


def test_ingredients_make_students_of_their_own(prepared, edit_source):
    def name_students():
        bench = Bench(prepared.profile, prepared.cache)
        return {label: bench.student_product(parse(label), 0).name for label in labels}

    labels = ("cosine", CHUNKS, NEGATIVES, BESIDE)
    before = name_students()
    assert len({*before.values()}) == len(labels)
    edit_source("lib.distillation.negatives", add_constant)
    after = name_students()
    assert {label for label in labels if before[label] != after[label]} == {NEGATIVES}


def test_they_are_trained_and_judged_as_all_students_are(make_bench):
    bench = make_bench().with_readout("none")
    records = bench.run([BESIDE, CHUNKS, NEGATIVES], seeds=[0])
    assert {*records["model"]} == {BESIDE, CHUNKS, NEGATIVES}
    assert records["value"].between(0, 1).all()
    losses = [bench.embeddings(label, 0)["loss"] for label in (BESIDE, CHUNKS, NEGATIVES)]
    assert np.isfinite(losses).all()
