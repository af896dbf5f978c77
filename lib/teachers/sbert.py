"""The structural teacher: SBERT, a SentenceTransformer with the mean of its token states (3.2.1).

Embeddings are not normalised: the author's code leaves out Normalize, the last module of the
published sentence-transformers models.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

from lib.messages import one_line_errors, quiet_transformers
from lib.texts import list_texts, tokenize_texts

WEIGHTS = "model.safetensors"


class SBERT:
    """A frozen sentence encoder, from `SBERT.load`; 384 `max_tokens` in all-mpnet-base-v2."""

    def __init__(self, encoder: SentenceTransformer):
        self.encoder, (transformer, pooling) = encoder, encoder
        self.model = transformer.auto_model
        # A copy: truncation is state of a tokenizer, which `encode` in another thread would change.
        self.tokenizer = copy.deepcopy(transformer.tokenizer)
        self.max_tokens: int = transformer.max_seq_length
        self.dim: int = pooling.embedding_dimension

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        max_tokens: int,
        sha256: str | None = None,
        revision: str | None = None,
        device: str = "cpu",
    ) -> SBERT:
        """Load a teacher in float32, without running any code from its repository.

        `source` is a folder, or a model on the hub, which needs `revision`, a full commit. `sha256`
        is that of the weights. `ValueError` in one line for a source that is missing, damaged or
        incomplete.
        """
        # Each of the three would ask at the terminal whether to run code from the folder.
        distrust: dict[str, Any] = {"trust_remote_code": False}
        options = {"config_kwargs": distrust, "processor_kwargs": distrust}
        weights = distrust | {"use_safetensors": True, "dtype": torch.float32}
        options |= {"model_kwargs": weights, "max_seq_length": max_tokens}
        with one_line_errors(f"use the teacher '{source}'"), quiet_transformers():
            folder = Path(source) if Path(source).is_dir() else _download(str(source), revision)
            with open(folder / WEIGHTS, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 and digest != sha256.lower():
                raise ValueError(f"{WEIGHTS} has sha256 {digest}, not {sha256}; install it again")
            transformer = Transformer(str(folder), **options)
            # transformers fills missing weights with random numbers. The pooler is not used.
            stored = safe_open(folder / WEIGHTS, "pt").keys()
            wanted = transformer.auto_model.state_dict().keys()
            missing = [name for name in wanted if not any(key.endswith(name) for key in stored)]
            if missing := [name for name in missing if not name.startswith("pooler.")]:
                raise ValueError(f"it lacks {len(missing)} weights; the first is {min(missing)}")
            pooling = Pooling(transformer.get_embedding_dimension(), "mean")
            encoder = SentenceTransformer(modules=[transformer, pooling], device=device)
        return cls(encoder.eval().requires_grad_(False))

    def tokenize(self, texts: Iterable[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """The token ids, int32, of each text, cut to `max_tokens`, and `lengths`."""
        texts, cut = list_texts(texts), {"truncation": True, "max_length": self.max_tokens}
        ids = [np.array(row, np.int32) for row in tokenize_texts(self.tokenizer, texts, **cut)]
        return ids, self.lengths(texts)

    def lengths(self, texts: Iterable[str]) -> np.ndarray:
        """Count the tokens of each text without special ones and before the cut; int64 (texts,)."""
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        rows = tokenize_texts(self.tokenizer, list_texts(texts), **options)
        return np.array([len(row) for row in rows], dtype=np.int64)

    def encode(self, texts: Iterable[str], batch_size: int = 32) -> np.ndarray:
        """Embed texts, (texts, dim) float32: the mean of the last hidden states of all tokens.

        The texts of a batch have the same length, because padding changes an embedding by up to
        2e-6, and a text must have the same vector in any company. `ValueError` for something that
        is not a text, and for embeddings that are not finite.
        """
        texts = list_texts(texts)
        special = self.tokenizer.num_special_tokens_to_add()
        read = np.minimum(self.lengths(texts) + special, self.max_tokens)
        result = np.empty((len(texts), self.dim), dtype=np.float32)
        for length in np.unique(read):
            rows = np.flatnonzero(read == length)
            batch, options = [texts[row] for row in rows], {"show_progress_bar": False}
            result[rows] = self.encoder.encode(batch, batch_size=batch_size, **options)
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(f"damaged weights: NaN or infinity in embedding {finite.argmin()}")
        return result


def _download(source: str, revision: str | None) -> Path:
    """The local copy of a model on the hub, at a pinned commit."""
    if not re.fullmatch("[0-9a-f]{40}", revision or ""):
        expected = "an existing folder, or a hub id with a revision of 40 hex digits"
        raise ValueError(f"expected {expected}, got revision {revision}")
    from huggingface_hub import snapshot_download

    patterns = [WEIGHTS, "*.json", "*.txt", "*.model"]
    return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
