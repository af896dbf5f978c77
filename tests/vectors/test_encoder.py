"""What is saved embeds new texts as it did, with and without this project."""

import re
import subprocess
import sys

import numpy as np
import pytest

import lib.encoders
from lib.config import paths
from lib.teachers.rows import centre_rows, mean_row
from lib.teachers.words import WordCounts
from lib.vectors import BASE, BOTH, CHUNKS, LSA
from lib.vectors.encoder import Encoder
from tests.student.tiny import make_student

TEXTS = ["w1 w2 w3", "w9 w1 " * 15, "w5 w6", "w7 w1 w8 w2"]
SCORES = [{"measure": "a|b", "examples": 4, "model": BASE, "value": 0.5, "low": None}]
CARD = {"title": "Vectors", "documents": 4, "verdict": "EQUAL", "scores": SCORES}
CARD["provenance"] = {"commit": "0"}
MODELS = (BASE, LSA, BOTH, CHUNKS)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """{model: folder} of encoders of a tiny student."""
    root = tmp_path_factory.mktemp("encoders")
    student = make_student(root)
    counts = WordCounts.read(TEXTS)
    lexical, mean = (counts.fit(dim=3), tuple(counts.words)), mean_row(student.encode(TEXTS))
    folders = {"student": student}
    for model in MODELS:
        folders[model] = root / f"encoder of {model}"
        words = lexical if model in (LSA, BOTH) else ()
        encoder = Encoder(model, root, mean if model in (CHUNKS, BOTH) else None, *words)
        encoder.save(folders[model], CARD)
        student.export(folders[model] / "dense")
    return folders


def test_it_embeds_as_its_parts_do(saved):
    dense = saved["student"].encode(TEXTS)
    base, both, lsa = (lib.encoders.load(saved[m]).encode(TEXTS) for m in (BASE, BOTH, LSA))
    np.testing.assert_allclose(base, dense, atol=1e-6)
    assert both.dtype == np.float32 and both.shape == (4, dense.shape[1] + 3)
    centred = centre_rows(dense, mean_row(dense))
    np.testing.assert_allclose(both @ both.T, (centred @ centred.T + lsa @ lsa.T) / 2, atol=1e-5)
    assert np.linalg.norm(both, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert not lib.encoders.load(saved[LSA]).encode(["zebra"]).any()


@pytest.mark.parametrize("model", MODELS)
def test_the_card_shows_how_without_this_project(saved, model):
    texts = [*TEXTS, "w3 w8 w2 " * 60]  # the last has two stretches
    card = (saved[model] / "README.md").read_text()
    assert r"| a\|b | 4 | base | 0.500 |  |" in card
    snippet = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    assert "lib" not in snippet
    values = {"texts": texts}
    exec(snippet.replace('"encoder', f'"{saved[model]}'), values)
    expected = lib.encoders.load(saved[model]).encode(texts)
    np.testing.assert_allclose(values["vectors"], expected, atol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_a_stretch_is_embedded_as_a_text_and_no_texts_have_no_vectors(saved, model):
    encoder, text = lib.encoders.load(saved[model]), "w1 w5 " * 100
    chunks, short = encoder.encode_chunks(iter([text, "w1 w2"]))
    assert chunks.spans.tolist() == [[0, 269], [270, 539], [540, 599]]
    expected = encoder.encode([text[:269], text[270:539], text[540:599]])
    np.testing.assert_array_equal(chunks.vectors, expected)
    assert short.vectors.shape == (1, expected.shape[1])
    assert encoder.encode([]).shape == (0, expected.shape[1]) and encoder.encode_chunks([]) == []


@pytest.mark.parametrize("texts", [["w1", None], [" "], "w1", [2023]])
def test_what_is_no_text_is_refused(saved, texts):
    with pytest.raises(ValueError, match="text"):
        lib.encoders.load(saved[BOTH]).encode(texts)


@pytest.mark.parametrize("content", [None, '{"version": 7}'])
def test_another_folder_or_version_is_refused(tmp_path, content):
    if content:
        (tmp_path / "encoder.json").write_text(content)
    with pytest.raises(ValueError, match="expected an encoder of version"):
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
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT)
    assert done.stdout.startswith("(1, "), done.stderr[-2000:]
