"""The structural teacher: SBERT, the mean of a SentenceTransformer's token states (Section 3.2.1).

Not normalised: the author's code leaves out Normalize, the last module of the published models.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import numpy as np
import pooch
import torch
from huggingface_hub import snapshot_download
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize

from lib.messages import one_line_errors, quiet_transformers
from lib.texts import check_texts, normalize_text, tokenize_texts

WEIGHTS = "model.safetensors"
FILES = [WEIGHTS, "*.json", "*.txt", "*.model"]  # those to download


class SBERT:
    """A frozen sentence encoder, from `SBERT.load`; 384 `max_tokens` in all-mpnet-base-v2."""

    def __init__(self, encoder: SentenceTransformer):
        self.encoder, (transformer, pooling) = encoder, encoder
        self.model, self.tokenizer = transformer.auto_model, transformer.tokenizer
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
    ) -> Self:
        """Load a teacher in float32, without running any code from its repository.

        `source` is a folder, or a model on the hub at `revision`, a full commit. `sha256` is that
        of the weights. `ValueError` in one line if it is missing, damaged or incomplete.
        """
        options = {"use_safetensors": True, "dtype": torch.float32}
        with one_line_errors(f"use the teacher '{source}'"), quiet_transformers():
            folder = Path(source)
            if not folder.is_dir():
                if not re.fullmatch("[0-9a-f]{40}", revision or ""):
                    raise ValueError(f"a hub id needs a revision of 40 hex digits, got {revision}")
                pinned = {"revision": revision, "allow_patterns": FILES}
                folder = Path(snapshot_download(str(source), **pinned))
            if sha256 and (digest := pooch.file_hash(str(folder / WEIGHTS))) != sha256:
                raise ValueError(f"{WEIGHTS} has sha256 {digest}, not {sha256}; install it again")
            whole = SentenceTransformer(str(folder), device=device, model_kwargs=options)
            transformer, pooling, *rest = whole  # Normalize is left out
            if [*map(type, rest)] not in ([], [Normalize]) or pooling.pooling_mode != "mean":
                raise ValueError("expected the mean of token states, perhaps normalised")
            transformer.max_seq_length = max_tokens
            # transformers fills missing weights with random numbers. The pooler is not used.
            stored = tuple(safe_open(folder / WEIGHTS, "pt").keys())
            for name in transformer.auto_model.state_dict():
                if not any(key.endswith(name) for key in stored) and "pooler." not in name:
                    raise ValueError(f"it lacks the weight {name}")
            encoder = SentenceTransformer(modules=[transformer, pooling], device=device)
        return cls(encoder.eval().requires_grad_(False))

    def tokenize(self, texts: Iterable[str]) -> list[np.ndarray]:
        """The token ids, int32, of each text, cut to `max_tokens`."""
        options = {"truncation": True, "max_length": self.max_tokens}
        rows = tokenize_texts(self.tokenizer, [*check_texts(texts)], **options)
        return [np.array(row, np.int32) for row in rows]

    def lengths(self, texts: Iterable[str]) -> np.ndarray:
        """Count the tokens of each text without special ones and before the cut; int64 (texts,)."""
        options = {"add_special_tokens": False, "truncation": False, "verbose": False}
        rows = tokenize_texts(self.tokenizer, [*check_texts(texts)], **options)
        return np.array([len(row) for row in rows], dtype=np.int64)

    def encode(self, texts: Iterable[str], batch_size: int = 32) -> np.ndarray:
        """Embed texts, (texts, dim) float32: the mean of the last hidden states of all tokens.

        The texts of a batch have the same length: padding would change embeddings by up to 2e-6.
        `ValueError` for items that are not texts, and for embeddings that are not finite.
        """
        texts = np.array([*map(normalize_text, check_texts(texts))], dtype=object)
        read = np.array([len(row) for row in self.tokenize(texts)])
        result = np.empty((len(texts), self.dim), dtype=np.float32)
        options = {"batch_size": batch_size, "show_progress_bar": False}
        for length in np.unique(read):
            result[read == length] = self.encoder.encode([*texts[read == length]], **options)
        if not np.isfinite(result).all():
            raise ValueError("damaged weights: an embedding holds NaN or infinity")
        return result
