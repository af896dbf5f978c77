"""Write a student as a stock Hugging Face Longformer, and as a stock SentenceTransformer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors.torch import save_file

from lib.store import owned_folder
from lib.student.weights import of_stock_longformer, one_line

if TYPE_CHECKING:
    from lib.student.encoder import Student

# Module paths that sentence-transformers has understood since version 2.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def save(student: Student, folder: str | Path, *, sentence_transformer: bool) -> None:
    """Write config, weights and tokenizer beside `folder`, then put them in its place.

    Raises ValueError for an export without a tokenizer, a folder that this project did not write, a full disk.
    """
    if sentence_transformer and student.tokenizer is None:
        raise ValueError("a SentenceTransformer needs a tokenizer and this student has none; set student.tokenizer")

    def write(new: Path) -> None:
        with one_line(f"write {folder}"):
            _write(student, new, sentence_transformer)

    owned_folder.replace(folder, write)


def _write(student: Student, folder: Path, sentence_transformer: bool) -> None:
    config = student.config.to_dict()
    config.pop("_name_or_path", None)
    config.update(architectures=["LongformerModel"], dtype="float32")
    _json(folder / "config.json", config)
    save_file(of_stock_longformer(student), folder / "model.safetensors", metadata={"format": "pt"})
    if student.tokenizer is not None:
        stored = student.tokenizer.backend_tokenizer
        stored.no_padding()  # a base such as MiniLM pads and cuts to 128 tokens
        stored.enable_truncation(student.max_positions)
        student.tokenizer.save_pretrained(folder)
    if sentence_transformer:  # mean over all tokens, special ones included, and no Normalize
        _json(folder / "modules.json", MODULES)
        _json(folder / "sentence_bert_config.json", {"max_seq_length": student.max_positions, "do_lower_case": False})
        pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
        (folder / "1_Pooling").mkdir()
        _json(folder / "1_Pooling" / "config.json", pooling)


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
