"""Writes students for other people, as Hugging Face's Longformer or as a SentenceTransformer.

No number that is kept depends on this module.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from safetensors.torch import save_file

from lib.config.console import one_line_errors, quiet_transformers
from lib.store import replace_folder
from lib.student.encoder import Student

KIND = "student"  # of folder: it replaces no folder that this project wrote for something else
# As sentence-transformers reads it since version 2; before 6, it cannot load what 6.2 saves.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
TOLERANCE = 1e-4  # relative to the largest number; other kernels change embeddings by about 1e-6
# Sections of a model card after its title, in this order, besides what the student itself tells.
SECTIONS = (
    "base_model teachers losses data training scores verdict provenance limits license"
).split()


def save_longformer(student: Student, folder: str | Path) -> None:
    """Write config, weights and, if there is one, the tokenizer; the folder is replaced whole.

    `ValueError`, in one line, for a folder with files that this project did not write, and for a
    full disk. Then nothing is written.
    """
    _replace_folder(folder, lambda new: _write_longformer(student, new))


def save_sentence_transformer(
    student: Student, folder: str | Path, card: Mapping[str, Any] | None = None
) -> None:
    """Write what `SentenceTransformer(folder)` loads: a mean over all tokens, without Normalize.

    The folder is replaced whole, once sentence-transformers gives the student's embeddings. `card`
    is what README.md says besides what the student itself tells: a `title` and any of `SECTIONS`.
    A value is a text, a list of texts, or a mapping; `scores` may be a list of rows, each a mapping
    from columns to values. `base_model` as owner/name and `license` as an SPDX identifier become
    metadata of the hub too.

    `ValueError` as `save_longformer`, and for a missing tokenizer or an unknown key of `card`.
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


def _replace_folder(folder: str | Path, write: Callable[[Path], None]) -> None:
    def write_or_explain(new: Path) -> None:
        with one_line_errors(f"write {folder}"):
            write(new)

    replace_folder(folder, KIND, write_or_explain)


def _write_longformer(student: Student, folder: Path) -> None:
    checkpoint = student.checkpoint()
    config = checkpoint.config.to_dict()
    config |= {"architectures": ["LongformerModel"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    _write_json(folder / "config.json", config)
    file = folder / "model.safetensors"
    save_file(checkpoint.tensors, file, metadata={"format": "pt"})
    file.chmod(folder.stat().st_mode & 0o666)  # safetensors' 0600 would hide it from colleagues
    if (tokenizer := student.tokenizer) is not None:
        tokenizer.backend_tokenizer.no_padding()  # a base such as MiniLM pads and cuts to 128
        tokenizer.backend_tokenizer.enable_truncation(
            student.max_positions, direction=tokenizer.truncation_side
        )
        tokenizer.model_max_length = student.max_positions
        tokenizer.init_kwargs.pop("max_length", None)
        tokenizer.save_pretrained(folder)


def _write_modules(student: Student, folder: Path) -> None:
    _write_json(folder / "modules.json", MODULES)
    transformer = {"max_seq_length": student.max_positions, "do_lower_case": False}
    _write_json(folder / "sentence_bert_config.json", transformer)
    pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    _write_json(folder / "1_Pooling" / "config.json", pooling)


def _compare_embeddings(student: Student, folder: Path) -> None:
    """Raise ValueError unless sentence-transformers embeds a short and a padded text as we do."""
    from sentence_transformers import SentenceTransformer

    with quiet_transformers():
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=False)
    if model.max_seq_length != student.max_positions:
        raise ValueError(f"sentence-transformers would cut texts at {model.max_seq_length} tokens")
    ids = np.linspace(0, student.config.vocab_size - 1, 200).astype(int)
    pieces = (student.tokenizer.decode([number]).strip() for number in ids.tolist())
    words = [piece for piece in pieces if piece.isalnum()] or ["0"]
    window = int(np.max(student.config.attention_window))
    texts = [words[-1].upper(), " ".join(np.resize(words, window))]
    expected = copy.deepcopy(student).float().cpu().encode(texts)  # as it is written
    with quiet_transformers():  # Hugging Face's Longformer says that it pads
        vectors = model.encode(texts, show_progress_bar=False)
    difference = np.abs(vectors - expected).max()
    if not difference <= TOLERANCE * np.abs(expected).max():
        raise ValueError(f"sentence-transformers gives embeddings that differ by {difference:.2g}")


def render_card(template: Path, **values: Any) -> str:
    """Fill in a template; a value that it lacks is an error."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = template.read_text(encoding="utf-8")
    return environment.from_string(text).render(values) + "\n"


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
