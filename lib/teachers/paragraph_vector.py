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
from functools import lru_cache
from typing import Any

import numpy as np
from gensim.matutils import zeros_aligned
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, train_document_dbow, train_document_dm
from gensim.models.keyedvectors import pseudorandom_weak_vector
from nltk.stem.porter import PorterStemmer

from lib.teachers import labels
from lib.teachers.labels import LONGEST, Spec
from lib.texts import check_texts, list_texts, split_words

_INFERRING = threading.Lock()  # a model has one random stream, which each inference restarts
_stem = lru_cache(maxsize=1_000_000)(PorterStemmer().stem)  # most words of a corpus repeat


def prepare_words(text: str, preprocessing: str) -> list[str]:
    """Split a text into words; lowercase or stem them as asked."""
    words = split_words(text if preprocessing == "None" else text.lower())
    return [_stem(word) for word in words] if preprocessing == "stem" else words


class StableDoc2Vec(Doc2Vec):
    """gensim's Doc2Vec, with inferred vectors that depend only on the document.

    In gensim, inference starts from a vector that depends on Python's `hash`, and so on
    PYTHONHASHSEED, and all calls draw negatives from one random stream. Here the starting vector
    depends on the CRC-32 of the document, and every call restarts the stream.
    """

    def infer_vector(self, doc_words: Sequence[str]) -> np.ndarray:
        """Infer the vector of a document, float32 (size,), with the model's epochs and rates.

        Calls from several threads wait for each other.
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
    """One Paragraph Vector, single or compound, trained or not. Make it with `parse`.

    Attributes
    ----------
    label : str
        The label as printed in the thesis. Its sizes are the printed ones whatever `width` is.
    specs, models : tuple
        One entry per single model, in the order of their columns. `models` is empty before
        training.
    seconds : float
        Processor time of the training, for a compound of both models together.
    documents, truncated : int
        Number of training documents, and how many of them have more known words than the 10,000
        that gensim reads.
    """

    label: str
    specs: tuple[Spec, ...]
    models: tuple[Doc2Vec, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    documents: int = 0
    truncated: int = 0

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> ParagraphVector:
        """Make an untrained model from a label of the thesis: single, compound or short name.

        Parameters
        ----------
        label : str
            For example `DM;1024;stem;2`, or the short name `PV;2048d`.
        width : float
            Factor for the sizes in the label.

        Raises
        ------
        ValueError
            For a malformed label.
        """
        return cls(label, labels.parse(label, width))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    @property
    def vocabulary_size(self) -> int:
        """Number of known words; for a compound, the sum over both models."""
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
        """Train on texts. The defaults are those of Table 4.5 and of the author's code.

        Parameters
        ----------
        texts : iterable of str
            Read once per epoch, and three more times. The texts of an iterator, which can be read
            only once, are kept in memory.
        min_count_share : float
            Meaning of `10%` in a label: the occurrences that a known word needs, as a share of the
            number of documents. For 540 documents the default needs 5; the minimum is always 2.
        workers : int
            Number of threads. With more than 1, training is faster but not reproducible bit for
            bit.
        epochs, seed, window, negative, sample, alpha, min_alpha, dbow_words
            As in gensim's Doc2Vec.

        Returns
        -------
        ParagraphVector
            The same object, now trained.

        Raises
        ------
        ValueError
            Without texts, for something that is not a text, for `negative` below 1, and if no word
            occurs often enough.
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
        """Infer vectors, float32 (texts, dim). Each depends on its text alone.

        The columns of a single model are zero for a text of which it knows no word.

        Raises
        ------
        ValueError
            If the model is not trained, and for something that is not a text.
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
    """Texts in gensim's format, prepared again on each pass, so that a corpus can stay on disk."""

    texts: Iterable[str]
    preprocessing: str

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(prepare_words(text, self.preprocessing), [index])


def _train_model(
    spec: Spec, corpus: _Corpus, least: int, documents: int, settings: dict[str, Any]
) -> StableDoc2Vec:
    """Train one single model on words that occur at least `least` times, if there are any."""
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
    # Drop the vectors of the training documents, which may take as much memory as the corpus.
    model.dv.vectors = np.zeros((0, spec.size), np.float32)
    return model


def _count_truncated(model: Doc2Vec, corpus: _Corpus) -> int:
    """Count the documents with more known words than gensim reads."""
    vocabulary = model.wv.key_to_index
    known = (sum(word in vocabulary for word in document.words) for document in corpus)
    return sum(count > LONGEST for count in known)
