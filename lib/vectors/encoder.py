"""The chosen model as one object: it is saved as a folder, loads in two lines, embeds new texts.

encoder/encoder.json        version, model, words, and the expression that finds words
        arrays.safetensors  the mean of the dense part, weights of words, directions of LSA
        dense/              a stock SentenceTransformer
        README.md           how to use it, with and without this project
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from lib import texts as forms
from lib.config.console import quiet_transformers
from lib.teachers import chunks
from lib.teachers.rows import centre_rows, join_rows
from lib.teachers.words import Lexical, WordCounts
from lib.vectors import BASE, BOTH, CUT, LSA, STUDENT

VERSION = 2
STRETCH = 90  # words of a stretch: about 126 tokens of English, as all-MiniLM was trained on


class Chunks(NamedTuple):
    """The stretches of a text."""

    spans: np.ndarray  # (stretches, 2) start and end of each: text[start:end]
    vectors: np.ndarray  # (stretches, dim)


@dataclass(frozen=True)
class Encoder:
    """Embeds texts as a model of the table did; made by `load`."""

    model: str  # one of `lib.vectors.SIMPLEST_FIRST`
    folder: Path
    mean: np.ndarray | None = None  # (dim,) of the documents' dense vectors, each of norm 1
    lexical: Lexical | None = None  # its columns are those of `words`
    words: tuple[str, ...] = ()  # that are counted

    def encode(self, texts: Iterable[str], *, precision: str = "fp32") -> np.ndarray:
        """Embed texts, (texts, dim) float32; a text without a word that LSA knows gets zeros there.

        `precision` is that of the dense part, "fp32" or "bf16". Raises `ValueError` for an item
        that is not a text, with its place.
        """
        texts = forms.list_texts(texts)
        if not texts:
            return self.encode(["no text"])[:0]
        lexical = self.lexical and self.lexical.embed(self._counter.count(texts))
        if self.model == LSA:
            return lexical
        dense = self._embed(texts, precision)
        if self.mean is not None:
            dense = centre_rows(dense, self.mean)
        return join_rows(dense, lexical) if self.model == BOTH else dense

    def encode_chunks(self, texts: Iterable[str]) -> list[Chunks]:
        """A vector for each stretch of 90 words, for search inside long texts."""
        embedded = []
        for text in forms.list_texts(texts):
            words = [match.span() for match in forms.TERMS.finditer(text)] or [(0, len(text))]
            parts = [words[start : start + STRETCH] for start in range(0, len(words), STRETCH)]
            spans = np.array([(part[0][0], part[-1][1]) for part in parts])
            embedded.append(Chunks(spans, self.encode(text[start:end] for start, end in spans)))
        return embedded

    def _embed(self, texts: list[str], precision: str) -> np.ndarray:
        read = [chunks.cut_text(text) for text in texts]
        if self.model in (BASE, STUDENT, BOTH):
            return self._dense.encode(read, precision=precision)
        import torch

        encode = functools.partial(self._dense.encode, show_progress_bar=False)
        with torch.autocast(self._dense.device.type, torch.bfloat16, enabled=precision == "bf16"):
            if self.model == CUT:
                return encode(read)
            return chunks.mean_of_chunks(self._dense.tokenizer, encode, texts)

    @functools.cached_property
    def _counter(self) -> WordCounts:
        return WordCounts.read([" ".join(self.words[:1])], self.words)

    @functools.cached_property
    def _dense(self) -> Any:
        if self.model in (BASE, STUDENT, BOTH):
            from lib.student import Student

            return Student.load(self.folder / "dense")
        from sentence_transformers import SentenceTransformer

        with quiet_transformers():
            return SentenceTransformer(str(self.folder / "dense"), trust_remote_code=False)

    def save(self, folder: Path, card: Mapping[str, Any]) -> None:
        """Write all but the dense part into a new folder; `card` is what README.md says."""
        from lib.student.checkpoint import render_card

        folder.mkdir()
        facts = {"version": VERSION, "model": self.model, "words": self.words}
        facts["pattern"] = forms.TERMS.pattern
        (folder / "encoder.json").write_text(json.dumps(facts), encoding="utf-8")
        arrays = {} if self.mean is None else {"dense_mean": self.mean}
        arrays |= vars(self.lexical) if self.lexical else {}
        packed = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        save_file(packed, folder / "arrays.safetensors")
        sizes = {"size": chunks.SIZE, "most": chunks.MOST, "stretch": STRETCH}
        template = Path(__file__).with_name("card.md.j2")
        text = render_card(template, card=card, encoder=self, **sizes)
        (folder / "README.md").write_text(text, encoding="utf-8")


def load(folder: str | Path) -> Encoder:
    """Load the encoder from a folder that `python -m lib.embed` wrote; else `ValueError`."""
    folder = Path(folder).expanduser()
    path = folder / "encoder.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if facts.get("version") != VERSION:
        found = f"found {facts.get('version')}; make it again with lib.embed"
        raise ValueError(f"{folder}: expected an encoder of version {VERSION}, {found}")
    arrays = load_file(folder / "arrays.safetensors")
    mean = arrays.pop("dense_mean", None)
    lexical = Lexical(**arrays) if arrays else None
    return Encoder(facts["model"], folder, mean, lexical, tuple(facts["words"]))
