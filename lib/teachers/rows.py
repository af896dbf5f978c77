"""Rows of vectors: means of the pieces of long texts, scaled, centred, side by side."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lib.texts import check_several, has_token, normalize_text

SIZE = 126  # tokens of a piece without the two special tokens: all-MiniLM was trained on 128
MOST = 500  # pieces of a text that are read
TOGETHER = 512  # pieces, or a few more, that are embedded at once
LONGEST = 1_000_000  # characters that are read by an encoder of the beginning of a text


def cut_text(text: str, most: int = LONGEST) -> str:
    """The first `most` characters of a text or, if they lack tokens, those from the first token."""
    if has_token(text[:most]):
        return text[:most]
    start = next((place for place, each in enumerate(text) if has_token(each)), 0)
    return text[start : start + most]


def split_text(tokenizer: Any, text: str, size: int = SIZE) -> list[tuple[int, int, int]]:
    """(start, end, tokens) of the first `MOST` pieces of `size` tokens of a text, in characters."""
    text = text[: 100 * size * MOST]  # more cannot be needed
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    offsets = tokenizer(text, truncation=False, **options)["offset_mapping"]
    parts = [offsets[place : place + size] for place in range(0, len(offsets), size)][:MOST]
    places = [(part[0][0], part[-1][1], len(part)) for part in parts]
    # Some tokenizers keep control characters as tokens.
    return [(start, end, tokens) for start, end, tokens in places if has_token(text[start:end])]


def mean_of_chunks(
    tokenizer: Any, encode: Callable[[list[str]], Any], texts: Sequence[str], size: int = SIZE
) -> np.ndarray:
    """(texts, dim) float32 means of the vectors of pieces, each of norm 1 and weighted by tokens.

    Unscaled, a last piece of few tokens would outweigh a whole one, because its vector is longer.
    `encode` maps texts of at most `size` tokens, without special ones, to (texts, dim).
    """
    means, waiting = [], list[list[tuple[str, int]]]()  # pieces and tokens of each text
    for number, text in enumerate(map(normalize_text, check_several(texts)), start=1):
        places = split_text(tokenizer, text, size)
        waiting.append([(text[start:end], tokens) for start, end, tokens in places])
        if sum(map(len, waiting)) < TOGETHER and number < len(texts):
            continue  # few pieces at a time would take longer
        vectors = scale_rows(encode([piece for pieces in waiting for piece, _ in pieces]))
        ends = np.cumsum([*map(len, waiting)])
        for pieces, own in zip(waiting, np.split(vectors, ends[:-1]), strict=True):
            means.append(np.average(own, axis=0, weights=[tokens for _, tokens in pieces]))
        waiting = []
    return np.array(means, dtype=np.float32)


def scale_rows(x: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1; a zero row stays zero."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def centre_rows(x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """(n, dim) rows scaled to norm 1, minus a mean of such rows, scaled to norm 1 again.

    Cosines distinguish texts better without what all share. A zero row (no known word) stays zero.
    """
    scaled = scale_rows(x)
    return scale_rows(np.where(scaled.any(axis=1, keepdims=True), scaled - mean, 0))


def join_rows(dense: np.ndarray, lexical: np.ndarray) -> np.ndarray:
    """(texts, sum of dims) float32; products are means of both parts' cosines, 0 of a zero row."""
    return np.hstack([scale_rows(dense), scale_rows(lexical)]).astype("f4") * np.float32(0.5**0.5)
