"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), as gensim's Doc2Vec.

DM predicts a word from the vectors of the document and of the surrounding words, DBOW from the
document's vector alone. A compound concatenates the vectors of both.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any
from unittest import mock

import numpy as np
from gensim.models import doc2vec
from gensim.models.doc2vec import Doc2Vec, TaggedDocument
from gensim.models.keyedvectors import pseudorandom_weak_vector
from nltk.stem.porter import PorterStemmer

from lib.teachers import labels
from lib.teachers.labels import LONGEST, Spec
from lib.texts import check_texts, list_texts, split_words

# Those of Table 4.5 and of the author's code.
SETTINGS: dict[str, Any] = {"epochs": 10, "seed": 0, "workers": 1, "dbow_words": True}
SETTINGS |= {"window": 5, "negative": 5, "sample": 0.0, "alpha": 0.025, "min_alpha": 1e-4}
_INFERRING = threading.Lock()  # a model has one random stream, which each call restarts
_draw_start = partial(pseudorandom_weak_vector, hashfxn=lambda text: zlib.crc32(text.encode()))
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
        with _INFERRING, mock.patch.object(doc2vec, "pseudorandom_weak_vector", _draw_start):
            self.random.seed(self.seed)
            return super().infer_vector(doc_words)


@dataclass
class ParagraphVector:
    """One Paragraph Vector, single or compound, trained or not. Make it with `parse`."""

    label: str
    specs: tuple[Spec, ...]  # of each single model, in the order of their columns
    models: tuple[Doc2Vec, ...] = field(default=(), repr=False)
    seconds: float = 0.0  # processor time of the training of all models
    documents: int = 0  # that it was trained on
    truncated: int = 0  # those with more known words than gensim reads

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> ParagraphVector:
        """Make an untrained model from a label of the thesis, see `labels.parse`."""
        return cls(label, labels.parse(label, width))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    @property
    def vocabulary_size(self) -> int:
        """Number of known words; for a compound, the sum over both models."""
        return sum(len(model.wv) for model in self.models)

    def train(
        self, texts: Iterable[str], *, min_count_share: float = 0.01, **settings: Any
    ) -> ParagraphVector:
        """Train on texts, which are read once per epoch and three more times; return the model.

        `min_count_share` is what `10%` in a label means: the occurrences, at least 2, that a known
        word needs as a share of the documents. `settings` replace `SETTINGS`; with more than one of
        `workers`, bits are not reproducible. `ValueError` without texts, for something that is not
        a text, and if no word occurs often enough.
        """
        settings = SETTINGS | settings
        texts = list_texts(texts) if isinstance(texts, Iterator) else texts  # read several times
        self.documents = sum(1 for _ in check_texts(texts))
        models, started = list[Doc2Vec](), time.process_time()
        corpora = [_Corpus(texts, spec.preprocessing) for spec in self.specs]
        for spec, corpus in zip(self.specs, corpora, strict=True):
            least = spec.occurrences(self.documents, min_count_share)
            kind = {"dm": int(spec.architecture == "DM"), "dm_mean": 1, "vector_size": spec.size}
            model = StableDoc2Vec(**kind, min_count=least, **settings)
            model.build_vocab(corpus)
            if not len(model.wv):
                raise ValueError(f"'{self.label}': no word occurs {least} times in the documents")
            model.train(corpus, total_examples=self.documents, epochs=model.epochs)
            # The vectors of the training documents may take as much memory as the corpus.
            model.dv.vectors = np.zeros((0, spec.size), np.float32)
            models.append(model)
        self.models, self.seconds = tuple(models), time.process_time() - started
        self.truncated = max(
            sum(sum(word in model.wv for word in each.words) > LONGEST for each in corpus)
            for model, corpus in zip(models, corpora, strict=True)
        )
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
