"""What is saved embeds new texts as it did, with and without this project."""

import dataclasses
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import lib.encoders
from lib.config import paths
from lib.teachers.rows import centre_rows, mean_row
from lib.teachers.words import WordCounts
from lib.vectors import encoder as encoders
from lib.vectors.encoder import Encoder, save_encoder
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA
from tests.student.tiny import make_student

TEXTS = ["w1 w2 w3", "w9 w1 " * 15, "w5 w6", "w7 w1 w8 w2"]
CARD = {
    "title": "Vectors",
    "documents": 4,
    "longest": 40,
    "verdict": "EQUAL",
    "scores": [{"measure": "a|b", "examples": 4, "model": BASE, "value": "", "against": ""}],
    "provenance": {"commit": "0"},
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """{model: folder} of encoders of a tiny student."""
    root = tmp_path_factory.mktemp("encoders")
    student = make_student(root)
    counts = WordCounts.read(TEXTS)
    lexical = counts.fit(dim=3)
    mean = mean_row(student.encode(TEXTS))
    folders = {}
    for model in (BASE, LSA, BOTH, CHUNKS):
        place = root / model / "encoder"
        made = Encoder(model, place, mean, lexical, counts.words, 0.5)
        save_encoder(made, student.export, CARD)
        folders[model] = place
    folders["student"] = student
    return folders


def test_it_embeds_as_its_parts_do(saved):
    dense = saved["student"].encode(TEXTS)
    base, both, lsa = (lib.encoders.load(saved[m]).encode(TEXTS) for m in (BASE, BOTH, LSA))
    np.testing.assert_allclose(base, dense, atol=1e-6)
    assert both.dtype == np.float32 and both.shape == (4, dense.shape[1] + 3)
    centred = centre_rows(dense, mean_row(dense))
    np.testing.assert_allclose(both @ both.T, (centred @ centred.T + lsa @ lsa.T) / 2, atol=1e-5)
    assert np.linalg.norm(both, axis=1) == pytest.approx(np.ones(4), abs=1e-5)


def test_the_card_shows_how_without_this_project(saved):
    texts = [*TEXTS, "w3 w8 w2 " * 60]  # the last has two stretches
    for model in (BASE, LSA, BOTH, CHUNKS):
        card = (saved[model] / "README.md").read_text()
        snippet = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
        assert "lib" not in snippet
        folder = str(saved[model])
        values = {"texts": texts}
        exec(snippet.replace('"encoder', f'"{folder}'), values)
        expected = lib.encoders.load(saved[model]).encode(texts)
        np.testing.assert_allclose(values["vectors"], expected, atol=1e-4)


def test_stretches_have_the_states_of_one_pass(saved, monkeypatch):
    monkeypatch.setattr(encoders.chunks, "SIZE", 4)
    base = lib.encoders.load(saved[BASE])
    (long,) = base.encode_chunks([TEXTS[1]])
    assert [TEXTS[1][a:b] for a, b in long.spans[:2]] == ["w9 w1 w9 w1"] * 2
    assert long.spans[-1][1] == len(TEXTS[1].rstrip()) and len(long.spans) == 8
    student = saved["student"]
    (ids,) = student.tokenize([TEXTS[1]])
    packed = encoders_pack(student, ids)
    states = student.token_states(packed).detach().numpy()[1:-1]
    np.testing.assert_allclose(long.vectors[0], states[:4].mean(axis=0), atol=1e-5)
    both = lib.encoders.load(saved[BOTH]).encode_chunks(TEXTS[:1])[0]
    assert both.vectors.shape == (1, student.dim + 3)
    (words,) = lib.encoders.load(saved[LSA]).encode_chunks(["w1 " * 200])
    assert words.spans.tolist() == [[0, 269], [270, 539], [540, 599]]


def encoders_pack(student, ids):
    return student.pack([ids])


def test_features_are_words_and_weighted_dense_vectors(saved):
    encoder = lib.encoders.load(saved[BOTH])
    features = encoder.features(TEXTS)
    words = len(encoder.words)
    assert features.shape == (4, words + saved["student"].dim)
    dense = np.linalg.norm(features[:, words:].toarray(), axis=1)
    assert dense == pytest.approx(np.full(4, 0.5), abs=1e-5)
    with pytest.raises(ValueError, match="without labels"):
        dataclasses.replace(encoder, weight=None).features(TEXTS)


@pytest.mark.parametrize("texts", [["w1", None], [" "], "w1", [2023]])
def test_what_is_no_text_is_one_line(saved, texts):
    with pytest.raises(ValueError, match="text") as error:
        lib.encoders.load(saved[BOTH]).encode(texts)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("model", [BASE, CUT, CHUNKS, LSA, BOTH])
def test_no_texts_have_no_vectors(saved, model):
    encoder = dataclasses.replace(lib.encoders.load(saved[BOTH]), model=model)
    lexical = len(encoder.lexical.mean) if model in (LSA, BOTH) else 0
    width = (0 if model == LSA else saved["student"].dim) + lexical
    if model == LSA:  # as it is made without a dense part
        encoder = dataclasses.replace(encoder, mean=encoder.mean[:0])
    assert encoder.encode([]).shape == (0, width) and encoder.encode([]).dtype == np.float32
    assert encoder.encode_chunks([]) == []
    assert encoder.features([]).shape == (0, len(encoder.words) + len(encoder.mean))


def test_another_precision_and_texts_without_known_words_are_told_of(saved):
    with pytest.raises(ValueError, match="precision must be"):
        lib.encoders.load(saved[BOTH]).encode(["w1"], precision="fp16")
    with pytest.warns(UserWarning, match=r"1 texts without a known word .* at \[1\]"):
        vectors = lib.encoders.load(saved[LSA]).encode(["w1 w2", "zebra"])
    assert vectors[0].any() and not vectors[1].any()


def test_a_folder_of_another_version_or_of_nothing_is_one_line(saved, tmp_path):
    copy = tmp_path / "encoder"
    shutil.copytree(saved[BOTH], copy)
    facts = json.loads((copy / "encoder.json").read_text())
    (copy / "encoder.json").write_text(json.dumps(facts | {"json": {"words.json": "an old seal"}}))
    expected = lib.encoders.load(saved[BOTH]).encode(TEXTS)
    np.testing.assert_array_equal(lib.encoders.load(copy).encode(TEXTS), expected)
    (copy / "encoder.json").write_text(json.dumps(facts | {"version": 7}))
    with pytest.raises(ValueError, match="version 7, this project reads 1; make it again"):
        lib.encoders.load(copy)
    with pytest.raises(ValueError, match="no encoder here"):
        lib.encoders.load(tmp_path)


# What else this project needs, none of which reading an encoder may import.
OTHERS = "pandas pyarrow pydantic gensim nltk matplotlib seaborn papermill accelerate".split()
SCRIPT = """
import sys
sys.modules |= dict.fromkeys({others})
import lib.encoders
print(lib.encoders.load({folder!r}).encode(["w1 w2"]).shape)
"""


@pytest.mark.smoke
def test_it_is_read_with_its_stated_dependencies_alone(saved):
    script = SCRIPT.format(others=OTHERS, folder=str(saved[BOTH]))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=paths.ROOT
    )
    assert done.stdout.startswith("(1, "), done.stderr[-2000:]
