"""The student's input: texts become token ids, and token ids become one packed batch."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lib.texts import check_texts, show_value, tokenize_texts

# Token ids of several documents: lists or integer arrays.
TokenIds = Sequence[Sequence[int] | np.ndarray | Tensor]
_ENCODING = threading.RLock()


class Packed(NamedTuple):
    """Documents one after another: ids and positions (tokens,), and the length of each document."""

    ids: Tensor
    positions: Tensor
    lengths: list[int]


def embed_batches(
    model: nn.Module,
    embed: Callable[[list[int]], Tensor],
    batches: Iterable[list[int]],
    shape: tuple,
    precision: str,
) -> np.ndarray:
    """Embed batches of rows without gradient or dropout, (documents, dim) float32.

    `embed` maps the rows of a batch to (rows, dim); each row is in exactly one batch. The model is
    in evaluation mode meanwhile. `precision` is "fp32" or "bf16" (autocast). `ValueError` for
    another one, and for embeddings that are not finite.
    """
    if precision not in ("fp32", "bf16"):
        raise ValueError(f'precision must be "fp32" or "bf16", got {precision!r}')
    result = np.empty(shape, dtype=np.float32)
    device = next(model.parameters()).device.type
    with (
        evaluation_mode(model),
        torch.inference_mode(),
        torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"),
    ):
        for rows in batches:
            result[rows] = embed(rows).float().cpu().numpy()
    finite = np.isfinite(result).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"the embedding of document {finite.argmin()} holds NaN or infinity; "
            "either the student's weights do too, or bf16 is too narrow for them"
        )
    return result


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Keep a model in evaluation mode. Threads take turns, so that none ends it for another."""
    with _ENCODING:
        training = model.training
        model.eval()
        try:
            yield
        finally:
            model.train(training)


def tokenize(tokenizer: Any, texts: Sequence[str], max_positions: int) -> list[list[int]]:
    """Token ids of texts, special ones included, cut to `max_positions`.

    `ValueError` if the tokenizer is None, for something that is not a text, and for a text without
    tokens other than special ones.
    """
    texts = [*check_texts(texts)]
    if tokenizer is None:
        raise ValueError("it has no tokenizer; pass token ids, or set student.tokenizer")
    options = {"truncation": True, "max_length": max_positions, "return_attention_mask": False}
    ids = [*tokenize_texts(tokenizer, texts, **options)]
    least = tokenizer.num_special_tokens_to_add() + 1
    for index, row in enumerate(ids):
        if len(row) < least:
            raise ValueError(f"document {index} has only special tokens: {texts[index][:60]!r}")
    return ids


def check_ids(documents: TokenIds, vocab_size: int, max_positions: int) -> Iterator[np.ndarray]:
    """Yield documents as integer arrays.

    `ValueError` for one that is no list of ids, is empty or too long, or has an id out of range.
    """
    for index, document in enumerate(documents):
        ids = np.asarray(document)
        if ids.ndim != 1 or ids.dtype.kind not in "iu" or not len(ids):
            raise ValueError(f"expected token ids, document {index} is {show_value(document)}")
        if len(ids) > max_positions or ids.min() < 0 or ids.max() >= vocab_size:
            raise ValueError(
                f"document {index} has {len(ids)} tokens with ids from {ids.min()} to {ids.max()}; "
                f"expected at most {max_positions}, all ids from 0 to {vocab_size - 1}"
            )
        yield ids


def pack(documents: TokenIds, vocab_size: int, padding: int, max_positions: int) -> Packed:
    """Pack token id lists; errors as in `check_ids`.

    Positions count from `padding` + 1 in every document, as in RoBERTa. A token with the id
    `padding` has position `padding` and is not counted, as in `transformers.LongformerModel`.
    """
    arrays, positions = [], []
    for ids in check_ids(documents, vocab_size, max_positions):
        counted = ids != padding
        arrays.append(ids.astype(np.int64))
        positions.append(np.cumsum(counted) * counted + padding)
    lengths = [len(ids) for ids in arrays]
    return Packed(
        torch.from_numpy(np.concatenate(arrays)),
        torch.from_numpy(np.concatenate(positions)),
        lengths,
    )
