"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), gensim's Doc2Vec behind the thesis' labels.

DM predicts a word from the mean of the document's vector and those of the words in the window, DBOW from the document's
vector alone. A compound is two models, trained apart, whose vectors stand side by side. Settings (Table 4.5, author's
code): window 5, 5 negatives, no downsampling (`sample` 0, gensim's default is 1e-3), 10 epochs, `dbow_words`, learning
rate .025 -> 1e-4, inference with as many epochs as training. Words are `text.split()`.

gensim's own `infer_vector` depends on what was inferred before (one random stream for all calls) and on PYTHONHASHSEED
(its start vector hashes the document). Here inference is that same loop over gensim's own routines, with the stream
restarted for each document and crc32 for the hash: the same bits in any order, in any process. Training repeats bit for
bit with `workers=1`.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from gensim.models.doc2vec import Doc2Vec, TaggedDocument, train_document_dbow, train_document_dm
from gensim.models.keyedvectors import pseudorandom_weak_vector
from nltk.stem.porter import PorterStemmer

from lib.teachers import archive, labels
from lib.teachers.labels import Spec
from lib.teachers.texts import check

LONGEST = 10_000  # known words of a document that gensim has room for (MAX_DOCUMENT_LEN); it drops the rest silently
_STEMMER = PorterStemmer()


@lru_cache(maxsize=1_000_000)
def _stem(word: str) -> str:
    """Porter stem of a lowercased word. Most words of a corpus repeat; all models of a process share this cache."""
    return _STEMMER.stem(word)


def words(text: str, preprocessing: str) -> list[str]:
    """The words of a text: split at white space, then lowercased, or lowercased and stemmed, or left alone."""
    if preprocessing == "None":
        return text.split()
    lowered = text.lower().split()
    return [_stem(word) for word in lowered] if preprocessing == "stem" else lowered


@dataclass(frozen=True)
class Weights:
    """What inference needs of a trained single model, and what a table says of it.

    vectors     of the words; empty for DBOW, whose inference does not read them.
    output      weights of the predicted words.
    cumulative  table that negatives are drawn from.
    kept        chances of a word to be kept, as integers; read if `sample` is not 0.
    settings    of training, in gensim's names.
    """

    words: list[str]
    vectors: np.ndarray
    output: np.ndarray
    cumulative: np.ndarray
    kept: np.ndarray
    settings: dict[str, float]
    seconds: float
    truncated: int


@dataclass
class ParagraphVector:
    """One Paragraph Vector, single or compound, trained or not. Made by `parse`, `load` or `join`.

    label    as given; it keeps the printed sizes whatever `width` is.
    specs    one per single model, in the order of their columns.
    weights  one per single model once trained, else empty.
    unknown  rows of the last `encode` in which one of the models knows no word. Such a row, or half row, is gensim's
             start vector: small, random-looking, always the same for the same text.
    """

    label: str
    width: float
    specs: tuple[Spec, ...]
    weights: tuple[Weights, ...] = ()
    unknown: list[int] = field(default_factory=list)
    _models: list[Doc2Vec] = field(default_factory=list, repr=False)  # made from the weights at the first `encode`

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> ParagraphVector:
        """An untrained model from a thesis label, single, compound or short (`PV;2048d`); `width` scales the sizes.

        Raises ValueError naming the part of the label that is wrong and what was expected.
        """
        label = label.strip().replace("×", "x").replace("λ", "lam")
        return cls(label, width, labels.parse(label, width))

    @classmethod
    def join(cls, dm: ParagraphVector, dbow: ParagraphVector) -> ParagraphVector:
        """The compound of two trained single models. Its vectors are theirs side by side, bit for bit."""
        joined = cls.parse(f"{dm.canonical}+{dbow.canonical}", dm.width)
        if joined.specs != dm.specs + dbow.specs:
            raise ValueError(f"'{dm.label}' has width {dm.width}, '{dbow.label}' {dbow.width}; expected the same")
        for model in (dm, dbow):
            model._check_trained()
        return replace(joined, weights=dm.weights + dbow.weights)

    @property
    def canonical(self) -> str:
        """The label in full."""
        return labels.canonical(self.label)

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    @property
    def vocabulary_size(self) -> int:
        """Words known; for a compound the words of both models, as both are kept in memory."""
        self._check_trained()
        return sum(len(weights.words) for weights in self.weights)

    @property
    def seconds(self) -> float:
        """Training time, both models of a compound together."""
        self._check_trained()
        return sum(weights.seconds for weights in self.weights)

    @property
    def truncated(self) -> int:
        """Training documents with more than 10,000 known words, whose remaining words gensim did not read."""
        self._check_trained()
        return max(weights.truncated for weights in self.weights)

    @property
    def fingerprint(self) -> str:
        """32 hex digits over settings, vocabulary and weights of the trained model, not over its training time."""
        self._check_trained()
        parts = zip(self.specs, self.weights, strict=True)
        return archive.fingerprint([[vars(spec), archive.identity(weights)] for spec, weights in parts])

    def train(
        self,
        texts: Iterable[str],
        *,
        epochs: int = 10,
        seed: int = 0,
        workers: int = 1,
        min_count_share: float = 0.01,
        max_words: int | None = None,
        window: int = 5,
        negative: int = 5,
        sample: float = 0.0,
        alpha: float = 0.025,
        min_alpha: float = 1e-4,
        dbow_words: bool = True,
    ) -> ParagraphVector:
        """Train on `texts`, which are read once per epoch and three times more, never all held here; returns self.

        min_count_share  what `10%` means: this share of the number of documents, as a number of occurrences (5000 of
                         500,000; 540 documents give 5). Below 250 documents it is 2, and `10%` and `2` are one model.
        max_words        bound of the vocabulary, the most frequent words (Chapter 5: 6e7 for DM, 1.2e7 for PV).
        workers          more than 1 is faster and does not repeat bit for bit.
        The others are gensim's; the defaults are the thesis'.

        Raises ValueError for an empty text (with its index), something that is not text, an iterator that can be read
        only once, and a corpus in which no word is frequent enough. Warns of documents gensim does not read to the end.
        """
        if iter(texts) is texts:
            raise ValueError("training texts are read once per epoch: expected a list or a data set, got an iterator")
        for name, value in (("epochs", epochs), ("workers", workers), ("window", window), ("negative", negative)):
            if value < 1:
                raise ValueError(f"Paragraph Vector: {name} must be at least 1, got {value}")
        documents = check(texts)
        settings = dict(epochs=epochs, seed=seed, window=window, negative=negative, sample=sample)
        settings |= dict(alpha=alpha, min_alpha=min_alpha, dbow_words=int(dbow_words))
        trained = []
        for spec in self.specs:
            started, corpus = time.perf_counter(), _Corpus(texts, spec.preprocessing)
            least = spec.occurrences(documents, min_count_share)
            model = _model(spec, settings, min_count=least, max_final_vocab=max_words, workers=workers)
            model.build_vocab(corpus)
            if not len(model.wv):
                raise ValueError(f"'{self.label}': no word occurs {least} times in the {documents} training documents")
            model.train(corpus, total_examples=documents, epochs=epochs)
            seconds, known = time.perf_counter() - started, model.wv.key_to_index
            long = (document.words for document in corpus if len(document.words) > LONGEST)
            trained.append(
                Weights(
                    words=list(model.wv.index_to_key),
                    vectors=model.wv.vectors if model.dm else np.zeros((0, spec.size), np.float32),
                    output=model.syn1neg,
                    cumulative=model.cum_table,
                    kept=model.wv.expandos["sample_int"],
                    settings=settings,
                    seconds=seconds,
                    truncated=sum(sum(word in known for word in document) > LONGEST for document in long),
                )
            )
        self.weights, self._models = tuple(trained), []
        if self.truncated:
            cut = f"{self.truncated} of {documents} training documents have more than {LONGEST} known words"
            warnings.warn(f"'{self.label}': {cut}; gensim drops the rest", stacklevel=2)
        return self

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Inferred vectors, float32 (n, dim); each depends on its text alone, not on order or earlier calls.

        Sets `unknown`. Raises ValueError for an empty text (with its index) or something that is not text.
        """
        self._check_trained()
        vectors = np.empty((check(texts), self.dim), np.float32)
        self._models = self._models or [_restored(*pair) for pair in zip(self.specs, self.weights, strict=True)]
        unknown: set[int] = set()
        column = 0
        for spec, model in zip(self.specs, self._models, strict=True):
            for row, text in enumerate(texts):
                vector, known = _infer(model, words(text, spec.preprocessing))
                vectors[row, column : column + spec.size] = vector
                if not known:
                    unknown.add(row)
            column += spec.size
        self.unknown = sorted(unknown)
        return vectors

    def save(self, folder: str | Path) -> None:
        """Write arrays, vocabulary and settings, checksummed; the folder appears whole or not at all."""
        self._check_trained()
        archive.save(folder, {"label": self.label, "width": self.width}, self.weights)

    @classmethod
    def load(cls, folder: str | Path) -> ParagraphVector:
        """A saved model, which encodes bit for bit as before. Nothing is unpickled.

        Raises ValueError naming the file that is missing, damaged or truncated.
        """
        settings, weights = archive.load(folder, Weights)
        return replace(cls.parse(settings["label"], settings["width"]), weights=weights)

    def _check_trained(self) -> None:
        if not self.weights:
            raise ValueError(f"Paragraph Vector '{self.label}' is not trained; call train(texts) or load(folder)")


class _Corpus:
    """Texts as gensim wants them, prepared anew on each pass, so that a corpus that streams from disk stays there."""

    def __init__(self, texts: Iterable[str], preprocessing: str):
        self.texts, self.preprocessing = texts, preprocessing

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(words(text, self.preprocessing), [index])


def _model(spec: Spec, settings: dict[str, float], **others) -> Doc2Vec:
    return Doc2Vec(dm=int(spec.architecture == "DM"), dm_mean=1, vector_size=spec.size, **settings, **others)


def _restored(spec: Spec, weights: Weights) -> Doc2Vec:
    """gensim's model around trained weights: only what its two training routines read during inference."""
    model = _model(spec, weights.settings)
    model.wv.index_to_key = weights.words
    model.wv.key_to_index = {word: index for index, word in enumerate(weights.words)}
    model.wv.expandos["sample_int"] = weights.kept
    model.wv.vectors, model.syn1neg, model.cum_table = weights.vectors, weights.output, weights.cumulative
    return model


def _crc32(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _infer(model: Doc2Vec, document: list[str]) -> tuple[np.ndarray, bool]:
    """The loop of `Doc2Vec.infer_vector`, free of history and PYTHONHASHSEED; also whether any word is known."""
    model.random.seed(model.seed)
    vector = pseudorandom_weak_vector(model.vector_size, seed_string=" ".join(document), hashfxn=_crc32).reshape(1, -1)
    known = [word for word in document if word in model.wv.key_to_index]
    # gensim's routines keep pointers into these; memory that they allocate themselves they use after it is freed.
    memory = {"work": np.zeros(model.layer1_size, np.float32), "doctag_vectors": vector}
    memory["doctags_lockf"] = np.ones(1, np.float32)
    if model.dm:
        memory["neu1"] = np.zeros(model.layer1_size, np.float32)
    routine = train_document_dm if model.dm else train_document_dbow
    alpha, step = model.alpha, (model.alpha - model.min_alpha) / max(model.epochs - 1, 1)
    for _ in range(model.epochs if known else 0):
        routine(model, known, [0], alpha, learn_words=False, learn_hidden=False, **memory)
        alpha -= step
    return vector[0], bool(known)
