"""Write a checkpoint as a standard Hugging Face Longformer or SentenceTransformer.

Each export is loaded again with the library it is meant for and compared with the checkpoint,
before it takes its place.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer

from lib.config.loading import one_line_errors, quiet_transformers
from lib.store.owned_folder import replace_folder
from lib.student.packing import tokenize
from lib.student.weights import Checkpoint, from_longformer, warn_of_unknown_token

# Class paths and settings that sentence-transformers has understood since version 2. Versions
# before 6 cannot load what `SentenceTransformer.save` of 6.2 writes.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
Encode = Callable[[Path, list[str]], np.ndarray]
# Largest difference between embeddings, relative to their largest number. Other kernels change
# embeddings by about 1e-6.
TOLERANCE = 1e-4
# Sections of a model card after its title, in this order, besides what the student itself tells.
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
    """Write config, weights and, if there is one, the tokenizer.

    The folder is replaced in one step, once all of it is written and compared.

    Raises
    ------
    ValueError
        In one line, for a folder that this project did not write, a full disk, or files that are
        read back with other contents. Then nothing is written.
    """

    def write(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            _write_longformer(checkpoint, new)
            _compare_longformer(checkpoint, new)

    replace_folder(folder, write)


def save_sentence_transformer(
    checkpoint: Checkpoint,
    folder: str | Path,
    encode: Encode,
    card: Mapping[str, Any] | None = None,
) -> None:
    """Write what `SentenceTransformer(folder)` loads: a mean over all tokens, without Normalize.

    Parameters
    ----------
    checkpoint : Checkpoint
        It must have a tokenizer.
    folder : str or Path
        Replaced in one step, once all of it is written and compared.
    encode : callable
        Maps a folder and texts to the expected embeddings, (texts, dim).
    card : mapping, optional
        What README.md says besides what the student itself tells: a `title` and any of `SECTIONS`.
        A value is a text, a list of texts, or a mapping from names to values. `scores` may be a
        list of rows, each a mapping from columns to values. `base_model` as owner/name and
        `license` as an SPDX identifier become metadata of the hub too.

    Raises
    ------
    ValueError
        In one line, for a missing tokenizer, an unknown key of `card`, a folder that this project
        did not write, a full disk, or an export with other embeddings. Then nothing is written.
    """
    keys = ["title", *SECTIONS]
    values = dict.fromkeys(keys) | dict(card or {})
    if unknown := sorted(values.keys() - keys):
        raise ValueError(f"a model card has no {unknown[0]!r}; expected any of {', '.join(keys)}")
    if checkpoint.tokenizer is None:
        raise ValueError(
            "a SentenceTransformer needs a tokenizer, and this student has none; "
            "set student.tokenizer"
        )

    def write(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            _write_longformer(checkpoint, new)
            _write_modules(checkpoint, new)
            text = _render_card(checkpoint, Path(folder).name, values)
            (new / "README.md").write_text(text, encoding="utf-8")
            _compare_longformer(checkpoint, new)
            _compare_embeddings(checkpoint, new, encode)

    replace_folder(folder, write)


def _write_longformer(checkpoint: Checkpoint, folder: Path) -> None:
    config = checkpoint.config.to_dict()
    config |= {"architectures": ["LongformerModel"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    warn_of_unknown_token(folder.name, checkpoint)
    _write_json(folder / "config.json", config)
    save_file(checkpoint.tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if checkpoint.tokenizer is not None:
        tokenizer = checkpoint.tokenizer
        tokenizer.backend_tokenizer.no_padding()  # a base such as MiniLM pads and cuts to 128
        tokenizer.backend_tokenizer.enable_truncation(
            checkpoint.max_positions, direction=tokenizer.truncation_side
        )
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


def _compare_longformer(checkpoint: Checkpoint, folder: Path) -> None:
    """Raise ValueError unless a folder reproduces the weights and token ids of the checkpoint."""
    read = from_longformer(folder, None)
    for name, tensor in checkpoint.tensors.items():
        if not torch.equal(read.tensors[name], tensor):
            raise ValueError(f"{name} has other values when it is read back")
    for name in ("attention_window", "pad_token_id", "max_position_embeddings"):
        if getattr(read.config, name) != getattr(checkpoint.config, name):
            raise ValueError(f"{name} is {getattr(read.config, name)} when it is read back")
    if checkpoint.tokenizer is None:
        return
    texts, limit = _list_texts(checkpoint), checkpoint.max_positions
    ids = tokenize(checkpoint.tokenizer, texts, limit)
    stored = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for how, others in {
        "tokenizer.json": [stored.encode(text).ids for text in texts],
        "the tokenizer": tokenize(read.tokenizer, texts, limit),
    }.items():
        if others != ids:
            raise ValueError(f"{how} gives other token ids when it is read back")


def _compare_embeddings(checkpoint: Checkpoint, folder: Path, encode: Encode) -> None:
    """Raise ValueError unless sentence-transformers embeds texts as `encode` does.

    The weights have already been compared, so few texts are enough: one that fills a window, and a
    batch of two short ones, of which one is padded.
    """
    from sentence_transformers import SentenceTransformer

    with quiet_transformers():
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    if model.max_seq_length != checkpoint.max_positions:
        raise ValueError(
            f"sentence-transformers would cut texts at {model.max_seq_length} tokens, expected "
            f"{checkpoint.max_positions}"
        )
    words = _list_texts(checkpoint)[-1].split()
    window = int(np.max(checkpoint.config.attention_window))
    texts = [f"{words[0]} {words[1].upper()}", words[0], " ".join(words[:window])]
    expected = encode(folder, texts)
    for some in (slice(2), slice(2, 3)):
        with quiet_transformers():  # Hugging Face's Longformer says that it pads
            vectors = model.encode(texts[some], show_progress_bar=False)
        difference = np.abs(vectors - expected[some]).max()
        if not difference <= TOLERANCE * np.abs(expected).max():
            raise ValueError(
                f"embeddings by sentence-transformers differ from the student's by {difference:.2g}"
            )


def _list_texts(checkpoint: Checkpoint) -> list[str]:
    """Make a one-word text, and one longer than the student reads, from all of the vocabulary."""
    tokenizer, count = checkpoint.tokenizer, 2 * checkpoint.max_positions
    ids = np.linspace(0, checkpoint.config.vocab_size - 1, 200).astype(int).tolist()
    pieces = (tokenizer.decode([each]).strip() for each in dict.fromkeys(ids))
    words = [piece for piece in pieces if piece.isalnum()] or ["0"]
    text = " ".join(words[number % len(words)] for number in range(count))
    return [words[0], text]


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
