"""What counts as a text, and where a text of any script can be cut."""

import contextlib
import itertools
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import regex

T = TypeVar("T")
LONGEST = 20  # characters of a word where texts are measured: addresses and base64 have no spaces
# Written without spaces between words, so each character counts as a word. The classes are those of
# Unicode's line breaking (UAX 14): ideographs and emoji, small kana, and the scripts of South East
# Asia.
_CLASSES = ("ID", "CJ", "SA", "AK", "AP", "AS")
_ALONE = r"\p{Han}" + "".join(rf"\p{{Line_Break={name}}}" for name in _CLASSES)
_GAPS = r"\u200b\u2060\ufeff"  # spaces of no width, which `str.split` does not know
_UNUSUAL = regex.compile(f"[{_ALONE}{_GAPS}]")
_WORDS = regex.compile(rf"[{_ALONE}]\p{{M}}*|[^\s\x1c-\x1f{_GAPS}{_ALONE}]+")
_TERMS = regex.compile(rf"[{_ALONE}]\p{{M}}*|(?:(?![{_ALONE}])[\w\p{{N}}]){{2,}}")


def list_items(items: Iterable[T]) -> list[T]:
    """The items of any iterable by position, read once; `ValueError` for what has no order.

    A single text is refused, and so is a table, of which iteration gives the names of columns.
    """
    return list(_open(items))


def check_texts(texts: Iterable[Any]) -> Iterator[str]:
    """Yield texts; `ValueError`, with place and value, for what is no text or has no word."""
    for place, text in enumerate(_open(texts)):
        if not isinstance(text, str) or not _is_unicode(text) or not has_token(text):
            given = show_value(text)
            raise ValueError(f"expected texts with words, text {place} is {given}; leave it out")
        yield str(text)  # NumPy's are of a type of their own


def list_texts(texts: Iterable[Any]) -> list[str]:
    """Texts from any iterable: list, generator, array, Series with any index.

    Raises
    ------
    ValueError
        With place and value, for what is no text (None, NaN, 2023) or has no word.
    """
    return list(check_texts(list_items(texts)))


def tokenize_texts(tokenizer: Any, texts: Sequence[str], **options: Any) -> Iterator[list[int]]:
    """Yield token ids of texts; `options` are a Hugging Face tokenizer's.

    A hundred are read at once: the tokenizer keeps some 200 bytes for each token.
    """
    for start in range(0, len(texts), 100):
        yield from tokenizer(texts[start : start + 100], **options)["input_ids"]


def keep_order(items: Iterable[T]) -> Sequence[T]:
    """The items as they are if they can be read by position and again, else a list of them."""
    in_order = isinstance(items, Sequence) and not isinstance(items, str | bytes | bytearray)
    return items if in_order else list_items(items)


def show_value(value: Any) -> str:
    """A value as it is, on one line, for a message: None is no text 'None'."""
    return repr(value).replace("\n", " ")[:60]


def has_token(text: str) -> bool:
    """Whether a tokenizer sees anything; spaces, control characters and lone accents vanish."""
    return any(
        unicodedata.category(character)[0] in "LNPS" and character != "\ufffd" for character in text
    )


def split_words(text: str) -> list[str]:
    """The words of a text: what white space divides, and characters of scripts without spaces."""
    return _WORDS.findall(text) if _UNUSUAL.search(text) else text.split()


def list_terms(text: str) -> list[str]:
    """The words of a text without punctuation, as TF-IDF counts them: of two characters at least.

    Characters of scripts without spaces are words of their own.
    """
    return _TERMS.findall(text)


def count_words(text: str) -> int:
    """How many words a text has; a word is at most `LONGEST` characters long."""
    return sum(1 + (len(word) - 1) // LONGEST for word in split_words(text))


def cut_words(text: str, most: int) -> str:
    """The first words of a text, white space normalised."""
    text = " ".join(text.split())
    starts = itertools.islice(_find_starts(text), most, None)
    return text[: next(starts, len(text))].rstrip()


def halve_text(text: str) -> tuple[str, str]:
    """The two halves of a text, of as many words each; both are the text if it is one word."""
    text = " ".join(text.split())
    starts = [*_find_starts(text)]
    middle = starts[len(starts) // 2] if len(starts) > 1 else 0
    return text[:middle].rstrip() or text, text[middle:]


def cut_halves(text: str, most: int) -> tuple[str, str] | None:
    """The halves of its first `most` words; None for one word, and if a half has no token."""
    read = cut_words(text, most)
    parts = halve_text(read)
    return parts if count_words(read) > 1 and all(map(has_token, parts)) else None


def shorten_text(text: str, most: int) -> str:
    """The beginning of a text on one line of at most so many characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    start = line[: most - 2]
    words = start.rpartition(" ")[0]
    return f"{words if 2 * len(words) > most else start} …"


def _find_starts(text: str) -> Iterator[int]:
    """Where each word begins that `count_words` counts."""
    end = 0
    for word in split_words(text):
        start = text.index(word, end)
        end = start + len(word)
        yield from range(start, end, LONGEST)


def _is_unicode(text: str) -> bool:
    """Whether a text can be written as UTF-8: half a surrogate pair cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _open(items: Iterable[T]) -> Iterator[T]:
    whole = isinstance(items, str | bytes | bytearray | Mapping) or hasattr(items, "columns")
    unordered = isinstance(items, Set) and not hasattr(items, "mapping")  # a dict's keys have order
    if not whole and not unordered:
        with contextlib.suppress(TypeError):
            return iter(items)
    kind = type(items).__name__
    told = f"expected a list of texts or of token id lists, got {kind}: {show_value(items)}"
    raise ValueError(f"{told}; put a single text in a list, take one column of a table")
