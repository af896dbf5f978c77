"""The chosen model as one object: it is saved as a folder, loads in two lines, embeds new texts.

The folder has encoder.json (which model, its words), arrays.safetensors (the mean of the dense
part, weights of words, directions of LSA), dense/ (a stock SentenceTransformer) and README.md.
"""

import json
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from sentence_transformers import SentenceTransformer

from lib import texts as forms
from lib.messages import quiet_transformers
from lib.student.encoder import Student, is_bf16
from lib.student.folders import render_card
from lib.teachers.rows import MOST, SIZE, centre_rows, cut_text, join_rows, mean_of_chunks
from lib.teachers.words import Lexical
from lib.vectors import BASE, BOTH, CUT, LSA, STUDENT

VERSION = 3
STRETCH = 90  # words and signs of a stretch: some 110 tokens of English


class Chunks(NamedTuple):
    """The stretches of a text."""

    spans: np.ndarray  # (stretches, 2) start and end of each: text[start:end] of the text as it is
    vectors: np.ndarray  # (stretches, dim)


@dataclass(frozen=True)
class Encoder:
    """Embeds texts as a model of the table did; made by `load`."""

    model: str  # one of `lib.vectors.SIMPLEST_FIRST`
    dense: Any  # a `Student` or a SentenceTransformer; None for LSA
    mean: np.ndarray | None  # (dim,) of the documents' dense vectors, each of norm 1
    lexical: Lexical | None

    def encode(self, texts: Iterable[str], *, precision: str = "fp32") -> np.ndarray:
        """Embed texts, (texts, dim) float32. One without a word that LSA knows gets zeros there and
        a warning with its place. `precision` is that of the dense part, "fp32" or "bf16".
        `ValueError` for another, and for an item that is not a text, with its place.
        """
        is_bf16(precision)  # LSA, which computes in float32, refuses what others refuse
        given = [*map(forms.normalize_text, forms.check_texts(texts))]
        parts, texts = [], given or ["no text"]
        if self.dense is not None:
            dense = self._embed(texts, precision)
            parts.append(dense if self.mean is None else centre_rows(dense, self.mean))
        if self.lexical is not None:
            rows = self.lexical.weigh(texts) @ self.lexical.directions
            if unknown := np.flatnonzero(~rows[: len(given)].any(axis=1)).tolist():
                told = f"{len(unknown)} texts have no word that LSA knows: zeros at {unknown[:5]}"
                warnings.warn(told, stacklevel=2)
            parts.append(centre_rows(rows, self.lexical.mean))
        return (join_rows(*parts) if self.model == BOTH else parts[0])[: len(given)]

    def encode_chunks(self, texts: Iterable[str]) -> list[Chunks]:
        """A vector for each stretch of 90 words and signs, for search inside long texts."""
        embedded = []
        for text in [*forms.check_texts(texts)]:
            starts = [start for start, _ in forms.find_terms(text, forms.UNITS)[::STRETCH]]
            starts[:1] = [0]
            ends = zip(starts, [*starts[1:], len(text)], strict=True)
            spans = np.array([(start, len(text[:end].rstrip())) for start, end in ends])
            embedded.append(Chunks(spans, self.encode(text[start:end] for start, end in spans)))
        return embedded

    def _embed(self, texts: list[str], precision: str) -> np.ndarray:
        read = [cut_text(text) for text in texts]
        if isinstance(self.dense, Student):
            return self.dense.encode(read, precision=precision)
        encode = partial(self.dense.encode, show_progress_bar=False)
        with torch.autocast(self.dense.device.type, torch.bfloat16, is_bf16(precision)):
            if self.model == CUT:
                return encode(read)
            return mean_of_chunks(self.dense.tokenizer, encode, texts)


def save(folder: Path, model: str, arrays: dict[str, Any], words: list[str], card: Any) -> None:
    """Write all but the dense part into a new folder. `card` fills README.md. `arrays` are
    `dense_mean` and those of a `Lexical` of the `words`, as far as the model has them.
    """
    folder.mkdir()
    facts = {"version": VERSION, "model": model, "words": words, "pattern": forms.TERMS.pattern}
    (folder / "encoder.json").write_text(json.dumps(facts), encoding="utf-8")
    # safetensors would write an array in Fortran's order as if it were in C's.
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(arrays, folder / "arrays.safetensors")
    values = {"model": model, "size": SIZE, "most": MOST, "stretch": STRETCH}
    text = render_card(Path(__file__).with_name("card.md.j2"), card=card, **values)
    (folder / "README.md").write_text(text, encoding="utf-8")


def load(folder: str | Path) -> Encoder:
    """Load the encoder from a folder that `python -m lib.embed` of this version wrote."""
    folder = Path(folder).expanduser()
    facts = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    if facts["version"] != VERSION:
        raise ValueError(f"{folder}: no encoder of version {VERSION}; make it with lib.embed")
    arrays = load_file(folder / "arrays.safetensors")
    model, words, dense = facts["model"], "\n".join(facts["words"]), None
    mean = arrays.pop("dense_mean", None)
    lexical = Lexical(words, **arrays) if words else None
    if model in (BASE, STUDENT, BOTH):
        dense = Student.load(folder / "dense")
    elif model != LSA:
        with quiet_transformers():
            dense = SentenceTransformer(str(folder / "dense"), trust_remote_code=False)
    return Encoder(model, dense, mean, lexical)
