"""Vectors of long texts from an encoder of short ones: the pieces of a text, and their mean."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lib.teachers.rows import scale_rows
from lib.texts import has_token

SIZE = 126  # tokens of a piece without the two special tokens: all-MiniLM was trained on 128
MOST = 500  # pieces of a text that are read
LONGEST = 1_000_000  # characters that are read by an encoder of the beginning of a text


def cut_text(text: str, most: int = LONGEST) -> str:
    """The characters of a text that are read: at most so many, from the first one with a token."""
    if has_token(text[:most]):
        return text[:most]
    start = next((place for place, each in enumerate(text) if has_token(each)), 0)
    return text[start : start + most]


def split_text(
    tokenizer: Any, text: str, size: int = SIZE, most: int | None = MOST
) -> list[tuple[int, int, int]]:
    """(start, end, tokens) of a text's pieces, in characters: at most `most`, of `size` tokens."""
    if most is not None:
        text = text[: 100 * size * most]  # more cannot be needed
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(text, truncation=False, **options)["offset_mapping"]
    parts = [offsets[place : place + size] for place in range(0, len(offsets), size)][:most]
    places = [(part[0][0], part[-1][1], len(part)) for part in parts]
    # Some tokenizers keep control characters as tokens.
    return [(a, b, count) for a, b, count in places if has_token(text[a:b])]


def mean_of_chunks(
    tokenizer: Any,
    encode: Callable[[list[str]], np.ndarray],
    texts: Sequence[str],
    size: int = SIZE,
    most: int | None = MOST,
) -> np.ndarray:
    """Embed texts as the mean of their pieces' vectors, each of norm 1 and weighted by its tokens.

    Else a last piece of few tokens would outweigh a whole one: vectors of short texts are longer.
    `encode` maps texts of at most `size` tokens, without special ones, to (texts, dim). Each text
    has a token. Returns (texts, dim) float32.
    """
    places = [split_text(tokenizer, text, size, most) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(each) for each in places])
    pieces = [
        text[start:end] for text, each in zip(texts, places, strict=True) for start, end, _ in each
    ]
    tokens = np.array([count for each in places for _, _, count in each], dtype=np.float32)
    vectors = scale_rows(encode(pieces)) * tokens[:, None]
    total = np.zeros((len(texts), vectors.shape[1]), dtype=np.float32)
    np.add.at(total, rows, vectors)
    return total / np.bincount(rows, weights=tokens, minlength=len(texts))[:, None].astype("f4")
