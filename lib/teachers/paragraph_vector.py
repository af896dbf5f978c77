"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), as gensim's Doc2Vec.

DM predicts a word from the vectors of the document and of the surrounding words, DBOW from the
document's vector alone. A compound concatenates the vectors of both.
"""

import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

import numpy as np
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, train_document_dbow, train_document_dm
from nltk.stem.porter import PorterStemmer

from lib.teachers import labels
from lib.texts import check_texts, list_texts, split_words

# Those of Table 4.5 and of the author's code that are not gensim's defaults.
SETTINGS: dict[str, Any] = {"dbow_words": True, "sample": 0.0, "seed": 0, "workers": 1}
_INFERRING = threading.Lock()  # a model has one random stream, which each call restarts
_stem = lru_cache(maxsize=1_000_000)(PorterStemmer().stem)  # most words of a corpus repeat


def prepare_words(text: str, preprocessing: str) -> list[str]:
    """Split a text into words; lowercase or stem them as asked."""
    words = split_words(text if preprocessing == "None" else text.lower())
    return [_stem(word) for word in words] if preprocessing == "stem" else words


class StableDoc2Vec(Doc2Vec):
    """gensim's Doc2Vec, with inferred vectors that depend only on the document.

    In gensim, inference starts from a vector that depends on PYTHONHASHSEED, and all calls draw
    from one random stream. Here the start depends on the document's CRC-32, and calls restart it.
    """

    def infer_vector(self, doc_words: Sequence[str]) -> np.ndarray:
        """Infer the vector of a document, float32 (size,), with the model's epochs and rates."""
        draw = np.random.Generator(np.random.SFC64(zlib.crc32(" ".join(doc_words).encode())))
        size = self.dv.vector_size
        vectors = (draw.random((1, size)).astype(np.float32) - np.float32(0.5)) / size
        options = {"doctag_vectors": vectors, "doctags_lockf": np.ones(1, np.float32)}
        train = train_document_dbow if self.sg else train_document_dm
        with _INFERRING:
            self.random.seed(self.seed)
            for alpha in np.linspace(self.alpha, self.min_alpha, self.epochs):
                train(self, doc_words, [0], alpha, learn_words=False, learn_hidden=False, **options)
        return vectors[0]


@dataclass
class ParagraphVector:
    """One Paragraph Vector, single or compound, trained or not. Make it with `parse`."""

    specs: tuple[labels.Spec, ...]  # of each single model, in the order of their columns
    models: list[Doc2Vec] = field(default_factory=list, repr=False)

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> Self:
        """Make an untrained model from a label of the thesis, see `labels.parse`."""
        return cls(labels.parse(label, width))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    def train(
        self, texts: Iterable[str], *, min_count_share: float = 0.01, **settings: Any
    ) -> Self:
        """Train on texts, which are read once per epoch and two more times; return the model.

        `min_count_share` is what `10%` in a label means, at least 2. `settings` are gensim's; with
        more than one of `workers`, bits are not reproducible. `ValueError` for what is no text, and
        gensim's `RuntimeError` if no word occurs often enough.
        """
        texts = list_texts(texts) if isinstance(texts, Iterator) else texts  # read several times
        documents = sum(1 for _ in check_texts(texts))
        self.models = []
        for spec in self.specs:
            kind = {"dm": int(spec.architecture == "DM"), "dm_mean": 1, "vector_size": spec.size}
            kind["min_count"] = spec.min_count or max(2, int(min_count_share * documents + 0.5))
            corpus = _Corpus(texts, spec.preprocessing)
            self.models.append(StableDoc2Vec(corpus, **kind, **SETTINGS | settings))
            # The vectors of the training documents may take as much memory as the corpus.
            self.models[-1].dv.vectors = np.zeros((0, spec.size), np.float32)
        return self

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Infer vectors, float32 (texts, dim), each from its text alone; 0 without a known word."""
        texts, parts = list_texts(texts), []
        for spec, model in zip(self.specs, self.models, strict=True):
            parts.append(np.zeros((len(texts), spec.size), np.float32))
            for row, text in enumerate(texts):
                words = prepare_words(text, spec.preprocessing)
                if any(word in model.wv for word in words):
                    parts[-1][row] = model.infer_vector(words)
        return np.hstack(parts)


@dataclass
class _Corpus:
    """Texts in gensim's format, prepared again on each pass, so that a corpus can stay on disk."""

    texts: Iterable[str]
    preprocessing: str

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(prepare_words(text, self.preprocessing), [index])
