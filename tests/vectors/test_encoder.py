"""What `lib.embed` saves embeds new texts as it did, with and without this project."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import lib.encoders
from lib import embed
from lib.config import paths, profiles
from lib.data.files import write_lines
from lib.vectors import BOTH, CHUNKS, LSA, SIMPLEST_FIRST
from tests.student.tiny import make_student
from tests.vectors.conftest import make_text

TEXTS = [make_text(n, sentences=6 + 9 * (n % 3)) for n in range(8)]  # some have several stretches

LIMITS = ("structural_teacher.max_tokens", "training.max_structural_len")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Model -> the folder that the command writes for it, by a teacher that reads few tokens."""
    root = tmp_path_factory.mktemp("encoders")
    rows = [{"id": str(n), "text": text} for n, text in enumerate(TEXTS)]
    write_lines(root / "mine/documents.jsonl", rows)
    make_student(root).save(root / "student")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(root / "artifacts"))
        few = profiles.load("lab", overrides=dict.fromkeys(LIMITS, 64))
        patch.setattr("lib.vectors.own.profiles.load", lambda _: few)
        for model in SIMPLEST_FIRST:
            words = [root / "mine", "--out", root / f"{model} out", "--model", model]
            embed.main([*map(str, words), "--student", str(root / "student")])
    return {model: root / f"{model} out" for model in SIMPLEST_FIRST}


@pytest.mark.smoke
@pytest.mark.parametrize("model", SIMPLEST_FIRST)
def test_it_embeds_as_the_command_did_and_as_its_card_says(folders, model):
    stored = np.stack(pd.read_parquet(folders[model] / "vectors.parquet")["vector"])
    loaded = lib.encoders.load(folders[model] / "encoder").encode(TEXTS)
    norms = np.linalg.norm(loaded, axis=1) * np.linalg.norm(stored, axis=1)
    assert ((loaded * stored).sum(axis=1) / norms).min() > 0.995, "but for bfloat16 the same"
    card = (folders[model] / "encoder/README.md").read_text()
    assert "| halves of documents MRR | 8 |" in card
    snippet = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    assert "lib" not in snippet
    values = {"texts": TEXTS[:3]}  # of each length; the stock Longformer takes its time
    exec(snippet.replace('"encoder', f'"{folders[model]}/encoder'), values)
    np.testing.assert_allclose(values["vectors"], loaded[:3], atol=1e-4)


@pytest.mark.smoke
def test_both_is_the_mean_of_two_cosines_and_unknown_words_are_zero(folders):
    both, lsa = (lib.encoders.load(folders[name] / "encoder") for name in (BOTH, LSA))
    lexical, vectors = lsa.encode(TEXTS), both.encode(TEXTS)
    assert vectors.dtype == np.float32 and vectors.shape == (8, 384 + lexical.shape[1])
    cosines = vectors[:, 384:] @ vectors[:, 384:].T
    np.testing.assert_allclose(cosines, lexical @ lexical.T / 2, atol=1e-5)
    for encoder in (lsa, both):
        with pytest.warns(UserWarning, match=r"1 texts .* zeros at \[1\]"):
            assert encoder.encode([TEXTS[0], "zebra"])[1].any() == (encoder is both)
        for texts in (TEXTS, []):
            with pytest.raises(ValueError, match="got 'banana'"):
                encoder.encode(texts, precision="banana")


@pytest.mark.smoke
@pytest.mark.parametrize("model", [BOTH, CHUNKS])
def test_a_stretch_is_embedded_as_a_text_and_no_texts_have_no_vectors(folders, model):
    encoder, text = lib.encoders.load(folders[model] / "encoder"), "w1 w5 " * 100
    chunks, short = encoder.encode_chunks(iter([text, "w1 w2"]))
    assert chunks.spans.tolist() == [[0, 269], [270, 539], [540, 599]]
    expected = encoder.encode([text[:269], text[270:539], text[540:599]])
    np.testing.assert_array_equal(chunks.vectors, expected)
    assert short.vectors.shape == (1, expected.shape[1])
    (last,) = encoder.encode_chunks([f"- {text}plan A."])
    assert last.spans[[0, -1], [0, 1]].tolist() == [0, 609], "single letters and signs, too"
    (many,) = encoder.encode_chunks(["9 7 5 " * 60])
    assert len(many.spans) == 2, "a number of one digit is a word"
    (printed,) = encoder.encode_chunks([text.replace("w5", "w\u00ad5")])
    np.testing.assert_array_equal(printed.vectors, expected)
    assert printed.spans.tolist() == [[0, 314], [315, 629], [630, 699]]
    assert encoder.encode([]).shape == (0, expected.shape[1]) and encoder.encode_chunks([]) == []


# What else this project needs, none of which reading an encoder may import.
OTHERS = "pandas pyarrow pydantic gensim nltk matplotlib seaborn papermill accelerate".split()
SCRIPT = "import sys; sys.modules |= dict.fromkeys({others}); import lib.encoders; "
SCRIPT += "print(lib.encoders.load({folder!r}).encode(['w1 w2']).shape)"


@pytest.mark.smoke
def test_it_is_read_with_its_stated_dependencies_alone(folders):
    script = SCRIPT.format(others=OTHERS, folder=str(folders[BOTH] / "encoder"))
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=paths.ROOT)
    assert done.stdout.startswith("(1, "), done.stderr[-2000:]
