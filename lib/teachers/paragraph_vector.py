"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), as gensim's Doc2Vec.

DM predicts a word from the vectors of the document and of the surrounding words, DBOW from the
document's vector alone.
"""

import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, train_document_dbow, train_document_dm
from nltk.stem.porter import PorterStemmer

from lib.texts import check_texts, split_words

# Labels as printed, such as `DM;1024;stem;2` (Section 4.5.1, Figure 4.5). The author's code takes
# "10%" as 5000 occurrences for 500,000 documents, which is 1%.
_LABEL = re.compile(r"(DM|DBOW);([1-9]\d*);(stem|lowercase|None);([1-9]\d*|10%)", re.ASCII)
_INFERRING = threading.Lock()  # a model has one random stream, which each call restarts
_stem = lru_cache(maxsize=1_000_000)(PorterStemmer().stem)  # most words of a corpus repeat


class Spec(NamedTuple):
    """The settings of one single model, read from its label."""

    architecture: str  # "DM" or "DBOW"
    size: int  # dimensions of its vectors, scaled by the profile's width
    preprocessing: str  # "stem" (lowercase, then Porter), "lowercase" or "None"
    min_count: int | None  # fewest occurrences of a word that counts; None: a share of documents


def parse(label: str, width: float = 1.0) -> Spec:
    """The settings in a label, with the size times `width`; `ValueError` for a malformed label."""
    match = _LABEL.fullmatch(label)
    if match is None:
        form = "DM or DBOW; vector size; stem, lowercase or None; a count or 10%"
        raise ValueError(f"Paragraph Vector '{label}' is not of the form {form}")
    architecture, size, preprocessing, count = match.groups()
    least = None if count == "10%" else int(count)
    return Spec(architecture, max(1, round(int(size) * width)), preprocessing, least)


def prepare_words(text: str, preprocessing: str) -> list[str]:
    """Split a text into words; lowercase or stem them as asked."""
    words = split_words(text)
    words = words if preprocessing == "None" else [word.lower() for word in words]
    return [_stem(word) for word in words] if preprocessing == "stem" else words


class StableDoc2Vec(Doc2Vec):
    """gensim's Doc2Vec, with inferred vectors that depend only on the document.

    In gensim, inference starts from a vector that depends on PYTHONHASHSEED, and all calls draw
    from one random stream. Here the start depends on a text's CRC-32, and calls restart the stream.
    """

    def infer_vector(self, doc_words: Sequence[str]) -> np.ndarray:
        """Infer the vector of a document, float32 (size,), with the model's epochs and rates."""
        draw = np.random.Generator(np.random.SFC64(zlib.crc32(" ".join(doc_words).encode())))
        size = self.dv.vector_size
        vectors = (draw.random((1, size)).astype(np.float32) - np.float32(0.5)) / size
        options = {"doctag_vectors": vectors, "doctags_lockf": np.ones(1, np.float32)}
        train = train_document_dbow if self.sg else train_document_dm
        # Buffers that outlive the call: gensim frees its own before it writes to them.
        buffers = ("work",) if self.sg else ("work", "neu1")
        options |= {name: np.zeros(size, np.float32) for name in buffers}
        with _INFERRING:
            self.random.seed(self.seed)
            for alpha in np.linspace(self.alpha, self.min_alpha, self.epochs):
                train(self, doc_words, [0], alpha, learn_words=False, learn_hidden=False, **options)
        return vectors[0]


class ParagraphVector:
    """One Paragraph Vector; `label` and `width` as in `parse`."""

    model: Doc2Vec  # once it is trained

    def __init__(self, label: str, width: float = 1.0):
        self.spec = parse(label, width)

    def train(
        self, texts: Iterable[str], *, min_count_share: float = 0.01, **settings: Any
    ) -> Self:
        """Train on texts, which are read once per epoch and two more times; return the model.

        `min_count_share` is what `10%` in a label means, at least 2. `settings` are gensim's.
        `ValueError` for items that are not texts, gensim's `RuntimeError` if all words are rare.
        """
        spec = self.spec
        texts = [*texts] if isinstance(texts, Iterator) else texts  # read several times
        documents = sum(1 for _ in check_texts(texts))
        self.model = StableDoc2Vec(
            _Corpus(texts, spec.preprocessing),
            dm=int(spec.architecture == "DM"),
            dm_mean=1,
            vector_size=spec.size,
            min_count=spec.min_count or max(2, int(min_count_share * documents + 0.5)),
            workers=1,  # with more, bits are not reproducible
            **settings,
        )
        # The vectors of the training documents may take as much memory as the corpus.
        self.model.dv.vectors = np.zeros((0, spec.size), np.float32)
        return self

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Infer vectors, float32 (texts, dim), each from its text alone; 0 without a known word."""
        texts = [*check_texts(texts)]
        vectors = np.zeros((len(texts), self.spec.size), np.float32)
        for row, text in enumerate(texts):
            words = prepare_words(text, self.spec.preprocessing)
            if any(word in self.model.wv for word in words):
                vectors[row] = self.model.infer_vector(words)
        return vectors


@dataclass
class _Corpus:
    """Texts in gensim's format, prepared again on each pass, so that a corpus can stay on disk."""

    texts: Iterable[str]
    preprocessing: str

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(prepare_words(text, self.preprocessing), [index])
