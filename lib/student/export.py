"""Write a checkpoint as a stock Hugging Face Longformer, or as a stock SentenceTransformer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from safetensors.torch import save_file

from lib.config.loading import one_line_errors
from lib.store.owned_folder import replace_folder
from lib.student.weights import Checkpoint

# Class paths and settings that sentence-transformers has understood since version 2. What
# `SentenceTransformer.save` of 6.2 writes can be loaded by no version before 6.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
# What a model card may say beyond what the student itself tells, in this order, after its title.
SECTIONS = (
    "base_model",
    "teachers",
    "losses",
    "data",
    "training",
    "scores",
    "verdict",
    "provenance",
    "limits",
    "license",
)


def save_longformer(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write config, weights and, if there is one, the tokenizer; the folder is replaced at once."""

    def write(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            _write_longformer(checkpoint, new)

    replace_folder(folder, write)


def save_sentence_transformer(
    checkpoint: Checkpoint, folder: str | Path, card: Mapping[str, Any] | None = None
) -> None:
    """Write what `SentenceTransformer(folder)` loads: a mean over all tokens, without Normalize.

    Parameters
    ----------
    checkpoint : Checkpoint
        With a tokenizer.
    folder : str or Path
        Replaced at once.
    card : mapping, optional
        What README.md says beyond what the student itself tells: a `title` and any of `SECTIONS`. A
        value is a text, a list of texts, or a mapping from names to values; `scores` may be a list
        of rows, mappings from columns to values. `base_model` as owner/name and `license` as an
        SPDX identifier become the hub's metadata too.

    Raises
    ------
    ValueError
        In one line: no tokenizer, an unknown key of `card`, a folder not ours, a full disk.
    """
    keys = ["title", *SECTIONS]
    values = dict.fromkeys(keys) | dict(card or {})
    if unknown := sorted(values.keys() - keys):
        raise ValueError(f"a model card has no {unknown[0]!r}; expected any of {', '.join(keys)}")
    if checkpoint.tokenizer is None:
        raise ValueError(
            "a SentenceTransformer needs a tokenizer and this student has none; "
            "set student.tokenizer"
        )

    def write(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            _write_longformer(checkpoint, new)
            _write_modules(checkpoint, new)
            text = _render_card(checkpoint, Path(folder).name, values)
            (new / "README.md").write_text(text, encoding="utf-8")

    replace_folder(folder, write)


def _write_longformer(checkpoint: Checkpoint, folder: Path) -> None:
    config = checkpoint.config.to_dict()
    config |= {"architectures": ["LongformerModel"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    _write_json(folder / "config.json", config)
    save_file(checkpoint.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if checkpoint.tokenizer is not None:
        tokenizer = checkpoint.tokenizer
        tokenizer.backend_tokenizer.no_padding()  # a base such as MiniLM pads and cuts to 128
        tokenizer.backend_tokenizer.enable_truncation(checkpoint.max_positions)
        tokenizer.model_max_length = checkpoint.max_positions
        tokenizer.init_kwargs.pop("max_length", None)
        tokenizer.save_pretrained(folder)


def _write_modules(checkpoint: Checkpoint, folder: Path) -> None:
    _write_json(folder / "modules.json", MODULES)
    transformer = {"max_seq_length": checkpoint.max_positions, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", transformer)
    width = checkpoint.config.hidden_size
    pooling = {"word_embedding_dimension": width, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    _write_json(folder / "1_Pooling" / "config.json", pooling)


def _render_card(checkpoint: Checkpoint, name: str, card: Mapping[str, Any]) -> str:
    template = jinja2.Template(
        Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    unused = ("_global.", "pooler.")
    parameters = sum(
        tensor.numel()
        for weight, tensor in checkpoint.tensors.items()
        if not any(part in weight for part in unused)
    )
    values = {"name": name, "card": card, "sections": SECTIONS, "parameters": parameters}
    return (
        template.render(
            width=checkpoint.config.hidden_size,
            longest=checkpoint.max_positions,
            windows=checkpoint.config.attention_window,
            **values,
        )
        + "\n"
    )


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
