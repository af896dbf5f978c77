"""What students have from their teacher besides its vectors: token ids and token embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.news.designs import TOKEN_DIM, scale_width
from lib.store import Arrays, Product, Rows
from lib.texts import tokenize_texts

if TYPE_CHECKING:
    from lib.experiments.structural import Teacher

SPREAD = 0.5  # standard deviation of new token embeddings that start from principal components
MODULES = ("news.tokens", "news.designs", "texts")


def limit_teacher(teacher: Teacher, most: int) -> Any:
    """The same teacher, reading so many tokens of a text."""
    return replace(teacher, section=teacher.section.model_copy(update={"max_tokens": most}))


def read_ids(teacher: Teacher, texts: Sequence[str]) -> Rows:
    """Token ids of what the teacher reads of texts, int32 arrays with special tokens."""
    product = Product("news_ids", {"teacher": teacher.product}, MODULES, (), "token ids")

    def tokenize(part: list[str]) -> Arrays:
        sbert = teacher.sbert
        cut = {"truncation": True, "max_length": sbert.max_tokens, "verbose": False}
        rows = tokenize_texts(sbert.tokenizer, part, **cut)
        return {"ids": [np.array(row, dtype=np.int32) for row in rows]}

    return teacher.store.rows(product, texts, tokenize)["ids"]


def read_embeddings(teacher: Teacher, width: float, *names: str) -> Arrays:
    """The teacher's token embeddings, and those that students of a relative width start from.

    Those named of: `tokens` (vocabulary, dim), the teacher's own, and their `shape`; `reduced`
    (vocabulary, at most 128), their principal components; `megabytes`, the size of the teacher;
    `output`, the width of its vectors.
    """
    dim = scale_width(TOKEN_DIM, width)
    inputs = {"teacher": teacher.product, "dim": dim}
    packages = ("scikit-learn", "numpy", "scipy")
    product = Product("news_embeddings", inputs, MODULES, packages, "token embeddings")

    def reduce() -> Arrays:
        from sklearn.decomposition import PCA

        model = teacher.sbert.model
        tokens = model.get_input_embeddings().weight.cpu().numpy()
        reduced = PCA(dim, svd_solver="covariance_eigh").fit_transform(tokens)
        return {
            "tokens": tokens,
            "shape": tokens.shape,
            "reduced": (SPREAD * reduced / reduced.std()).astype(np.float32),
            "megabytes": 4 * sum(values.numel() for values in model.parameters()) / 2**20,
            "output": teacher.sbert.dim,
        }

    return teacher.store.find(product, *names) or teacher.store.get(product, reduce)
