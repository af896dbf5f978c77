"""Reads checkpoints: config, weights and tokenizer of a Longformer.

Weights are float32 on the CPU, under the names of `transformers.LongformerModel`.
"""

from __future__ import annotations

import math
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

from lib.config.console import one_line_errors, quiet_transformers

# Encoders whose layers are the same as those of a Longformer. The value says whether their
# positions start after the padding id. docs/scale.md says why others cannot be used.
SHORT_ENCODERS = {
    "bert": False,
    "electra": False,
    "roberta": True,
    "xlm-roberta": True,
    "camembert": True,
    "data2vec-text": True,
}
# Settings that a Longformer inherits from the config of a short encoder.
_TAKEN_OVER = (
    "vocab_size hidden_size num_attention_heads intermediate_size hidden_act type_vocab_size "
    "layer_norm_eps pad_token_id bos_token_id eos_token_id hidden_dropout_prob "
    "attention_probs_dropout_prob initializer_range"
).split()

Source = str | Path  # a folder or, as a str without a folder of that name, a hub id


class Checkpoint(NamedTuple):
    """A Longformer as it is read from disk or written to it."""

    config: LongformerConfig
    tensors: dict[str, Tensor]
    tokenizer: Any  # Hugging Face's, or None


def from_longformer(source: Source, revision: str | None) -> Checkpoint:
    """Read a Longformer without its heads, and with global attention and pooler if it has them."""
    config = _read_config(source, revision)
    if not isinstance(config, LongformerConfig):
        raise ValueError(f"{source} is a {config.model_type}; load it with Student.from_encoder")
    tensors = _read_tensors(LongformerModel, source, revision)
    return Checkpoint(config, tensors, _read_tokenizer(source, revision))


def from_encoder(
    source: Source,
    layers: Sequence[int] | None,
    window: int | Sequence[int],
    max_positions: int,
    revision: str | None,
) -> Checkpoint:
    """Read chosen layers of a short encoder as a Longformer, as by `Student.from_encoder`."""
    config = _read_config(source, revision)
    narrow = getattr(config, "embedding_size", config.hidden_size) != config.hidden_size
    relative = getattr(config, "position_embedding_type", "absolute") != "absolute"
    if config.model_type not in SHORT_ENCODERS or relative or narrow:
        raise ValueError(
            f"{source} is a {config.model_type}; a student can be made of "
            f"{', '.join(SHORT_ENCODERS)} with absolute positions and tokens as wide as layers"
        )
    available = range(config.num_hidden_layers)
    layers = list(available if layers is None else layers)
    if not layers or not {*layers} <= {*available}:
        raise ValueError(f"layers of {source} must be from 0 to {max(available)}, got {layers!r}")
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
    """Repeat learned positions (old, width) up to `max_positions`, after padding + 1 unused rows.

    So did the authors of Longformer (Beltagy et al. 2020, section 5): the local structure is
    preserved except at the seams.
    """
    repeats = math.ceil(max_positions / len(table))
    tiled = table.repeat(repeats, 1)[:max_positions]
    return torch.cat([table.new_zeros(padding + 1, table.shape[1]), tiled])


def add_unused_weights(weights: dict[str, Tensor], unused: dict[str, Tensor]) -> dict[str, Tensor]:
    """Complete a student's weights to those of a standard `LongformerModel`, float32 on the CPU.

    Global attention, which the student lacks, comes from `unused`, or is a copy of the local
    projections, which is how Longformer initialises it. A missing pooler becomes zeros.
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
    """Read weights. A missing one, which transformers would fill at random, is an error."""
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


def _read_config(source: Source, revision: str | None) -> PretrainedConfig:
    if isinstance(source, Path) and not source.is_dir():
        raise ValueError(f"there is no checkpoint folder {source}")
    with one_line_errors(f"read the configuration of {source}"), quiet_transformers():
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)


def _read_tokenizer(source: Source, revision: str | None) -> Any:
    """Read a tokenizer; None if there is no vocabulary, so that every word would be [UNK]."""
    with one_line_errors(f"read the tokenizer of {source}"), quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(
            source, revision=revision, use_fast=True, trust_remote_code=False
        )
    return tokenizer if len(tokenizer) > len(tokenizer.all_special_ids) else None
