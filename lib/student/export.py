"""Write a student as a stock Hugging Face Longformer, and as a stock SentenceTransformer."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from safetensors.torch import save_file

# Module paths that sentence-transformers has understood since version 2.
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]


def save(student, folder: str | Path, *, sentence_transformer: bool) -> None:
    """Write config, weights and tokenizer beside `folder`, then put them in its place."""
    if sentence_transformer and student.tokenizer is None:
        raise ValueError("a SentenceTransformer needs a tokenizer and this student has none; set student.tokenizer")
    folder = Path(folder)
    if folder.exists() and not (folder / "config.json").is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is no checkpoint; choose another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _write(student, new)
        if sentence_transformer:
            _write_modules(student, new)
        new.chmod(0o755)  # mkdtemp makes it private
        _replace(folder, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def tensors(student) -> dict:
    """All weights a stock LongformerModel has, on the CPU.

    The student has no global attention. What its checkpoint held for it is written back, else the local projections are
    copied, which is how Longformer initialised them. A missing pooler becomes zeros; nothing here reads it.
    """
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in student.state_dict().items()}
    for name in list(weights):
        for part in ("query", "key", "value"):
            if f".self.{part}." in name:
                copy = name.replace(f".self.{part}.", f".self.{part}_global.")
                weights[copy] = student.unused.get(copy, weights[name]).clone()
    sample = weights["embeddings.LayerNorm.weight"]
    for name, shape in {"weight": (student.dim, student.dim), "bias": (student.dim,)}.items():
        weights[f"pooler.dense.{name}"] = student.unused.get(f"pooler.dense.{name}", sample.new_zeros(shape))
    return weights


def _write(student, folder: Path) -> None:
    config = student.config.to_dict()
    config.pop("_name_or_path", None)
    config.update(architectures=["LongformerModel"], dtype="float32")
    _json(folder / "config.json", config)
    save_file(tensors(student), folder / "model.safetensors", metadata={"format": "pt"})
    if student.tokenizer is not None:
        student.tokenizer.save_pretrained(folder)


def _write_modules(student, folder: Path) -> None:
    """Mean over all tokens, special ones included, and no Normalize: the embedding as the student gives it."""
    _json(folder / "modules.json", MODULES)
    _json(folder / "sentence_bert_config.json", {"max_seq_length": student.max_positions, "do_lower_case": False})
    _json(folder / "config_sentence_transformers.json", {"prompts": {}, "default_prompt_name": None})
    pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    _json(folder / "1_Pooling" / "config.json", pooling)


def _replace(folder: Path, new: Path) -> None:
    """Two renames: at any moment either the old or the new checkpoint is complete on disk."""
    if not folder.exists():
        os.rename(new, folder)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent)) / folder.name
    os.rename(folder, old)
    os.rename(new, folder)
    shutil.rmtree(old.parent)


def _json(path: Path, content) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
