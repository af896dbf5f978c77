"""Checks texts, splits them into words, and cuts them, in any script."""

import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

import regex

_HALF = regex.compile("[\ud800-\udfff]")  # of a surrogate pair, which UTF-8 cannot write
LONGEST = 20  # characters that count as one word; longer ones, such as addresses, are several
# Characters that count as words: scripts without spaces and emoji, by classes of UAX 14.
_ALONE = r"\p{Han}" + "".join(rf"\p{{Line_Break={name}}}" for name in "ID CJ SA AK AP AS".split())
_GAPS = r"\u200b\u2060\ufeff"  # spaces without width, at which `str.split` does not split
_WORDS = regex.compile(rf"[{_ALONE}]\p{{M}}*|[^\s\x1c-\x1f{_GAPS}{_ALONE}]+")
# What TF-IDF counts: words of at least two characters, or one in scripts without spaces.
TERMS = regex.compile(rf"[{_ALONE}]\p{{M}}*|(?:(?![{_ALONE}])[\w\p{{N}}]){{2,}}")
# What a stretch for search counts: words of any length, and signs.
UNITS = regex.compile(rf"[{_ALONE}]\p{{M}}*|(?:(?![{_ALONE}])[\w\p{{N}}])+|[^\s\w]")
# A hyphen at the end of a line between lower-case letters, which may have marks; soft hyphens.
DROPPED = regex.compile(
    r"[-\u2010\xad](?<=\p{Ll}[\p{M}\xad]{0,4}.)[ \t\r\xad]*+\n[ \t\r\xad]*+(?=\p{Ll})|\xad+"
)
LIGATURES = {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
_SPELLED = str.maketrans(LIGATURES)
# The same or, in a group, what Unicode may compose: a letter with its marks, parts of a syllable.
_PARTS = regex.compile(rf"{DROPPED.pattern}|((?s:[\u1100-\u11ff]+|\w\p{{M}}*|.))")


def check_several(items: Any) -> Any:
    """Return any iterable as it is; `ValueError` for a single text, a set or a table."""
    if isinstance(items, str | bytes | Mapping | Set) or hasattr(items, "columns"):
        told = f"got {type(items).__name__}: {show_value(items)}"
        raise ValueError(f"expected a list of texts or of token id lists, {told}")
    return items


def check_texts(texts: Iterable[Any]) -> Iterator[str]:
    """Yield the texts of any iterable; `ValueError`, with place and value, for a wrong one."""
    for place, text in enumerate(check_several(texts)):
        if not isinstance(text, str) or _HALF.search(text) or not has_token(text):
            raise ValueError(f"expected texts with words, text {place} is {show_value(text)}")
        yield str(text)  # NumPy has its own type of text


def normalize_text(text: str) -> str:
    """Undo how PDF files and web pages write words, before words or tokens are counted.

    Soft hyphens are dropped, and so are hyphens at line ends between lower-case letters. Ligatures
    become letters, and letters with accents one character (NFC). More would harm: Unicode's NFKC
    makes km2 of km², and changes the tokens of 31% of the Wikipedia articles that we tried.
    """
    return unicodedata.normalize("NFC", DROPPED.sub("", text.translate(_SPELLED)))


def find_terms(text: str, terms: regex.Pattern = TERMS) -> list[tuple[int, int]]:
    """Where the terms of a text's normal form start and end in the text as it is."""
    letters, places = list[str](), list[tuple[int, int]]()
    for part in _PARTS.finditer(text):
        letters += normalize_text(part[1] or "")
        places += [part.span()] * (len(letters) - len(places))
    spans = (match.span() for match in terms.finditer("".join(letters)))
    return [(places[start][0], places[end - 1][1]) for start, end in spans]


def tokenize_texts(tokenizer: Any, texts: Sequence[str], **options: Any) -> Iterator[list[int]]:
    """Yield token ids of texts, a hundred at a time: the tokenizer keeps 200 bytes per token."""
    for start in range(0, len(texts), 100):
        part = [*map(normalize_text, texts[start : start + 100])]
        yield from tokenizer(part, **options)["input_ids"]


def show_value(value: Any) -> str:
    """Show a value on one line of a message, so that None differs from the text 'None'."""
    return repr(value).replace("\n", " ")[:60]


def has_token(text: str) -> bool:
    """Whether a tokenizer finds a token: it drops spaces, control characters and lone accents."""
    kinds = (unicodedata.category(each)[0] for each in text if each != "\ufffd")
    return any(kind in "LNPS" for kind in kinds)


def split_words(text: str) -> list[str]:
    """Split a text into words at white space; in scripts without spaces, into characters."""
    return _WORDS.findall(normalize_text(text))


def count_words(text: str) -> int:
    """Count the words of a text. Every `LONGEST` characters of a long word count as a word."""
    return sum(1 for _ in _find_starts(normalize_text(text)))


def halve_text(text: str) -> tuple[str, str]:
    """Halves of the normal form, on one line, with equally many words; of one word, it twice."""
    text = " ".join(normalize_text(text).split())
    starts = [*_find_starts(text)]
    middle = starts[len(starts) // 2] if len(starts) > 1 else 0
    return text[:middle].rstrip() or text, text[middle:]


def cut_halves(text: str, most: int) -> tuple[str, str] | None:
    """Return the halves of the first `most` words; None for one word or a half without a token."""
    text = normalize_text(text)
    starts = [*itertools.islice(_find_starts(text), most + 1)]
    parts = halve_text(text[: starts[most]] if len(starts) > most else text)
    return parts if min(most, len(starts)) > 1 and all(map(has_token, parts)) else None


def shorten_text(text: str, most: int) -> str:
    """The beginning of a text's normal form on one line of at most `most` characters."""
    line = " ".join(normalize_text(text).split())
    return line if len(line) <= most else f"{line[: most - 2]} …"


def _find_starts(text: str) -> Iterator[int]:
    for word in _WORDS.finditer(text):
        yield from range(*word.span(), LONGEST)
