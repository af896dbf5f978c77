"""Vectors of long texts from an encoder of short ones: a text's stretches, and their mean."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lib.texts import has_token
from lib.vectors.lexical import scale_rows

SIZE = 126  # tokens of a stretch without the two special tokens: all-MiniLM was trained on 128
MOST = 500  # stretches of a text that are read
LONGEST = 1_000_000  # characters that are read by an encoder of the beginning of a text


def find_start(text: str, most: int = LONGEST) -> int:
    """The character at which reading begins: 0, unless the first `most` characters hold no token.

    Then it is the first character with a token.
    """
    if has_token(text[:most]):
        return 0
    return next((place for place, character in enumerate(text) if has_token(character)), 0)


def cut_text(text: str, most: int = LONGEST) -> str:
    """The characters of a text that are read, at most so many."""
    start = find_start(text, most)
    return text[start : start + most]


def split_text(tokenizer: Any, text: str, size: int = SIZE) -> list[tuple[int, int, int]]:
    """Start and end of a text's stretches, in characters, and their numbers of tokens.

    `tokenizer` is one of Hugging Face's fast ones. There are at most `MOST` stretches, and the last
    may have fewer than `size` tokens.
    """
    most = 100 * size * MOST  # characters; more cannot be needed
    start, read = find_start(text, most), cut_text(text, most)
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(read, truncation=False, **options)["offset_mapping"]
    parts = [offsets[place : place + size] for place in range(0, len(offsets), size)][:MOST]
    places = [(start + part[0][0], start + part[-1][1], len(part)) for part in parts]
    return [place for place in places if has_token(text[slice(*place[:2])])]


def average_chunks(
    tokenizer: Any, encode: Callable[[list[str]], np.ndarray], texts: Sequence[str]
) -> np.ndarray:
    """Embed texts as the mean of their stretches' vectors, of norm 1 and weighted by tokens.

    Parameters
    ----------
    tokenizer
        The encoder's.
    encode : callable
        Maps texts of at most `SIZE` tokens to (texts, dim).
    texts : sequence of str
        Each with at least one token.

    Returns
    -------
    (texts, dim) float32
    """
    places = [split_text(tokenizer, text) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(each) for each in places])
    pieces = [
        text[start:end] for text, each in zip(texts, places, strict=True) for start, end, _ in each
    ]
    tokens = np.array([count for each in places for _, _, count in each], dtype=np.float32)
    vectors = scale_rows(encode(pieces)) * tokens[:, None]
    total = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
    np.add.at(total, rows, vectors)
    return total / np.bincount(rows, weights=tokens, minlength=len(texts))[:, None].astype("f4")
