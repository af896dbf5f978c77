"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), gensim's Doc2Vec.

DM predicts a word from the document's vector and those of the words around it, DBOW from the
document's alone. A compound has both, side by side.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from gensim.matutils import zeros_aligned
from gensim.models.doc2vec import (
    Doc2Vec,
    TaggedDocument,
    train_document_dbow,
    train_document_dm,
)
from gensim.models.keyedvectors import pseudorandom_weak_vector
from nltk.stem.porter import PorterStemmer

from lib.teachers import labels
from lib.teachers.labels import LONGEST, Spec
from lib.texts import check_texts, list_texts, split_words

_INFERRING = threading.Lock()  # a model has one random stream, which each inference begins anew
_stem = lru_cache(maxsize=1_000_000)(PorterStemmer().stem)  # most words of a corpus repeat


def prepare_words(text: str, preprocessing: str) -> list[str]:
    """Split a text into words; lowercase or stem them as asked."""
    words = split_words(text if preprocessing == "None" else text.lower())
    return [_stem(word) for word in words] if preprocessing == "stem" else words


class StableDoc2Vec(Doc2Vec):
    """gensim's Doc2Vec, whose inferred vectors depend on the document alone.

    gensim starts the inference of a document at a vector drawn from Python's `hash`, which
    PYTHONHASHSEED changes, and draws negatives from one random stream for all calls. Here the
    start is drawn from the CRC-32 of the document, and the stream begins anew.
    """

    def infer_vector(self, doc_words: Sequence[str]) -> np.ndarray:
        """Infer the vector of a document, float32 (size,), with the model's epochs and rates.

        One call at a time, also from several threads.
        """
        with _INFERRING:
            return self._infer_alone(doc_words)

    def _infer_alone(self, doc_words: Sequence[str]) -> np.ndarray:
        self.random.seed(self.seed)
        start = pseudorandom_weak_vector(
            self.dv.vector_size, " ".join(doc_words), hashfxn=lambda text: zlib.crc32(text.encode())
        )
        vector = start.reshape(1, -1)
        options = {
            "learn_words": False,
            "learn_hidden": False,
            "doctag_vectors": vector,
            "doctags_lockf": np.ones(1, dtype=np.float32),
        }
        work = np.zeros(self.layer1_size, dtype=np.float32)
        mean = zeros_aligned(self.layer1_size, dtype=np.float32)
        alpha = self.alpha
        for _ in range(self.epochs):
            if self.sg:
                train_document_dbow(self, doc_words, [0], alpha, work, **options)
            else:
                train_document_dm(self, doc_words, [0], alpha, work, mean, **options)
            alpha -= (self.alpha - self.min_alpha) / max(self.epochs - 1, 1)
        return vector[0]


@dataclass
class ParagraphVector:
    """One Paragraph Vector, single or compound, trained or not. Made by `parse`.

    Attributes
    ----------
    label : str
        As printed in the thesis, with the printed sizes whatever `width` is.
    specs, models : tuple
        One for each single model, in the order of their columns. `models` is empty before training.
    seconds : float
        Processor time of training, of both models of a compound.
    documents, truncated : int
        Documents it was trained on, and how many of them have more than 10,000 known words, of
        which gensim reads no more.
    """

    label: str
    specs: tuple[Spec, ...]
    models: tuple[Doc2Vec, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    documents: int = 0
    truncated: int = 0

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> ParagraphVector:
        """Make an untrained model from a thesis label: single, compound or short (`PV;2048d`)."""
        return cls(label, labels.parse(label, width))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    @property
    def vocabulary_size(self) -> int:
        """Words known; for a compound the words of both models, as both are kept in memory."""
        return sum(len(model.wv) for model in self.models)

    def train(  # noqa: PLR0913  # gensim's settings, as the profile's section has them
        self,
        texts: Iterable[str],
        *,
        epochs: int = 10,
        seed: int = 0,
        workers: int = 1,
        min_count_share: float = 0.01,
        window: int = 5,
        negative: int = 5,
        sample: float = 0.0,
        alpha: float = 0.025,
        min_alpha: float = 1e-4,
        dbow_words: bool = True,
    ) -> ParagraphVector:
        """Train on texts; the defaults are those of Table 4.5 and of the author's code.

        Parameters
        ----------
        texts : iterable of str
            Read once per epoch and three times more. Only of an iterator, which can be read once,
            are all texts held here.
        min_count_share : float
            What `10%` in a label means: a number of occurrences, as a share of the number of
            documents. 5 for 540 documents, never less than 2.
        workers : int
            More than 1 is faster and does not repeat bit for bit.
        epochs, seed, window, negative, sample, alpha, min_alpha, dbow_words
            As in gensim's Doc2Vec.

        Returns
        -------
        ParagraphVector
            Itself, trained.
        """
        if isinstance(texts, Iterator):
            texts = list_texts(texts)
        if negative < 1:
            raise ValueError(f"Paragraph Vector: negative must be at least 1, got {negative}")
        documents = sum(1 for _ in check_texts(texts))
        if not documents:
            raise ValueError("expected at least one text to train on, got none")
        settings = {
            "epochs": epochs,
            "seed": seed,
            "workers": workers,
            "window": window,
            "negative": negative,
            "sample": sample,
            "alpha": alpha,
            "min_alpha": min_alpha,
            "dbow_words": int(dbow_words),
        }
        models, truncated, started = list[Doc2Vec](), [0], time.process_time()
        for spec in self.specs:
            corpus = _Corpus(texts, spec.preprocessing)
            least = spec.occurrences(documents, min_count_share)
            model = _train_model(spec, corpus, least, documents, settings)
            if not len(model.wv):
                raise ValueError(
                    f"'{self.label}': no word occurs {least} times "
                    f"in the {documents} training documents"
                )
            models.append(model)
        self.seconds = time.process_time() - started
        for spec, model in zip(self.specs, models, strict=True):
            truncated.append(_count_truncated(model, _Corpus(texts, spec.preprocessing)))
        self.models, self.documents, self.truncated = tuple(models), documents, max(truncated)
        return self

    def encode(self, texts: Iterable[str]) -> np.ndarray:
        """Infer vectors, float32 (n, dim); each depends on its text alone, not on earlier calls.

        Where a model knows no word of a text, its numbers are zero.
        """
        if not self.models:
            raise ValueError(f"Paragraph Vector '{self.label}' is not trained; call train(texts)")
        texts = list_texts(texts)
        vectors = np.zeros((len(texts), self.dim), np.float32)
        column = 0
        for spec, model in zip(self.specs, self.models, strict=True):
            for row, text in enumerate(texts):
                words = prepare_words(text, spec.preprocessing)
                if any(word in model.wv for word in words):
                    vectors[row, column : column + spec.size] = model.infer_vector(words)
            column += spec.size
        return vectors


@dataclass
class _Corpus:
    """Texts as gensim wants them, prepared anew on each pass: a corpus on disk stays there."""

    texts: Iterable[str]
    preprocessing: str

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(prepare_words(text, self.preprocessing), [index])


def _train_model(
    spec: Spec, corpus: _Corpus, least: int, documents: int, settings: dict[str, Any]
) -> StableDoc2Vec:
    """Train one single model on words that occur `least` times; untrained if there is none."""
    model = StableDoc2Vec(
        dm=int(spec.architecture == "DM"),
        dm_mean=1,
        vector_size=spec.size,
        min_count=least,
        **settings,
    )
    model.build_vocab(corpus)
    if len(model.wv):
        model.train(corpus, total_examples=documents, epochs=model.epochs)
    # The vectors of the training documents would be as large as the corpus.
    model.dv.vectors = np.zeros((0, spec.size), np.float32)
    return model


def _count_truncated(model: Doc2Vec, corpus: _Corpus) -> int:
    """Documents with more known words than gensim reads."""
    vocabulary = model.wv.key_to_index
    known = (sum(word in vocabulary for word in document.words) for document in corpus)
    return sum(count > LONGEST for count in known)
