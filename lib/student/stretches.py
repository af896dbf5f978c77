"""Stretches of a text: pieces that a teacher of short texts reads, and the student's states there.

The student reads a span, a few stretches in a row, in one pass. What it says of a stretch is the
mean of the states of its tokens, which know what stands around it (late chunking, Günther et al.,
arXiv 2409.04701).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from lib.student.encoder import Student
from lib.student.packing import TokenIds, pack
from lib.texts import has_token


class Split(NamedTuple):
    """A text in stretches.

    ids: (tokens,) token ids without special ones. ends: (stretches,) where each stretch ends in
    `ids`; the next one begins there. pieces: the stretches as text.
    """

    ids: np.ndarray
    ends: np.ndarray
    pieces: list[str]


def split_text(tokenizer: Any, text: str, size: int = 126, most: int = 4094) -> Split:
    """Cut a text into stretches of `size` tokens; only the last one may be shorter.

    Parameters
    ----------
    tokenizer
        A fast one of Hugging Face.
    text : str
    size : int
        Tokens of a stretch; with the two special ones 126 are the 128 that all-MiniLM was
        trained on.
    most : int
        Tokens of the text that are read.

    Raises
    ------
    ValueError
        If the text has no token.
    """
    options = {"add_special_tokens": False, "return_offsets_mapping": True, "verbose": False}
    read = tokenizer(text, truncation=False, **options)
    ids, offsets = np.array(read["input_ids"][:most]), read["offset_mapping"][:most]
    if not len(ids):
        raise ValueError(f"the text has no token: {text[:60]!r}")
    ends = np.minimum(np.arange(size, len(ids) + size, size), len(ids))
    pieces = [text[offsets[end - 1 - (end - 1) % size][0] : offsets[end - 1][1]] for end in ends]
    # Some tokenizers see control characters, of which nothing is left to embed.
    return Split(ids, ends, [piece if has_token(piece) else "." for piece in pieces])


def find_special_tokens(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The special tokens that open a text, and those that close it."""
    ids = tokenizer("a", return_special_tokens_mask=True)
    special = ids["special_tokens_mask"]
    first, last = special.index(0), len(special) - special[::-1].index(0)
    return ids["input_ids"][:first], ids["input_ids"][last:]


def embed_stretches(
    student: Student,
    spans: TokenIds,
    sizes: Sequence[Sequence[int] | np.ndarray],
    opening: int = 1,
) -> tuple[Float[Tensor, "stretches dim"], Float[Tensor, "spans dim"]]:
    """Embed spans and the stretches in them, differentiably and in one pass.

    Parameters
    ----------
    student : Student
    spans : sequence of token id lists
        Special tokens included.
    sizes : sequence of sequences or arrays of int
        The tokens of each stretch of each span, in order.
    opening : int
        Special tokens that open a span.

    Returns
    -------
    stretches : (stretches, dim) float32
        Of all spans, one after another: means of the states of their tokens.
    spans : (spans, dim) float32
        Means of the states of all their tokens, as `student(spans)` gives them.

    Examples
    --------
    >>> embed_stretches(student, [[2, 9, 8, 7, 3]], [[2, 1]])  # doctest: +SKIP
    """
    packed = pack(spans, student.config.vocab_size, student.padding, student.max_positions)
    states = student.token_states(packed).float().split(packed.lengths)
    stretches = []
    for number, (document, each) in enumerate(zip(states, sizes, strict=True)):
        tokens = [int(size) for size in each]
        if opening + sum(tokens) > len(document) or min(tokens, default=0) < 1:
            told = f"{tokens} tokens behind {opening} do not fit its {len(document)}"
            raise ValueError(f"span {number}: stretches of {told}")
        parts = document[opening : opening + sum(tokens)].split(tokens)
        stretches += [part.mean(dim=0) for part in parts]
    return torch.stack(stretches), torch.stack([document.mean(dim=0) for document in states])
