"""Weights of Hugging Face checkpoints under the names of `transformers.LongformerModel`, always in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, LongformerConfig, LongformerModel, PretrainedConfig
from transformers.utils import logging

# Encoders whose layers are those of a Longformer; the value tells whether positions start after the padding id.
SHORT_ENCODERS = {"bert": False, "roberta": True, "xlm-roberta": True}
TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer_config.json", "sentencepiece.bpe.model")


@dataclass(frozen=True)
class Checkpoint:
    """Configuration, weights by name, and the tokenizer or None."""

    config: LongformerConfig
    tensors: dict[str, Tensor]
    tokenizer: object


def from_longformer(source: str | Path, revision: str | None) -> Checkpoint:
    """Read a Longformer; heads are left out, global attention and pooler are kept if the checkpoint has them."""
    config = _config(source, revision)
    if config.model_type != "longformer":
        raise ValueError(f"{source} is a {config.model_type}, expected a longformer; use Student.from_encoder for it")
    tensors = _tensors(LongformerModel, source, revision)
    return Checkpoint(config, tensors, _tokenizer(source, revision))


def from_encoder(
    source: str | Path,
    layers: Sequence[int] | None,
    window: int | Sequence[int],
    max_positions: int,
    revision: str | None,
) -> Checkpoint:
    """Read chosen layers of a short encoder as a Longformer with tiled positions."""
    config = _config(source, revision)
    if config.model_type not in SHORT_ENCODERS or getattr(config, "position_embedding_type", "absolute") != "absolute":
        raise ValueError(
            f"{source} is a {config.model_type}, a student can be made of {', '.join(SHORT_ENCODERS)} with absolute "
            "positions (a longformer is loaded by Student.from_longformer)"
        )
    available = range(config.num_hidden_layers)
    layers = list(available if layers is None else layers)
    if not layers or any(type(layer) is not int or layer not in available for layer in layers):
        raise ValueError(f"layers must be indices from 0 to {config.num_hidden_layers - 1} of {source}, got {layers!r}")
    if isinstance(max_positions, bool) or not isinstance(max_positions, int) or max_positions < 3:
        raise ValueError(f"max_positions must be a whole number of at least 3, got {max_positions!r}")
    longformer = LongformerConfig(
        attention_window=window if isinstance(window, int) else list(window),
        max_position_embeddings=max_positions + config.pad_token_id + 1,
        num_hidden_layers=len(layers),
        **{name: getattr(config, name) for name in _SHARED},
    )
    old = _tensors(AutoModel, source, revision)
    tensors = {name: tensor for name, tensor in old.items() if not name.startswith("encoder.")}
    for new, layer in enumerate(layers):
        prefix = f"encoder.layer.{layer}."
        for name, tensor in old.items():
            if name.startswith(prefix):
                tensors[f"encoder.layer.{new}.{name.removeprefix(prefix)}"] = tensor.clone()
    reserved = config.pad_token_id + 1 if SHORT_ENCODERS[config.model_type] else 0
    name = "embeddings.position_embeddings.weight"
    tensors[name] = tile_positions(old[name][reserved:], config.pad_token_id, max_positions)
    tokenizer = _tokenizer(source, revision)
    if tokenizer is not None:
        tokenizer.model_max_length = max_positions
    return Checkpoint(longformer, tensors, tokenizer)


_SHARED = (
    "vocab_size",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "type_vocab_size",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
)


def tile_positions(table: Tensor, padding: int, max_positions: int) -> Tensor:
    """Repeat the learned positions (old, width) up to `max_positions`, after padding + 1 rows that no token has.

    Longformer's authors copied RoBERTa's 512 positions eight times in the same way (Beltagy et al. 2020, section 5):
    the local structure survives everywhere but at the seams.
    """
    repeats = -(-max_positions // len(table))
    tiled = table.repeat(repeats, 1)[:max_positions]
    return torch.cat([table.new_zeros(padding + 1, table.shape[1]), tiled])


def _config(source: str | Path, revision: str | None) -> PretrainedConfig:
    folder = Path(source).expanduser()
    if (isinstance(source, Path) or folder.is_absolute() or str(source).startswith(".")) and not folder.is_dir():
        raise ValueError(f"there is no checkpoint folder {source}")
    try:
        return AutoConfig.from_pretrained(source, revision=revision)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read a checkpoint from {source}: {str(error).splitlines()[0]}") from error


def _tensors(kind, source: str | Path, revision: str | None) -> dict[str, Tensor]:
    """All weights in the checkpoint that belong to the encoder; none that had to be made up."""
    with _quiet(), torch.random.fork_rng(devices=[]):
        try:
            model, info = kind.from_pretrained(
                source, revision=revision, dtype=torch.float32, output_loading_info=True, trust_remote_code=False
            )
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise ValueError(f"cannot read the weights of {source}: {str(error).splitlines()[0]}") from error
    missing = set(info["missing_keys"])
    needed = sorted(name for name in missing if "_global." not in name and not name.startswith("pooler."))
    if needed:
        raise ValueError(f"the checkpoint {source} lacks {len(needed)} weights, the first is {needed[0]}")
    return {name: tensor.clone() for name, tensor in model.state_dict().items() if name not in missing}


def _tokenizer(source: str | Path, revision: str | None):
    """The checkpoint's tokenizer; None if a folder has no tokenizer files."""
    folder = Path(source).expanduser()
    if folder.is_dir() and not any((folder / name).is_file() for name in TOKENIZER_FILES):
        return None
    return AutoTokenizer.from_pretrained(source, revision=revision, use_fast=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bar and no table of left-out heads while weights load; missing ones are an error here."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
