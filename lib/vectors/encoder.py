"""The chosen model as one object: it is saved as a folder, loads in two lines, embeds new texts.

    encoder/encoder.json        version, model, checksums of the other files except README.md
            arrays.safetensors  the mean that is subtracted, weights of words, directions of LSA
            words.json          the words, and the expression that finds them
            dense/              a stock SentenceTransformer
            README.md           how to use it, with and without this project

Of this project's packages, only sentence-transformers and jaxtyping are needed to load it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from scipy import sparse

from lib import texts as forms
from lib.config.loading import one_line_errors, quiet_transformers
from lib.evaluation.joined import join_rows
from lib.store.sealed import list_changed, read_facts, sum_values, write_seal
from lib.texts import list_texts
from lib.vectors import chunks
from lib.vectors.lexical import Lexical, WordCounts, centre_rows, scale_rows
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT

VERSION = 1
WHOLE = (BASE, STUDENT, BOTH)  # whose dense part reads a text in one pass
WORDS_IN_CHUNK = 90  # if there is no tokenizer: about 126 tokens of English
TOLERANCE = 0.01  # by which the cosine of two precisions' vectors of one text may be below 1
_FACTS, _ARRAYS, _WORDS = "encoder.json", "arrays.safetensors", "words.json"


class Chunks(NamedTuple):
    """The stretches of a text: (stretches, 2) `spans` and (stretches, dim) `vectors`.

    A row `start, end` of `spans` stands for the stretch `text[start:end]`.
    """

    spans: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class Encoder:
    """Embeds texts as a model of the table did; made by `load`.

    Attributes
    ----------
    model : str
        One of `names.SIMPLEST_FIRST`.
    folder : Path
    mean : (dim,) float32
        The mean of the documents' dense vectors, each of norm 1; empty without a dense part.
    lexical : Lexical or None
    words : list of str
        The words that the lexical part counts.
    weight : float or None
        The weight of dense vectors next to TF-IDF, chosen by labels; see `features`.
    """

    model: str
    folder: Path
    mean: np.ndarray
    lexical: Lexical | None
    words: list[str]
    weight: float | None = None

    @property
    def dim(self) -> int:
        """Width of a vector."""
        lexical = self.lexical if self.model in (LSA, BOTH) else None
        return len(self.mean) + (0 if lexical is None else len(lexical.mean))

    def encode(self, texts: Iterable[str], *, precision: str = "fp32") -> np.ndarray:
        """Embed texts, (texts, dim) float32.

        `precision` is that of the dense part, if there is one: "fp32" or "bf16".

        Raises
        ------
        ValueError
            If an item is not a text, with its place, or if the precision is unknown.
        """
        texts = list_texts(texts)
        if not texts:
            return np.zeros((0, self.dim), dtype=np.float32)
        dense = None if self.model == LSA else self._embed(texts, precision)
        return self._combine(dense, texts)

    def encode_chunks(self, texts: Iterable[str]) -> list[Chunks]:
        """A vector for each stretch of about 126 tokens, for search inside long texts.

        If the dense part reads a text in one pass, the text is read once, as far as `encode` reads
        it. A stretch's vector is then the mean of its tokens' states, which depend on the whole
        text (late chunking, Günther et al. 2024). Other dense parts embed each of the first 500
        stretches separately.
        """
        return [self._encode_chunks(text) for text in list_texts(texts)]

    def features(self, texts: Iterable[str], *, precision: str = "fp32") -> sparse.csr_matrix:
        """[TF-IDF; weight x dense vectors], (texts, words + dim), for a linear classifier.

        Raises
        ------
        ValueError
            If the encoder was made without labels, which choose the weight.
        """
        if self.weight is None or self.lexical is None:
            raise ValueError(
                "this encoder was made without labels, so it has no features; "
                "make it again from labelled texts"
            )
        texts = list_texts(texts)
        if not texts:
            width = len(self.lexical.idf) + (len(self.mean) if self.weight else 0)
            return sparse.csr_matrix((0, width), dtype=np.float32)
        words = self.lexical.weigh_words(self._counter.count(texts))
        if not self.weight:
            return sparse.csr_matrix(words)
        dense = centre_rows(self._embed(texts, precision), self.mean)
        return sparse.hstack([words, self.weight * dense], format="csr")

    def _combine(self, dense: np.ndarray | None, texts: list[str]) -> np.ndarray:
        """Vectors of texts, given those of the dense part."""
        counts = self._counter.count(texts) if self.model in (LSA, BOTH) else None
        return combine_parts(self.model, dense, self.mean, self.lexical, counts)

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
        stretches = [text[start:end] for start, end in spans]
        return Chunks(spans, self._combine(dense, stretches))

    def _embed(self, texts: list[str], precision: str) -> np.ndarray:
        if self.model in WHOLE:
            return self._student.encode(map(chunks.cut_text, texts), precision=precision)
        if precision not in ("fp32", "bf16"):
            raise ValueError(f'precision must be "fp32" or "bf16", got {precision!r}')
        encode, device = self._embed_short, self._transformer.device.type
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            if self.model == CUT:
                return encode([chunks.cut_text(text) for text in texts])
            return chunks.average_chunks(self._transformer.tokenizer, encode, texts)

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


def combine_parts(
    model: str,
    dense: np.ndarray | None,
    mean: np.ndarray,
    lexical: Lexical | None,
    counts: sparse.csr_matrix | None,
) -> np.ndarray:
    """A model's vectors, (texts, dim) float32, from the outputs of its parts.

    Parameters
    ----------
    model : str
    dense : (texts, dim) or None
        Vectors from its dense part.
    mean : (dim,)
        The mean of such vectors, each of norm 1.
    lexical : Lexical or None
    counts : (texts, words) or None
        Counts of the words of `lexical`.

    Raises
    ------
    ValueError
        If the model needs a lexical part that is missing.
    """
    if model in (BASE, STUDENT) and dense is not None:
        return np.asarray(dense, dtype=np.float32)
    if model == CUT and dense is not None:
        return scale_rows(np.asarray(dense, dtype=np.float32))
    if model == CHUNKS and dense is not None:
        return centre_rows(np.asarray(dense, dtype=np.float32), mean)
    if lexical is None or counts is None:
        raise ValueError(f"{model!r} needs a lexical part")
    if dense is None:
        return lexical.embed(counts)
    centred = centre_rows(np.asarray(dense, dtype=np.float32), mean)
    return join_rows(centred, lexical.embed(counts))


def load(folder: str | Path) -> Encoder:
    """Load the encoder from a folder that `python -m lib.embed` wrote.

    Raises
    ------
    ValueError
        In one line, if it is missing, has another version, or was changed.
    """
    folder = Path(folder).expanduser()
    facts = read_facts(folder / _FACTS)
    if facts is None or "model" not in facts:
        raise ValueError(f"{folder}: no encoder here; name the folder `encoder` inside an --out")
    if facts.get("version") != VERSION:
        told = f"the encoder has version {facts.get('version')}, this project reads {VERSION}"
        raise ValueError(f"{folder}: {told}; make it again with python -m lib.embed")
    if changed := list_changed(folder / _FACTS):
        raise ValueError(f"{folder}: damaged or changed: {changed[0]}; make it again")
    arrays = load_file(folder / _ARRAYS)
    words, lexical = [], None
    if "idf" in arrays:
        words = json.loads((folder / _WORDS).read_bytes())["words"]
        directions, mean = arrays["directions"], arrays["lexical_mean"]
        lexical = Lexical(np.arange(len(words)), arrays["idf"], directions, mean)
    return Encoder(facts["model"], folder, arrays["mean"], lexical, words, facts["weight"])


def save_encoder(
    folder: Path, encoder: Encoder, write_dense: Callable[[Path], Any], card: Mapping[str, Any]
) -> None:
    """Write an encoder into a new folder.

    Parameters
    ----------
    folder : Path
    encoder : Encoder
        Its words are those of the columns of its lexical part.
    write_dense : callable
        Writes the stock SentenceTransformer into the folder that it is given.
    card : mapping
        The content of README.md: `title`, `documents`, `longest` (how many tokens of a text the
        dense part reads), `verdict`, `scores` (rows), `provenance`.
    """
    folder.mkdir(parents=True)
    arrays = {"mean": encoder.mean}
    if encoder.lexical is not None:
        lexical = encoder.lexical
        arrays |= {"idf": lexical.idf, "directions": lexical.directions}
        arrays |= {"lexical_mean": lexical.mean}
        # It stays private: a new name would count as changed code of everything that was trained.
        values = {"pattern": forms._TERMS.pattern, "words": encoder.words}
        (folder / _WORDS).write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    save_file({name: np.ascontiguousarray(a) for name, a in arrays.items()}, folder / _ARRAYS)
    if encoder.model != LSA:
        write_dense(folder / "dense")
    # People may edit the README, so it has no checksum.
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix != ".md"]
    (folder / "README.md").write_text(_render_card(encoder, card), encoding="utf-8")
    facts = {"version": VERSION, "model": encoder.model, "weight": encoder.weight}
    write_seal(folder / _FACTS, files, json=sum_values(folder, files), **facts)


def check_saved(
    folder: Path,
    encoder: Encoder,
    texts: Sequence[str],
    dense: np.ndarray | None,
    counts: sparse.csr_matrix | None,
) -> None:
    """Load a saved encoder, and check that it gives the vectors that it should.

    Parameters
    ----------
    folder : Path
    encoder : Encoder
    texts : sequence of str
        A few short texts.
    dense : (texts, dim) or None
        Their vectors from the dense part, before anything is subtracted.
    counts : (texts, words) or None
        Counts of the words that the lexical part was fitted to; None without one.

    Raises
    ------
    ValueError
        In one line, if the loaded encoder embeds these texts differently.
    """
    read = load(folder)
    if dense is not None:
        again = scale_rows(read._embed(list(texts), "fp32"))
        if not (again * scale_rows(dense)).sum(axis=1).min() > 1 - TOLERANCE:
            raise ValueError(f"{folder}: the saved dense part gives different vectors")
    if encoder.lexical is not None and read.lexical is not None:
        again = read.lexical.embed(read._counter.count(texts))
        if not np.allclose(again, encoder.lexical.embed(counts), atol=1e-4):
            raise ValueError(f"{folder}: the saved lexical part gives different vectors")


def _render_card(encoder: Encoder, card: Mapping[str, Any]) -> str:
    template = jinja2.Template(
        Path(__file__).with_name("card.md.j2").read_text(encoding="utf-8"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return template.render(card=card, encoder=encoder, size=chunks.SIZE, most=chunks.MOST) + "\n"


def _embed_stretches(student: Any, text: str) -> tuple[np.ndarray, np.ndarray]:
    """Spans of a text's stretches, and the means of their tokens' states, from one pass."""
    from lib.student.packing import pack

    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    read = student.tokenizer(text, truncation=True, max_length=student.max_positions, **options)
    packed = pack(
        [read["input_ids"]], student.config.vocab_size, student.padding, student.max_positions
    )
    with torch.inference_mode():
        states = student.token_states(packed).float().cpu().numpy()
    tokens = np.flatnonzero(np.array(read["special_tokens_mask"]) == 0)
    parts = [tokens[start : start + chunks.SIZE] for start in range(0, len(tokens), chunks.SIZE)]
    offsets = np.array(read["offset_mapping"])
    spans = np.array([[offsets[part[0], 0], offsets[part[-1], 1]] for part in parts])
    return spans, np.stack([states[part].mean(axis=0) for part in parts])


def _split_words(text: str) -> np.ndarray:
    """(stretches, 2) start and end of runs of `WORDS_IN_CHUNK` words, in characters."""
    places, end = [], 0
    for word in forms.split_words(text):
        start = text.index(word, end)
        end = start + len(word)
        places.append((start, end))
    runs = [places[row : row + WORDS_IN_CHUNK] for row in range(0, len(places), WORDS_IN_CHUNK)]
    return np.array([[run[0][0], run[-1][1]] for run in runs])
