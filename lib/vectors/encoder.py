"""The chosen model as one object: it is saved as a folder, loads in two lines, embeds new texts.

    encoder/encoder.json        version, model, weight
            arrays.safetensors  the mean that is subtracted, weights of words, directions of LSA
            words.json          the words, and the expression that finds them
            dense/              a stock SentenceTransformer
            README.md           how to use it, with and without this project

Of this project's packages, only sentence-transformers and jaxtyping are needed to load it.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy import sparse

from lib import texts as forms
from lib.config.console import one_line_errors, quiet_transformers
from lib.teachers import chunks
from lib.teachers.rows import centre_rows, join_rows, scale_rows
from lib.teachers.words import Lexical, WordCounts
from lib.texts import list_texts
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT

VERSION = 1
WHOLE = (BASE, STUDENT, BOTH)  # whose dense part reads a text in one pass
WORDS_IN_CHUNK = 90  # if there is no tokenizer: about 126 tokens of English
_FACTS, _ARRAYS, _WORDS = "encoder.json", "arrays.safetensors", "words.json"


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
    lexical: Lexical | None  # its columns are those of `words`
    words: list[str]  # that are counted
    weight: float | None = None  # of dense vectors next to TF-IDF, chosen by labels: `features`

    @property
    def dim(self) -> int:
        """Width of a vector."""
        return len(self.mean) + (len(self.lexical.mean) if self.model in (LSA, BOTH) else 0)

    def encode(self, texts: Iterable[str], *, precision: str = "fp32") -> np.ndarray:
        """Embed texts, (texts, dim) float32.

        `precision` is that of the dense part, "fp32" or "bf16". Raises `ValueError` for another
        one, and for an item that is not a text, with its place.
        """
        texts = list_texts(texts)
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        return self._combine(None if self.model == LSA else self._embed(texts, precision), texts)

    def encode_chunks(self, texts: Iterable[str]) -> list[Chunks]:
        """A vector for each stretch of about 126 tokens, for search inside long texts.

        If the dense part reads a text in one pass, the text is read once, as far as `encode` reads
        it. A stretch's vector is then the mean of its tokens' states, which depend on the whole
        text (late chunking, Günther et al. 2024). Other dense parts embed each of the first 500
        stretches separately.
        """
        return [self._encode_chunks(text) for text in list_texts(texts)]

    def features(self, texts: Iterable[str], *, precision: str = "fp32") -> sparse.csr_array:
        """[TF-IDF; weight x dense vectors], (texts, words + dim), for a linear classifier.

        Raises `ValueError` if the encoder was made without labels, which choose the weight.
        """
        if self.weight is None:
            raise ValueError("this encoder was made without labels, so it has no features")
        texts = list_texts(texts)
        if not texts:
            width = len(self.words) + (len(self.mean) if self.weight else 0)
            return sparse.csr_array((0, width), dtype=np.float32)
        words = self.lexical.weigh(self._counter.count(texts))
        if not self.weight:
            return words
        dense = centre_rows(self._embed(texts, precision), self.mean)
        return sparse.hstack([words, self.weight * dense], format="csr")

    def _combine(self, dense: np.ndarray | None, texts: list[str]) -> np.ndarray:
        """Vectors of texts, given those of the dense part."""
        if self.model in (BASE, STUDENT):
            return dense
        if self.model == CUT:
            return scale_rows(dense)
        if self.model == CHUNKS:
            return centre_rows(dense, self.mean)
        lexical = self.lexical.embed(self._counter.count(texts))
        if self.model == BOTH:
            return join_rows(centre_rows(dense, self.mean), lexical)
        if unknown := np.flatnonzero(~lexical.any(axis=1)).tolist():
            told = f"texts without a known word have vectors of zeros, the first at {unknown[:3]}"
            warnings.warn(f"{len(unknown)} {told}", stacklevel=3)
        return lexical

    def _encode_chunks(self, text: str) -> Chunks:
        if self.model == LSA:
            spans, dense = _split_words(text), None
        elif self.model in WHOLE:
            spans, dense = _embed_stretches(self._student, chunks.cut_text(text))
            spans += chunks.find_start(text)
        else:
            places = chunks.split_text(self._transformer.tokenizer, text)
            spans = np.array([place[:2] for place in places])
            dense = self._embed_short([text[start:end] for start, end in spans])
        return Chunks(spans, self._combine(dense, [text[start:end] for start, end in spans]))

    def _embed(self, texts: list[str], precision: str) -> np.ndarray:
        if precision not in ("fp32", "bf16"):
            raise ValueError(f'precision must be "fp32" or "bf16", got {precision!r}')
        if self.model in WHOLE:
            return self._student.encode(map(chunks.cut_text, texts), precision=precision)
        import torch

        device = self._transformer.device.type
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            if self.model == CUT:
                return self._embed_short([chunks.cut_text(text) for text in texts])
            return chunks.mean_of_chunks(self._transformer.tokenizer, self._embed_short, texts)

    def _embed_short(self, texts: list[str]) -> np.ndarray:
        return self._transformer.encode(texts, show_progress_bar=False)

    @functools.cached_property
    def _counter(self) -> WordCounts:
        return WordCounts.read([" ".join(self.words[:1])], self.words)

    @functools.cached_property
    def _student(self) -> Any:
        from lib.student import Student

        return Student.load(self.folder / "dense")

    @functools.cached_property
    def _transformer(self) -> Any:
        from sentence_transformers import SentenceTransformer

        with one_line_errors(f"read {self.folder / 'dense'}"), quiet_transformers():
            return SentenceTransformer(str(self.folder / "dense"), trust_remote_code=False)


def load(folder: str | Path) -> Encoder:
    """Load the encoder from a folder that `python -m lib.embed` wrote.

    Raises `ValueError`, in one line, if it is missing or has another version.
    """
    folder = Path(folder).expanduser()
    if not (folder / _FACTS).is_file():
        raise ValueError(f"{folder}: no encoder here; name the folder `encoder` inside an --out")
    facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
    if facts["version"] != VERSION:
        raise ValueError(
            f"{folder}: the encoder has version {facts['version']}, this project reads {VERSION}; "
            "make it again with python -m lib.embed"
        )
    arrays, words, lexical = load_file(folder / _ARRAYS), [], None
    if "idf" in arrays:
        words = json.loads((folder / _WORDS).read_text(encoding="utf-8"))["words"]
        fitted = (arrays["idf"], arrays["directions"], arrays["lexical_mean"])
        lexical = Lexical(np.arange(len(words)), *fitted)
    return Encoder(facts["model"], folder, arrays["mean"], lexical, words, facts["weight"])


def save_encoder(
    encoder: Encoder, write_dense: Callable[[Path], Any], card: Mapping[str, Any]
) -> None:
    """Write an encoder into its folder, which must not exist; `card` is what README.md says.

    `write_dense` writes the stock SentenceTransformer into a folder.
    """
    from lib.student.checkpoint import render_card

    folder = encoder.folder
    folder.mkdir(parents=True)
    facts = {"version": VERSION, "model": encoder.model, "weight": encoder.weight}
    (folder / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
    arrays, lexical = {"mean": encoder.mean}, encoder.lexical
    if lexical is not None:
        arrays |= {"idf": lexical.idf, "directions": lexical.directions}
        arrays |= {"lexical_mean": lexical.mean}
        values = {"pattern": forms.TERMS.pattern, "words": encoder.words}
        (folder / _WORDS).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, folder / _ARRAYS)
    if encoder.model != LSA:
        write_dense(folder / "dense")
    values = {"card": card, "encoder": encoder, "size": chunks.SIZE, "most": chunks.MOST}
    text = render_card(Path(__file__).with_name("card.md.j2"), **values)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _embed_stretches(student: Any, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Spans of a text's stretches, and the means of their tokens' states, from one pass."""
    import torch

    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    read = student.tokenizer(text, truncation=True, max_length=student.max_positions, **options)
    packed = student.pack([read["input_ids"]])
    with torch.inference_mode():
        states = student.token_states(packed).float().cpu().numpy()
    tokens = np.flatnonzero(np.array(read["special_tokens_mask"]) == 0)
    parts = [tokens[start : start + chunks.SIZE] for start in range(0, len(tokens), chunks.SIZE)]
    offsets = np.array(read["offset_mapping"])
    spans = np.array([[offsets[part[0], 0], offsets[part[-1], 1]] for part in parts])
    return spans, np.stack([states[part].mean(axis=0) for part in parts])


def _split_words(text: str) -> np.ndarray:
    """(stretches, 2) start and end of runs of `WORDS_IN_CHUNK` words, in characters."""
    places = [match.span() for match in forms.TERMS.finditer(text)] or [(0, len(text))]
    starts, ends = np.array(places).T
    last = np.append(ends[WORDS_IN_CHUNK - 1 : -1 : WORDS_IN_CHUNK], ends[-1])
    return np.column_stack([starts[::WORDS_IN_CHUNK], last])
