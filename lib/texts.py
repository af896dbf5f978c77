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
_UNUSUAL = regex.compile(f"[{_ALONE}{_GAPS}]")
_WORDS = regex.compile(rf"[{_ALONE}]\p{{M}}*|[^\s\x1c-\x1f{_GAPS}{_ALONE}]+")
# What TF-IDF counts: words of at least two characters, or one in scripts without spaces.
TERMS = regex.compile(rf"[{_ALONE}]\p{{M}}*|(?:(?![{_ALONE}])[\w\p{{N}}]){{2,}}")


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


def tokenize_texts(tokenizer: Any, texts: Sequence[str], **options: Any) -> Iterator[list[int]]:
    """Yield token ids of texts, a hundred at a time: the tokenizer keeps 200 bytes per token."""
    for start in range(0, len(texts), 100):
        yield from tokenizer(texts[start : start + 100], **options)["input_ids"]


def show_value(value: Any) -> str:
    """Show a value on one line of a message, so that None differs from the text 'None'."""
    return repr(value).replace("\n", " ")[:60]


def has_token(text: str) -> bool:
    """Whether a tokenizer finds a token: it drops spaces, control characters and lone accents."""
    kinds = (unicodedata.category(each)[0] for each in text if each != "\ufffd")
    return any(kind in "LNPS" for kind in kinds)


def split_words(text: str) -> list[str]:
    """Split a text into words at white space; in scripts without spaces, into characters."""
    return _WORDS.findall(text) if _UNUSUAL.search(text) else text.split()


def count_words(text: str) -> int:
    """Count the words of a text. Every `LONGEST` characters of a long word count as a word."""
    return sum(1 for _ in _find_starts(text))


def halve_text(text: str) -> tuple[str, str]:
    """Halves with equally many words and normalised spaces; both of a single word are the word."""
    text = " ".join(text.split())
    starts = [*_find_starts(text)]
    middle = starts[len(starts) // 2] if len(starts) > 1 else 0
    return text[:middle].rstrip() or text, text[middle:]


def cut_halves(text: str, most: int) -> tuple[str, str] | None:
    """Return the halves of the first `most` words; None for one word or a half without a token."""
    starts = [*itertools.islice(_find_starts(text), most + 1)]
    parts = halve_text(text[: starts[most]] if len(starts) > most else text)
    return parts if min(most, len(starts)) > 1 and all(map(has_token, parts)) else None


def shorten_text(text: str, most: int) -> str:
    """The beginning of a text on one line of at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 2]} …"


def _find_starts(text: str) -> Iterator[int]:
    end = 0
    for word in split_words(text):
        start = text.index(word, end)
        end = start + len(word)
        yield from range(start, end, LONGEST)
