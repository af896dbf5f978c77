"""Paragraph Vector: labels, the same vectors in any order and process."""

import hashlib
import os
import subprocess
import sys
import zlib
from itertools import product

import numpy as np
import pytest
from gensim.models import doc2vec
from gensim.models.doc2vec import Doc2Vec, TaggedDocument
from gensim.models.keyedvectors import pseudorandom_weak_vector

from lib.config import paths
from lib.distillation.variants import CONTEXTUAL_TEACHERS
from lib.teachers import paragraph_vector
from lib.teachers.paragraph_vector import ParagraphVector, Spec, parse, prepare_words

WORDS = "river rivers bank money flowing flows stone Stone stones market markets boat boats".split()
LABELS = ("DM;8;stem;2", "DBOW;8;None;2")
SETTINGS = {"sample": 0, "seed": 0, "dbow_words": True}  # as in the profiles


def make_texts(count=20, length=40, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, length)) for _ in range(count)]


@pytest.fixture(scope="module")
def models():
    return {label: ParagraphVector(label).train(make_texts(), **SETTINGS) for label in LABELS}


def test_labels_of_the_thesis():
    parts = (("DM", "DBOW"), ("100", "768"), ("stem", "lowercase", "None"), ("2", "10%"))
    for label in map(";".join, product(*parts)):
        assert parse(label).size == int(label.split(";")[1])
    assert parse("DM;1024;stem;2", width=0.5) == Spec("DM", 512, "stem", 2)
    assert ParagraphVector("DBOW;100;None;10%", 0.5).spec == Spec("DBOW", 50, "None", None)
    for name, label in CONTEXTUAL_TEACHERS.items():
        assert name.endswith(f";{sum(parse(part).size for part in label.split('+'))}d")


@pytest.mark.parametrize("label", ["DX;8;stem;2", "DM;8;stem;5%", "DBOW;0;None;2", "DM;8;stem"])
def test_errors_name_the_bad_label(label):
    with pytest.raises(ValueError, match=f"'{label}' is not of the form DM or DBOW; vector size;"):
        ParagraphVector(label)


@pytest.mark.parametrize(("documents", "least"), [(250, 3), (249, 2), (20, 2)])
def test_ten_percent_is_one_percent_of_the_documents_in_occurrences(documents, least):
    texts = ["often often often", "twice twice", "once", *["filler"] * (documents - 3)]
    model = ParagraphVector("DM;4;None;10%").train(texts, epochs=1).model
    assert ("twice" in model.wv) is (least == 2) and "often" in model.wv and "once" not in model.wv


def test_preprocessing():
    text = "The Stones\tare flowing,\n FLOWING rivers"
    assert prepare_words(text, "None") == text.split()
    assert prepare_words(text, "lowercase") == text.lower().split()
    assert prepare_words(text, "stem") == ["the", "stone", "are", "flowing,", "flow", "river"]


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
    preprocessing = label.split(";")[2]
    words = [prepare_words(text, preprocessing) for text in make_texts()]
    documents = [TaggedDocument(each, [index]) for index, each in enumerate(words)]
    fixed = {"dm": label.startswith("DM"), "dm_mean": 1, "vector_size": 8, "min_count": 2}
    reference = Doc2Vec(documents, workers=1, **fixed, **settings)

    def stable(size, seed_string):
        return pseudorandom_weak_vector(size, seed_string, lambda text: zlib.crc32(text.encode()))

    monkeypatch.setattr(doc2vec, "pseudorandom_weak_vector", stable)
    model = ParagraphVector(label).train(make_texts(), **SETTINGS | changes)
    found = model.encode(make_texts(3, 25, 1))
    for text, vector in zip(make_texts(3, 25, 1), found, strict=True):
        reference.random.seed(settings["seed"])
        expected = reference.infer_vector(prepare_words(text, preprocessing))
        np.testing.assert_allclose(vector, expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("label", LABELS)
def test_inference_owns_the_memory_that_gensim_writes_to(label, models, monkeypatch):
    given = []
    name, buffers = "train_document_dbow", ["work"]
    if label.startswith("DM"):
        name, buffers = "train_document_dm", ["work", "neu1"]
    monkeypatch.setattr(paragraph_vector, name, lambda *_, **options: given.append(options))
    models[label].encode(["river bank"])
    assert given and all(each[part].shape == (8,) for each in given for part in buffers)


def test_a_vector_depends_on_its_text_alone(models):
    """Not on the order, nor on earlier calls."""
    texts = make_texts(6, 25, seed=1)
    for model in models.values():
        whole = model.encode(texts)
        np.testing.assert_array_equal(model.encode(texts[::-1]), whole[::-1])
        np.testing.assert_array_equal(model.encode([texts[4], texts[4]]), whole[[4, 4]])
        assert len(np.unique(whole, axis=0)) == 6 and whole.dtype == np.float32
        assert not model.model.dv.vectors.size, "training documents are not kept"


SCRIPT = """
import hashlib, sys
from tests.teachers.test_paragraph_vector import LABELS, SETTINGS, ParagraphVector, make_texts
texts = make_texts(6, 25, seed=1)
for label in LABELS:
    model = ParagraphVector(label).train(make_texts(), **SETTINGS)
    for index in map(int, sys.argv[1]):
        last = model.encode([texts[index]])
    print(hashlib.sha256(model.encode(texts).tobytes()).hexdigest())
"""


def test_same_bits_in_a_process_with_another_hash_seed(models):
    """Train and encode here and there, in different orders of calls."""
    variables = os.environ | {"PYTHONHASHSEED": "2", "OMP_NUM_THREADS": "1"}
    options = {"env": variables | {"PYTHONPATH": str(paths.ROOT)}, "text": True}
    output = subprocess.check_output([sys.executable, "-c", SCRIPT, "5033"], **options)
    expected = [model.encode(make_texts(6, 25, seed=1)) for model in models.values()]
    assert output == "".join(f"{hashlib.sha256(each).hexdigest()}\n" for each in expected)


def test_training_follows_its_seed(models):
    texts = make_texts(2, seed=3)
    other = ParagraphVector("DM;8;stem;2").train(make_texts(), **SETTINGS | {"seed": 1})
    assert not np.array_equal(other.encode(texts), models["DM;8;stem;2"].encode(texts))
    other.train(make_texts(), **SETTINGS)  # a model that has encoded can be trained anew
    np.testing.assert_array_equal(other.encode(texts), models["DM;8;stem;2"].encode(texts))


def test_a_text_without_a_known_word_is_zero(models):
    """Else two unknown texts would have directions of their own, drawn from their letters."""
    texts = ["quite unheard of", "日本", "RIVER"]
    stem, case = (model.encode(texts) for model in models.values())
    assert not stem[:2].any() and not case.any(), "DBOW keeps case"
    assert stem[2].any()
