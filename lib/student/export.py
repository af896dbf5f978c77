"""Write a student as a stock Hugging Face Longformer, and as a stock SentenceTransformer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
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
SECTIONS = (
    "base_model teachers losses data training scores verdict provenance limits license".split()
)  # of a card


def save(
    student: Student, folder: str | Path, *, sentence_transformer: bool, card: Mapping | None = None
) -> None:
    """Write config, weights, tokenizer and, for an export, its card beside `folder`, then put them in its place.

    card: what README.md says beyond what the student itself tells: a `title` and any of `SECTIONS`. A value is a
    text, a list of texts or a mapping from names to values; `scores` may be a list of rows, mappings from columns to
    values. `base_model` as owner/name and `license` as an SPDX identifier become the hub's metadata too.
    Raises ValueError for an export without a tokenizer, an unknown key of `card`, a folder not ours, a full disk.
    """
    keys = ["title", *SECTIONS]
    values = dict.fromkeys(keys) | dict(card or {})
    if unknown := sorted(values.keys() - keys):
        raise ValueError(f"a model card has no {unknown[0]!r}; expected any of {', '.join(keys)}")
    if sentence_transformer and student.tokenizer is None:
        raise ValueError(
            "a SentenceTransformer needs a tokenizer and this student has none; set student.tokenizer"
        )

    def write(new: Path) -> None:
        with one_line(f"write {folder}"):
            _write(student, new, sentence_transformer, name=Path(folder).name, card=values)

    owned_folder.replace(folder, write)


def _write(student: Student, folder: Path, sentence_transformer: bool, **told: Any) -> None:
    config = student.config.to_dict() | {"architectures": ["LongformerModel"], "dtype": "float32"}
    config.pop("_name_or_path", None)
    _json(folder / "config.json", config)
    save_file(of_stock_longformer(student), folder / "model.safetensors", metadata={"format": "pt"})
    if student.tokenizer is not None:
        stored = student.tokenizer.backend_tokenizer
        stored.no_padding()  # a base such as MiniLM pads and cuts to 128 tokens
        stored.enable_truncation(student.max_positions)
        student.tokenizer.model_max_length = student.max_positions
        student.tokenizer.init_kwargs.pop("max_length", None)
        student.tokenizer.save_pretrained(folder)
    if sentence_transformer:  # mean over all tokens, special ones included, and no Normalize
        _json(folder / "modules.json", MODULES)
        _json(
            folder / "sentence_bert_config.json",
            {"max_seq_length": student.max_positions, "do_lower_case": False},
        )
        pooling = {"word_embedding_dimension": student.dim, "pooling_mode_mean_tokens": True}
        (folder / "1_Pooling").mkdir()
        _json(folder / "1_Pooling" / "config.json", pooling)
        source = Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8")
        template = jinja2.Template(
            source, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        parameters = sum(parameter.numel() for parameter in student.parameters())
        text = (
            template.render(student=student, sections=SECTIONS, parameters=parameters, **told)
            + "\n"
        )
        (folder / "README.md").write_text(text, encoding="utf-8")


def _json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
