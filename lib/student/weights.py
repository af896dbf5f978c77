"""Reads checkpoints: config, weights and tokenizer of a Longformer.

Weights are float32 on the CPU, under the names of `transformers.LongformerModel`.
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    LongformerConfig,
    LongformerModel,
    PretrainedConfig,
)

from lib.config.loading import one_line_errors, quiet_transformers
from lib.store import owned_folder

# Encoders whose layers are the same as those of a Longformer. The value says whether their
# positions start after the padding id.
SHORT_ENCODERS = {
    "bert": False,
    "electra": False,
    "roberta": True,
    "xlm-roberta": True,
    "camembert": True,
    "data2vec-text": True,
}
WHY_NOT = {  # docs/scale.md
    "mpnet": "a bias by relative position",
    "deberta-v2": "attention by relative position",
    "modernbert": "rotary positions",
    "nomic_bert": "rotary positions",
    "eurobert": "rotary positions",
    "gte": "rotary positions",
}
# The files of a tokenizer's vocabulary. One complete set is enough.
VOCABULARIES = (
    ("tokenizer.json",),
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    ("sentencepiece.bpe.model",),
)
# Files of an export that nothing here reads: they are for people and for sentence-transformers.
UNREAD = ("README.md", "modules.json", "sentence_bert_config.json", "1_Pooling/config.json")
_TAKEN_OVER = (  # settings that a Longformer inherits from the config of a short encoder
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "bos_token_id",
    "eos_token_id",
)

Source = str | Path  # a folder or, as a str without a folder of that name, a hub id


class Checkpoint(NamedTuple):
    """A Longformer as it is read from disk or written to it."""

    config: LongformerConfig
    tensors: dict[str, Tensor]
    tokenizer: Any  # Hugging Face's, or None

    @property
    def max_positions(self) -> int:
        """The longest document in tokens, special ones included."""
        return self.config.max_position_embeddings - (self.config.pad_token_id or 0) - 1


def from_longformer(source: Source, revision: str | None) -> Checkpoint:
    """Read a Longformer without its heads, and with global attention and pooler if it has them.

    Raises
    ------
    ValueError
        In one line, if the source is missing, damaged or not a Longformer.
    """
    config = _read_config(source, revision)
    if not isinstance(config, LongformerConfig):
        raise ValueError(
            f"{source} is a {config.model_type}, expected a longformer; "
            "load it with Student.from_encoder"
        )
    tensors = _read_tensors(LongformerModel, source, revision)
    checkpoint = Checkpoint(config, tensors, _read_tokenizer(source, revision))
    _compare_length(Path(source), checkpoint)
    return checkpoint


def from_encoder(
    source: Source,
    layers: Sequence[int] | None,
    window: int | Sequence[int],
    max_positions: int,
    revision: str | None,
) -> Checkpoint:
    """Read chosen layers of a short encoder as a Longformer with tiled positions.

    Parameters
    ----------
    source : str or Path
        A folder, or the id of a model on the Hugging Face hub.
    layers : sequence of int, or None
        Indices of the layers to keep, in this order; None keeps all.
    window : int or sequence of int
        Tokens in the attention window, half of them on each side; for all layers or one per layer.
    max_positions : int
        The longest document in tokens, special ones included.
    revision : str or None
        Commit, tag or branch of a model on the hub.

    Raises
    ------
    ValueError
        In one line, if the source is missing or damaged, no student can be made of such a model,
        or it has no such layers.
    """
    config = _read_config(source, revision)
    narrow = getattr(config, "embedding_size", config.hidden_size) != config.hidden_size
    relative = getattr(config, "position_embedding_type", "absolute") != "absolute"
    if config.model_type not in SHORT_ENCODERS or relative or narrow:
        other = "relative positions" if relative else "an architecture of its own"
        why = WHY_NOT.get(config.model_type, "narrow token embeddings" if narrow else other)
        kinds = f"{', '.join(SHORT_ENCODERS)} with absolute positions"
        raise ValueError(
            f"{source} is a {config.model_type} with {why}; a student can be made of {kinds}"
        )
    available = range(config.num_hidden_layers)
    layers = list(available if layers is None else layers)
    if not layers or not {*layers} <= {*available}:
        raise ValueError(
            f"layers must be indices from 0 to {config.num_hidden_layers - 1} of {source}, "
            f"got {layers!r}"
        )
    longformer = LongformerConfig(
        attention_window=window if isinstance(window, int) else list(window),
        max_position_embeddings=max_positions + config.pad_token_id + 1,
        num_hidden_layers=len(layers),
        **{name: getattr(config, name) for name in _TAKEN_OVER},
    )
    tensors = _read_tensors(AutoModel, source, revision, layers)
    reserved = config.pad_token_id + 1 if SHORT_ENCODERS[config.model_type] else 0
    name = "embeddings.position_embeddings.weight"
    tensors[name] = tile_positions(tensors[name][reserved:], config.pad_token_id, max_positions)
    tokenizer = _read_tokenizer(source, revision)
    if tokenizer is not None:
        tokenizer.model_max_length = max_positions
    return Checkpoint(longformer, tensors, tokenizer)


def tile_positions(table: Tensor, padding: int, max_positions: int) -> Tensor:
    """Repeat learned positions up to `max_positions`, after padding + 1 unused rows.

    The authors of Longformer copied RoBERTa's 512 positions eight times in the same way (Beltagy et
    al. 2020, section 5). The local structure is preserved everywhere except at the seams.

    Parameters
    ----------
    table : (old, width)
        Embeddings of the learned positions, without unused rows.
    padding : int
        The id of the padding token.
    max_positions : int
        The number of positions to make.

    Returns
    -------
    (padding + 1 + max_positions, width)
    """
    repeats = math.ceil(max_positions / len(table))
    tiled = table.repeat(repeats, 1)[:max_positions]
    return torch.cat([table.new_zeros(padding + 1, table.shape[1]), tiled])


def add_unused_weights(weights: dict[str, Tensor], unused: dict[str, Tensor]) -> dict[str, Tensor]:
    """Complete a student's weights to those of a standard `LongformerModel`.

    The student has no global attention. If its checkpoint had weights for it, they are restored;
    otherwise the local projections are copied, which is how Longformer initialises them. A missing
    pooler becomes zeros, since nothing here reads it.

    Parameters
    ----------
    weights : dict of str to Tensor
        The student's own weights.
    unused : dict of str to Tensor
        The other weights of its checkpoint.

    Returns
    -------
    dict of str to Tensor, float32 on the CPU
    """
    complete = {
        name: tensor.detach().float().cpu().contiguous() for name, tensor in weights.items()
    }
    for name, tensor in list(complete.items()):
        for part in ("query", "key", "value"):
            if f".self.{part}." in name:
                copy = name.replace(f".self.{part}.", f".self.{part}_global.")
                complete[copy] = unused.get(copy, tensor).clone()
    bias = torch.zeros_like(complete["embeddings.LayerNorm.weight"])
    for name, zeros in {"weight": bias.repeat(len(bias), 1), "bias": bias}.items():
        complete[f"pooler.dense.{name}"] = unused.get(f"pooler.dense.{name}", zeros)
    return complete


def _read_tensors(
    kind: type[Any], source: Source, revision: str | None, layers: Sequence[int] | None = None
) -> dict[str, Tensor]:
    """Read the weights of an encoder, or of some of its layers.

    transformers fills missing weights with random numbers. Here a checkpoint without them is
    refused.
    """
    with (
        one_line_errors(f"read the weights of {source}"),
        quiet_transformers(),
        torch.random.fork_rng(devices=[]),
    ):
        options = {"revision": revision, "dtype": torch.float32, "output_loading_info": True}
        options["ignore_mismatched_sizes"] = True  # they are refused below, by name
        model, info = kind.from_pretrained(source, trust_remote_code=False, **options)
        for name, stored, expected in sorted(info["mismatched_keys"]):
            raise ValueError(
                f"{name} has shape {tuple(stored)}, but config.json says {tuple(expected)}"
            )
        missing = set(info["missing_keys"])
        needed = sorted(
            name for name in missing if "_global." not in name and not name.startswith("pooler.")
        )
        if needed:
            raise ValueError(f"it lacks {len(needed)} weights; the first is {needed[0]}")
    if layers is not None:
        model.encoder.layer = torch.nn.ModuleList(model.encoder.layer[layer] for layer in layers)
    return {
        name: tensor.clone() for name, tensor in model.state_dict().items() if name not in missing
    }


def warn_of_unknown_token(source: Source, checkpoint: Checkpoint) -> None:
    """Warn if the tokenizer has a token without an embedding, such as one that was added."""
    if checkpoint.tokenizer is None:
        return
    token, number = max(checkpoint.tokenizer.get_vocab().items(), key=lambda item: item[1])
    if number >= checkpoint.config.vocab_size:
        told = f"{token!r} has no embedding, so texts that contain it cannot be embedded"
        warnings.warn(f"{source}: the tokenizer's {told}", stacklevel=4)


def _compare_length(folder: Path, checkpoint: Checkpoint) -> None:
    """Warn if sentence-transformers would cut texts earlier than the student does."""
    settings = folder / "sentence_bert_config.json"
    lengths = [checkpoint.max_positions, getattr(checkpoint.tokenizer, "model_max_length", None)]
    with contextlib.suppress(OSError, ValueError, AttributeError):
        lengths.append(json.loads(settings.read_bytes()).get("max_seq_length"))
    least = min(length for length in lengths if length)
    if least < checkpoint.max_positions:
        told = f"sentence-transformers would cut texts at {least}, a limit that is ignored here"
        warnings.warn(f"{folder} reads {checkpoint.max_positions} tokens; {told}", stacklevel=4)


def _read_config(source: Source, revision: str | None) -> PretrainedConfig:
    """Read a configuration; refuse a folder of this project whose files have changed.

    A change in one of the `UNREAD` files is only a warning.
    """
    folder = Path(source)
    if isinstance(source, Path) and not folder.is_dir():
        hint = "".join(
            f"; a save that was cut off left {path}" for path in owned_folder.list_left_over(folder)
        )
        raise ValueError(f"there is no checkpoint folder {folder}{hint}")
    owned_folder.check_whole(folder, UNREAD)
    with one_line_errors(f"read the configuration of {source}"), quiet_transformers():
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)


def _read_tokenizer(source: Source, revision: str | None) -> Any:
    """Read a tokenizer; None if a folder has no vocabulary.

    From a folder with settings but no vocabulary, transformers would make a tokenizer that turns
    every word into [UNK].
    """
    folder = Path(source)
    if folder.is_dir() and not any(
        all((folder / name).is_file() for name in names) for names in VOCABULARIES
    ):
        return None
    with one_line_errors(f"read the tokenizer of {source}"), quiet_transformers():
        return AutoTokenizer.from_pretrained(
            source, revision=revision, use_fast=True, trust_remote_code=False
        )
