"""Students on disk: reads Longformers and short encoders, writes Longformers and exports.

Weights are float32 on the CPU, under the names of `transformers.LongformerModel`.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoTokenizer, LongformerConfig, LongformerModel

from lib.messages import one_line_errors, quiet_transformers

# Encoders whose layers are those of a Longformer, and whether their positions start after the
# padding id. docs/scale.md says why others cannot be used.
SHORT_ENCODERS = {
    "bert": False,
    "electra": False,
    "roberta": True,
    "xlm-roberta": True,
    "camembert": True,
    "data2vec-text": True,
}
# Settings that a Longformer takes over from the config of a short encoder.
_TAKEN_OVER = (
    "vocab_size hidden_size num_attention_heads intermediate_size hidden_act type_vocab_size "
    "layer_norm_eps pad_token_id bos_token_id eos_token_id hidden_dropout_prob "
    "attention_probs_dropout_prob initializer_range"
).split()
KIND = "student"  # of folder: it replaces no folder that this project wrote for something else
# As sentence-transformers reads it since version 2; before 6, it cannot load what 6.2 saves.
_MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
TOLERANCE = 1e-4  # relative to the largest number; other kernels change embeddings by about 1e-6
# Sections of a model card after its title, in this order, besides what the student itself tells.
SECTIONS = (
    "base_model teachers losses data training scores verdict provenance limits license"
).split()

Source = str | Path  # a folder or, as a str without a folder of that name, a hub id


class Checkpoint(NamedTuple):
    """A Longformer as it is read from disk or written to it."""

    config: LongformerConfig
    tensors: dict[str, Tensor]
    tokenizer: Any  # Hugging Face's, or None


def read_longformer(source: Source, revision: str | None) -> Checkpoint:
    """Read a Longformer without its heads, and with global attention and pooler if it has them."""
    config = _read_config(source, revision)
    if not isinstance(config, LongformerConfig):
        raise ValueError(f"{source} is a {config.model_type}; load it with Student.from_encoder")
    tensors = _read_tensors(LongformerModel, source, revision)
    return Checkpoint(config, tensors, _read_tokenizer(source, revision))


def read_encoder(
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
    tiled = table.repeat(math.ceil(max_positions / len(table)), 1)[:max_positions]
    return torch.cat([table.new_zeros(padding + 1, table.shape[1]), tiled])


def complete_weights(weights: dict[str, Tensor], unused: dict[str, Tensor]) -> dict[str, Tensor]:
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
                copied = name.replace(f".self.{part}.", f".self.{part}_global.")
                complete[copied] = unused.get(copied, tensor).clone()
    bias = torch.zeros_like(complete["embeddings.LayerNorm.weight"])
    for name, zeros in {"weight": bias.repeat(len(bias), 1), "bias": bias}.items():
        complete[f"pooler.dense.{name}"] = unused.get(f"pooler.dense.{name}", zeros)
    return complete


def save_longformer(student: Any, folder: str | Path) -> None:
    """Write config, weights and, if there is one, the tokenizer; the folder is replaced whole.

    `ValueError`, in one line, for a folder with files that this project did not write, and for a
    full disk. Then nothing is written.
    """
    _replace_folder(folder, lambda new: _write_longformer(student, new))


def save_sentence_transformer(
    student: Any, folder: str | Path, card: Mapping[str, Any] | None = None
) -> None:
    """Write what `SentenceTransformer(folder)` loads: a mean over all tokens, without Normalize.

    The folder is replaced whole, once sentence-transformers gives the student's embeddings. `card`
    is what README.md says besides what the student itself tells: a `title` and any of `SECTIONS`
    (docs/export.md). `ValueError` as `save_longformer`, and for an unknown key of `card`.
    """
    keys = ["title", *SECTIONS]
    values = dict.fromkeys(keys) | dict(card or {})
    if unknown := sorted(values.keys() - keys):
        raise ValueError(f"a model card has no {unknown[0]!r}; expected any of {', '.join(keys)}")
    if student.tokenizer is None:
        raise ValueError("a SentenceTransformer needs a tokenizer; set student.tokenizer")

    def write(new: Path) -> None:
        _write_longformer(student, new)
        _write_modules(student, new)
        facts = {
            "name": Path(folder).name,
            "card": values,
            "sections": SECTIONS,
            "width": student.dim,
            "longest": student.max_positions,
            "windows": student.config.attention_window,
            "parameters": sum(parameter.numel() for parameter in student.parameters()),
        }
        text = render_card(Path(__file__).with_name("card.md.j2"), **facts)
        (new / "README.md").write_text(text, encoding="utf-8")
        _compare_embeddings(student, new)

    _replace_folder(folder, write)


def render_card(template: Path, **values: Any) -> str:
    """Fill in a template; a value that it lacks is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = template.read_text(encoding="utf-8")
    return environment.from_string(text).render(values) + "\n"


def _replace_folder(folder: str | Path, write: Callable[[Path], None]) -> None:
    from lib.store import replace_folder  # whose packages reading does not need

    def write_or_explain(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            write(new)

    replace_folder(folder, KIND, write_or_explain)


def _write_longformer(student: Any, folder: Path) -> None:
    config = student.config.to_dict()
    config |= {"architectures": ["LongformerModel"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    _write_json(folder / "config.json", config)
    tensors = complete_weights(student.state_dict(), student.unused)
    file = folder / "model.safetensors"
    save_file(tensors, file, metadata={"format": "pt"})
    file.chmod(folder.stat().st_mode & 0o666)  # safetensors' 0600 would hide it from colleagues
    if (tokenizer := student.tokenizer) is not None:
        tokenizer.backend_tokenizer.no_padding()  # a base such as MiniLM pads and cuts to 128
        tokenizer.backend_tokenizer.enable_truncation(
            student.max_positions, direction=tokenizer.truncation_side
        )
        tokenizer.model_max_length = student.max_positions
        tokenizer.init_kwargs.pop("max_length", None)
        tokenizer.save_pretrained(folder)


def _write_modules(student: Any, folder: Path) -> None:
    _write_json(folder / "modules.json", _MODULES)
    transformer = {"max_seq_length": student.max_positions, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", transformer)
    pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    _write_json(folder / "1_Pooling" / "config.json", pooling)


def _compare_embeddings(student: Any, folder: Path) -> None:
    """Raise ValueError unless sentence-transformers embeds short and cut texts as we do."""
    from sentence_transformers import SentenceTransformer

    ids = np.linspace(0, student.config.vocab_size - 1, 200).astype(int)
    pieces = (student.tokenizer.decode([number]).strip() for number in ids.tolist())
    words = [piece for piece in pieces if piece.isalnum()] or ["0"]
    texts = [words[-1].upper(), " ".join(np.resize(words, student.max_positions + 1))]
    expected = copy.deepcopy(student).float().cpu().encode(texts)  # as it is written
    with quiet_transformers():  # Hugging Face's Longformer says that it pads
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
        vectors = model.encode(texts, show_progress_bar=False)
    difference = np.abs(vectors - expected).max()
    if not difference <= TOLERANCE * np.abs(expected).max():
        raise ValueError(f"sentence-transformers gives embeddings that differ by {difference:.2g}")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")


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
        model, info = kind.from_pretrained(source, trust_remote_code=False, **options)
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


def _read_config(source: Source, revision: str | None) -> Any:
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
