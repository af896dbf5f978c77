"""The chosen model as one object: it is saved as a folder, loads in two lines, embeds new texts.

    encoder/encoder.json        version, model, words, and the expression that finds words
            arrays.safetensors  the mean of the dense part, weights of words, directions of LSA
            dense/              a stock SentenceTransformer
            README.md           how to use it, with and without this project

Of this project's packages, only sentence-transformers and jaxtyping are needed to load it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from lib import texts as forms
from lib.config.environment import quiet_transformers
from lib.teachers import chunks
from lib.teachers.rows import centre_rows, join_rows
from lib.teachers.words import Lexical, WordCounts
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT

VERSION = 2
STRETCH = 90  # words of a stretch: about 126 tokens of English, as all-MiniLM was trained on


class Chunks(NamedTuple):
    """The stretches of a text."""

    spans: np.ndarray  # (stretches, 2) start and end of each: text[start:end]
    vectors: np.ndarray  # (stretches, dim)


@dataclass(frozen=True)
class Encoder:
    """Embeds texts as a model of the table did; made by `load`."""

    model: str  # one of `names.SIMPLEST_FIRST`
    folder: Path
    mean: np.ndarray  # (dim,) of the documents' dense vectors, each of norm 1; else empty
    lexical: Lexical | None = None  # its columns are those of `words`
    words: tuple[str, ...] = ()  # that are counted

    def encode(self, texts: Iterable[str], *, precision: str = "fp32") -> np.ndarray:
        """Embed texts, (texts, dim) float32; a text without a word that LSA knows gets zeros there.

        `precision` is that of the dense part, "fp32" or "bf16". Raises `ValueError` for an item
        that is not a text, with its place.
        """
        texts = forms.list_texts(texts)
        if not texts:
            width = len(self.mean) + (len(self.lexical.mean) if self.lexical else 0)
            return np.zeros((0, width), np.float32)
        lexical = self.lexical and self.lexical.embed(self._counter.count(texts))
        if self.model == LSA:
            return lexical
        dense = self._embed(texts, precision)
        centred = centre_rows(dense, self.mean) if self.model in (CHUNKS, BOTH) else dense
        return join_rows(centred, lexical) if self.model == BOTH else centred

    def encode_chunks(self, texts: Iterable[str]) -> list[Chunks]:
        """A vector for each stretch of 90 words, for search inside long texts."""
        texts = forms.list_texts(texts)
        places = zip(texts, map(_split_words, texts), strict=True)
        return [Chunks(spans, self.encode(text[a:b] for a, b in spans)) for text, spans in places]

    def _embed(self, texts: list[str], precision: str) -> np.ndarray:
        if self.model in (BASE, STUDENT, BOTH):
            return self._dense.encode(map(chunks.cut_text, texts), precision=precision)
        import torch

        encode = functools.partial(self._dense.encode, show_progress_bar=False)
        with torch.autocast(self._dense.device.type, torch.bfloat16, enabled=precision == "bf16"):
            if self.model == CUT:
                return encode([chunks.cut_text(text) for text in texts])
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


def load(folder: str | Path) -> Encoder:
    """Load the encoder from a folder that `python -m lib.embed` wrote.

    Raises `ValueError` if it has another version.
    """
    folder = Path(folder).expanduser()
    facts = json.loads((folder / "encoder.json").read_text(encoding="utf-8"))
    if facts["version"] != VERSION:
        raise ValueError(f"{folder}: version {facts['version']}; make it again with lib.embed")
    arrays = load_file(folder / "arrays.safetensors")
    mean = arrays.pop("dense_mean")
    lexical = Lexical(**arrays) if arrays else None
    return Encoder(facts["model"], folder, mean, lexical, tuple(facts["words"]))


def save_encoder(
    encoder: Encoder, write_dense: Callable[[Path], Any], card: Mapping[str, Any]
) -> None:
    """Write an encoder into its folder, which must not exist; `card` is what README.md says.

    `write_dense` writes the stock SentenceTransformer into a folder.
    """
    from lib.student.checkpoint import render_card

    folder, arrays = encoder.folder, {"dense_mean": encoder.mean}
    arrays |= vars(encoder.lexical) if encoder.lexical else {}
    facts = {"version": VERSION, "model": encoder.model}
    facts |= {"pattern": forms.TERMS.pattern, "words": encoder.words}
    folder.mkdir(parents=True)
    (folder / "encoder.json").write_text(json.dumps(facts), encoding="utf-8")
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    save_file(arrays, folder / "arrays.safetensors")
    if encoder.model != LSA:
        write_dense(folder / "dense")
    sizes = {"size": chunks.SIZE, "most": chunks.MOST, "stretch": STRETCH}
    text = render_card(Path(__file__).with_name("card.md.j2"), card=card, encoder=encoder, **sizes)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _split_words(text: str) -> np.ndarray:
    """(stretches, 2) start and end of runs of `STRETCH` words, in characters."""
    places = [match.span() for match in forms.TERMS.finditer(text)] or [(0, len(text))]
    starts, ends = np.array(places).T
    last = np.append(ends[STRETCH - 1 : -1 : STRETCH], ends[-1])
    return np.column_stack([starts[::STRETCH], last])
