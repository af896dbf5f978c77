"""Paragraph Vector: labels, the same vectors in any order and process, bad input."""

import hashlib
import os
import subprocess
import sys
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from gensim.models import doc2vec
from gensim.models.doc2vec import Doc2Vec, TaggedDocument
from gensim.models.keyedvectors import pseudorandom_weak_vector

from lib.teachers.labels import CONTEXTUAL_TEACHERS, Spec
from lib.teachers.paragraph_vector import ParagraphVector, prepare_words

WORDS = (
    "river rivers bank money flowing flows stone Stone stones "
    "market markets trade boat boats water deep"
).split()
COMPOUND = "DM;8;stem;2+DBOW;8;None;2"


def make_texts(count=20, length=40, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, length)) for _ in range(count)]


@pytest.fixture(scope="module")
def models():
    return {
        label: ParagraphVector.parse(label).train(make_texts())
        for label in ("DM;8;stem;2", "DBOW;8;None;2", COMPOUND)
    }


def test_labels_of_the_thesis():
    parts = (("DM", "DBOW"), ("100", "768"), ("stem", "lowercase", "None"), ("2", "10%"))
    for label in map(";".join, product(*parts)):
        assert ParagraphVector.parse(label).dim == int(label.split(";")[1])
    model = ParagraphVector.parse("DM;1024;stem;2+DBOW;100;None;10%", width=0.5)
    assert model.specs == (Spec("DM", 512, "stem", 2), Spec("DBOW", 50, "None", None))
    assert model.dim == 562
    for name, label in CONTEXTUAL_TEACHERS.items():
        assert ParagraphVector.parse(name) == ParagraphVector.parse(label)
        assert ParagraphVector.parse(name).dim == int(name.split(";")[1][:-1])


@pytest.mark.parametrize(
    "part", ["DX;8;stem;2", "DM;8;stem;5%", "DBOW;0;None;2", "DM;8;stem", "DM;٨;None;2"]
)
def test_errors_name_the_bad_part(part):
    with pytest.raises(ValueError, match=f"'{part}' is not of the form DM or DBOW; vector size;"):
        ParagraphVector.parse(f"DM;8;stem;2+{part}")


def test_ten_percent_is_one_percent_of_the_documents_in_occurrences():
    """Rounded half up, and at least 2: 3 occurrences in 250 documents, 2 in 20."""
    texts = ["often often often", "twice twice", *["once" for _ in range(1)], *["x" * 9] * 247]
    for count, known in ((250, {"often", "x" * 9}), (20, {"often", "twice", "x" * 9})):
        (model,) = ParagraphVector.parse("DM;4;None;10%").train(texts[:count], epochs=1).models
        assert set(model.wv.index_to_key) == known


def test_preprocessing():
    text = "The Stones\tare flowing,\n FLOWING rivers"
    assert prepare_words(text, "None") == ["The", "Stones", "are", "flowing,", "FLOWING", "rivers"]
    lowercase = ["the", "stones", "are", "flowing,", "flowing", "rivers"]
    assert prepare_words(text, "lowercase") == lowercase
    assert prepare_words(text, "stem") == ["the", "stone", "are", "flowing,", "flow", "river"]


def test_vocabulary_counts_occurrences_and_a_stream_is_read_again_each_epoch():
    texts = ["once twice twice"] + ["filler filler"] * 3
    model, streamed = (ParagraphVector.parse("DM;8;None;2").train(t) for t in (texts, iter(texts)))
    assert set(model.models[0].wv.index_to_key) == {"twice", "filler"}
    np.testing.assert_array_equal(streamed.encode(texts), model.encode(texts))


CHANGES = {"window": 2, "negative": 3, "sample": 1e-2}


@pytest.mark.parametrize(
    "label, changes",
    [
        ("DM;8;stem;2", {}),
        ("DBOW;8;None;2", {}),
        ("DM;8;stem;2", CHANGES | {"alpha": 0.05, "min_alpha": 1e-3, "epochs": 4}),
        ("DBOW;8;None;2", CHANGES | {"dbow_words": False, "seed": 3}),
    ],
)
def test_inference_is_gensims_with_its_two_hidden_inputs_fixed(label, changes, monkeypatch):
    """Against a Doc2Vec trained here and its own infer_vector, reseeded and with a stable hash."""
    settings = {"window": 5, "negative": 5, "sample": 0, "epochs": 10, "dbow_words": 1}
    settings |= {"alpha": 0.025, "min_alpha": 1e-4, "seed": 0} | changes
    words = [prepare_words(text, label.split(";")[2]) for text in make_texts()]
    documents = [TaggedDocument(each, [index]) for index, each in enumerate(words)]
    fixed = {"dm": label.startswith("DM"), "dm_mean": 1, "vector_size": 8, "min_count": 2}
    reference = Doc2Vec(documents, workers=1, **fixed, **settings)

    def stable(size, seed_string):
        return pseudorandom_weak_vector(size, seed_string, lambda text: zlib.crc32(text.encode()))

    monkeypatch.setattr(doc2vec, "pseudorandom_weak_vector", stable)
    texts = make_texts(3, 25, seed=1)
    expected = []
    for text in texts:
        reference.random.seed(settings["seed"])
        expected.append(reference.infer_vector(prepare_words(text, label.split(";")[2])))
    found = ParagraphVector.parse(label).train(make_texts(), **changes).encode(texts)
    assert found.dtype == np.float32 and found.shape == (3, 8)
    np.testing.assert_allclose(found, np.stack(expected), rtol=0, atol=1e-7)


@pytest.mark.parametrize("label", ["DM;8;stem;2", COMPOUND])
def test_a_vector_depends_on_its_text_alone(models, label):
    """Not on the order, nor on earlier calls."""
    texts = make_texts(6, 25, seed=1)
    whole = models[label].encode(texts)
    np.testing.assert_array_equal(models[label].encode(texts[::-1]), whole[::-1])
    np.testing.assert_array_equal(models[label].encode([texts[4], texts[4]]), whole[[4, 4]])
    assert len(np.unique(whole, axis=0)) == 6


def test_same_bits_in_processes_with_different_hash_seeds(models):
    """Train and encode in two processes, in different orders of calls."""
    script = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from tests.teachers.test_paragraph_vector import COMPOUND, ParagraphVector, make_texts
model = ParagraphVector.parse(COMPOUND).train(make_texts())
texts = make_texts(6, 25, seed=1)
for index in map(int, sys.argv[2]):
    last = model.encode([texts[index]])
whole = model.encode(texts)
print(hashlib.sha256(whole.tobytes()).hexdigest())
"""
    root, outputs = str(Path(__file__).parents[2]), set()
    for seed, calls in (("1", "012345"), ("2", "5033")):
        variables = os.environ | {"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", script, root, calls]
        outputs.add(subprocess.check_output(command, env=variables, text=True).split("\n")[-2])
    expected = models[COMPOUND].encode(make_texts(6, 25, seed=1))
    assert outputs == {hashlib.sha256(expected.tobytes()).hexdigest()}


def test_training_follows_its_seed(models):
    texts = make_texts(2, seed=3)
    other = ParagraphVector.parse("DM;8;stem;2").train(make_texts(), seed=1)
    assert not np.array_equal(other.encode(texts), models["DM;8;stem;2"].encode(texts))
    again = ParagraphVector.parse("DM;8;stem;2").train(make_texts(), seed=0)
    np.testing.assert_array_equal(again.encode(texts), models["DM;8;stem;2"].encode(texts))
    again.train(make_texts(), seed=1)  # a model that has encoded can be trained anew
    np.testing.assert_array_equal(again.encode(texts), other.encode(texts))


def test_a_compound_is_two_models_side_by_side(models):
    texts = make_texts(4, seed=2)
    whole = models[COMPOUND].encode(texts)
    for label, columns in (("DM;8;stem;2", slice(0, 8)), ("DBOW;8;None;2", slice(8, 16))):
        np.testing.assert_array_equal(whole[:, columns], models[label].encode(texts))
    sizes = {model.dv.vectors.size for model in models[COMPOUND].models}
    assert sizes == {0}, "training documents are not kept"


def test_a_text_without_a_known_word_is_zero(models):
    """Else two unknown texts would have directions of their own, drawn from their letters."""
    stem, case = np.split(models[COMPOUND].encode(["quite unheard of", "日本", "RIVER"]), 2, axis=1)
    assert not stem[:2].any() and not case.any(), "DBOW keeps case"
    assert stem[2].any()


@pytest.mark.parametrize("texts", [[], ["river", "bank"]])
def test_without_a_frequent_word_there_is_no_model(texts):
    with pytest.raises(RuntimeError, match="vocabulary"):
        ParagraphVector.parse("DM;8;None;2").train(texts)
