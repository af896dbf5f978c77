"""Weights of Hugging Face checkpoints under the names of `transformers.LongformerModel`, always in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from transformers.utils import logging

from lib.store import owned_folder

if TYPE_CHECKING:
    from lib.student.encoder import Student

# Encoders whose layers are those of a Longformer; the value tells whether positions start after the padding id.
SHORT_ENCODERS = {
    "bert": False,
    "electra": False,
    "roberta": True,
    "xlm-roberta": True,
    "camembert": True,
}
SHORT_ENCODERS |= {"data2vec-text": True}
WHY_NOT = {
    "mpnet": "a bias by relative position",
    "deberta-v2": "attention by relative position",
}  # docs/scale.md
WHY_NOT |= dict.fromkeys(("modernbert", "nomic_bert", "eurobert", "gte"), "rotary positions")
# The files that hold a tokenizer's vocabulary, any one set of them.
VOCABULARIES = (
    ("tokenizer.json",),
    ("vocab.txt",),
    ("vocab.json", "merges.txt"),
    ("sentencepiece.bpe.model",),
)
_TAKEN_OVER = (  # all that a Longformer takes over from a short encoder
    *(
        "vocab_size",
        "hidden_size",
        "num_attention_heads",
        "intermediate_size",
        "hidden_act",
        "type_vocab_size",
    ),
    *(
        "layer_norm_eps",
        "pad_token_id",
        "hidden_dropout_prob",
        "attention_probs_dropout_prob",
        "initializer_range",
    ),
    *("bos_token_id", "eos_token_id"),
)

Source = str | Path  # a folder or, as a str without a folder of that name, a hub id
Checkpoint = tuple[LongformerConfig, dict[str, Tensor], Any]  # the last is the tokenizer or None


def from_longformer(source: Source, revision: str | None) -> Checkpoint:
    """Read a Longformer; heads are left out, global attention and pooler are kept if the checkpoint has them."""
    config = _config(source, revision)
    if not isinstance(config, LongformerConfig):
        raise ValueError(
            f"{source} is a {config.model_type}, expected a longformer; use Student.from_encoder for it"
        )
    return config, _tensors(LongformerModel, source, revision), _tokenizer(source, revision)


def from_encoder(
    source: Source,
    layers: Sequence[int] | None,
    window: int | Sequence[int],
    max_positions: int,
    revision: str | None,
) -> Checkpoint:
    """Read chosen layers of a short encoder as a Longformer with tiled positions."""
    config = _config(source, revision)
    narrow = getattr(config, "embedding_size", config.hidden_size) != config.hidden_size
    relative = getattr(config, "position_embedding_type", "absolute") != "absolute"
    if config.model_type not in SHORT_ENCODERS or relative or narrow:
        other = "relative positions" if relative else "an architecture of its own"
        why = WHY_NOT.get(config.model_type, "narrow token embeddings" if narrow else other)
        kinds = f"{', '.join(SHORT_ENCODERS)} with absolute positions"
        raise ValueError(
            f"{source} is a {config.model_type}, with {why}; a student can be made of {kinds}"
        )
    available = range(config.num_hidden_layers)
    layers = list(available if layers is None else layers)
    if not layers or not {*layers} <= {*available}:
        raise ValueError(
            f"layers must be indices from 0 to {config.num_hidden_layers - 1} of {source}, got {layers!r}"
        )
    longformer = LongformerConfig(
        attention_window=window if isinstance(window, int) else list(window),
        max_position_embeddings=max_positions + config.pad_token_id + 1,
        num_hidden_layers=len(layers),
        **{name: getattr(config, name) for name in _TAKEN_OVER},
    )
    tensors = _tensors(AutoModel, source, revision, layers)
    reserved = config.pad_token_id + 1 if SHORT_ENCODERS[config.model_type] else 0
    name = "embeddings.position_embeddings.weight"
    tensors[name] = tile_positions(tensors[name][reserved:], config.pad_token_id, max_positions)
    tokenizer = _tokenizer(source, revision)
    if tokenizer is not None:
        tokenizer.model_max_length = max_positions
    return longformer, tensors, tokenizer


def tile_positions(table: Tensor, padding: int, max_positions: int) -> Tensor:
    """Repeat the learned positions (old, width) up to `max_positions`, after padding + 1 rows that no token has.

    Longformer's authors copied RoBERTa's 512 positions eight times in the same way (Beltagy et al. 2020, section 5):
    the local structure survives everywhere but at the seams.
    """
    repeats = -(-max_positions // len(table))
    tiled = table.repeat(repeats, 1)[:max_positions]
    return torch.cat([table.new_zeros(padding + 1, table.shape[1]), tiled])


def of_stock_longformer(student: Student) -> dict[str, Tensor]:
    """All weights that a stock LongformerModel has, from a student, on the CPU.

    The student has no global attention. What its checkpoint held for it is written back, else the local projections are
    copied, which is how Longformer initialised them. A missing pooler becomes zeros; nothing here reads it.
    """
    weights = {
        name: tensor.detach().cpu().contiguous() for name, tensor in student.state_dict().items()
    }
    for name in list(weights):
        for part in ("query", "key", "value"):
            if f".self.{part}." in name:
                copy = name.replace(f".self.{part}.", f".self.{part}_global.")
                weights[copy] = student.unused.get(copy, weights[name]).clone()
    sample = weights["embeddings.LayerNorm.weight"]
    for name, shape in {"weight": (student.dim, student.dim), "bias": (student.dim,)}.items():
        weights[f"pooler.dense.{name}"] = student.unused.get(
            f"pooler.dense.{name}", sample.new_zeros(shape)
        )
    return weights


def _tensors(
    kind: type[Any], source: Source, revision: str | None, layers: Sequence[int] | None = None
) -> dict[str, Tensor]:
    """All weights in the checkpoint that belong to the encoder, or to some of its layers; none that were made up."""
    logging.set_verbosity_error()  # no table of left-out heads; missing weights are an error here
    logging.disable_progress_bar()
    with one_line(f"read the weights of {source}"), torch.random.fork_rng(devices=[]):
        options = {"revision": revision, "dtype": torch.float32, "output_loading_info": True}
        options["ignore_mismatched_sizes"] = True  # they are refused below, by name
        model, info = kind.from_pretrained(source, trust_remote_code=False, **options)
        for name, stored, expected in sorted(info["mismatched_keys"]):
            raise ValueError(
                f"{name} has the shape {tuple(stored)}, its config.json says {tuple(expected)}"
            )
        missing = set(info["missing_keys"])
        needed = sorted(
            name for name in missing if "_global." not in name and not name.startswith("pooler.")
        )
        if needed:
            raise ValueError(f"it lacks {len(needed)} weights, the first is {needed[0]}")
    if layers is not None:
        model.encoder.layer = torch.nn.ModuleList(model.encoder.layer[layer] for layer in layers)
    return {
        name: tensor.clone() for name, tensor in model.state_dict().items() if name not in missing
    }


def _config(source: Source, revision: str | None) -> PretrainedConfig:
    """The configuration of a checkpoint, which has to be as it was written if this project wrote it."""
    folder = Path(source)
    if isinstance(source, Path) and not folder.is_dir():
        hint = "".join(
            f"; a save that was cut off left {path}" for path in owned_folder.left_over(folder)
        )
        raise ValueError(f"there is no checkpoint folder {folder}{hint}")
    owned_folder.check_whole(folder)
    with one_line(f"read the configuration of {source}"):
        return AutoConfig.from_pretrained(source, revision=revision, trust_remote_code=False)


def _tokenizer(source: Source, revision: str | None) -> Any:
    """The checkpoint's tokenizer; None if a folder has no vocabulary: its settings alone would make all words [UNK]."""
    folder = Path(source)
    if folder.is_dir() and not any(
        all((folder / name).is_file() for name in names) for names in VOCABULARIES
    ):
        return None
    with one_line(f"read the tokenizer of {source}"):
        return AutoTokenizer.from_pretrained(
            source, revision=revision, use_fast=True, trust_remote_code=False
        )


@contextmanager
def one_line(task: str) -> Iterator[None]:
    """Make whatever goes wrong a ValueError of one line: damaged files and full disks raise errors of any type."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"cannot {task}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        ) from error
