"""The contextual teacher: Paragraph Vector (Le and Mikolov 2014), gensim's Doc2Vec behind the thesis' labels.

DM predicts a word from the document's vector and those around the word, DBOW from the document's; a compound has both.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
from gensim.models import doc2vec
from gensim.models.doc2vec import Doc2Vec, TaggedDocument
from gensim.models.keyedvectors import pseudorandom_weak_vector
from nltk.stem.porter import PorterStemmer

from lib.teachers import labels
from lib.teachers.labels import Spec
from lib.teachers.texts import check

LONGEST = 10_000  # known words of a document that gensim has room for (MAX_DOCUMENT_LEN); it drops the rest silently
# gensim hashes a document with PYTHONHASHSEED to find where its inference starts; crc32 is the same in any process.
doc2vec.pseudorandom_weak_vector = partial(
    pseudorandom_weak_vector, hashfxn=lambda text: zlib.crc32(text.encode())
)
_stem = lru_cache(maxsize=1_000_000)(PorterStemmer().stem)  # most words of a corpus repeat


def words(text: str, preprocessing: str) -> list[str]:
    """The words of a text: split at white space, then lowercased, or lowercased and stemmed, or left alone."""
    if preprocessing == "None":
        return text.split()
    lowered = text.lower().split()
    return [_stem(word) for word in lowered] if preprocessing == "stem" else lowered


@dataclass
class ParagraphVector:
    """One Paragraph Vector, single or compound, trained or not. Made by `parse`.

    label keeps the printed sizes whatever `width` is. specs, models: one per single model, in the order of their
    columns; gensim's models are there once trained. seconds: of the processor, in training, of both models of a
    compound. documents: that it was trained on. truncated: those with more than 10,000 known words, of which gensim
    read no more.
    """

    label: str
    specs: tuple[Spec, ...]
    models: tuple[Doc2Vec, ...] = field(default=(), repr=False)
    seconds: float = 0.0
    documents: int = 0
    truncated: int = 0

    @classmethod
    def parse(cls, label: str, width: float = 1.0) -> ParagraphVector:
        """An untrained model from a thesis label, single, compound or short (`PV;2048d`): see `labels.parse`."""
        return cls(label, labels.parse(label, width))

    @property
    def dim(self) -> int:
        """Width of the embeddings."""
        return sum(spec.size for spec in self.specs)

    @property
    def vocabulary_size(self) -> int:
        """Words known; for a compound the words of both models, as both are kept in memory."""
        return sum(len(model.wv) for model in self.models)

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

        min_count_share: what `10%` means, as a share of the number of documents and a number of occurrences: 5 for 540
        documents, never less than 2. max_words: bound of the vocabulary, the most frequent words (Chapter 5: 6e7 for
        DM, 1.2e7 for PV). workers: more than 1 is faster and does not repeat bit for bit. The others are gensim's; all
        defaults are Table 4.5's and the author's code's.
        """
        if iter(texts) is texts:
            raise ValueError(
                "training texts are read once per epoch: expected a list or a data set, got an iterator"
            )
        if negative < 1:
            raise ValueError(f"Paragraph Vector: negative must be at least 1, got {negative}")
        documents = check(texts)
        settings = dict(epochs=epochs, seed=seed, window=window, negative=negative, sample=sample)
        settings |= dict(alpha=alpha, min_alpha=min_alpha, dbow_words=int(dbow_words))
        models, truncated, seconds = [], [], 0.0
        for spec in self.specs:
            started = time.process_time()
            corpus, least = (
                _Corpus(texts, spec.preprocessing),
                spec.occurrences(documents, min_count_share),
            )
            own = dict(
                dm=int(spec.architecture == "DM"), dm_mean=1, vector_size=spec.size, min_count=least
            )
            model = Doc2Vec(**own, **settings, max_final_vocab=max_words, workers=workers)
            model.build_vocab(corpus)
            if not len(model.wv):
                raise ValueError(
                    f"'{self.label}': no word occurs {least} times in the {documents} training documents"
                )
            model.train(corpus, total_examples=documents, epochs=epochs)
            model.dv.vectors = np.zeros(
                (0, spec.size), np.float32
            )  # of the training documents: as large as the corpus
            seconds += time.process_time() - started
            vocabulary = model.wv.key_to_index
            truncated.append(
                sum(
                    sum(word in vocabulary for word in document.words) > LONGEST
                    for document in corpus
                )
            )
            models.append(model)
        self.models, self.truncated, self.seconds, self.documents = (
            tuple(models),
            max(truncated),
            seconds,
            documents,
        )
        return self

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Inferred vectors, float32 (n, dim); each depends on its text alone, not on order or earlier calls.

        A text of which a model knows no word has that model's start vector: small, random-looking, always the same.
        """
        if not self.models:
            raise ValueError(f"Paragraph Vector '{self.label}' is not trained; call train(texts)")
        vectors = np.empty((check(texts), self.dim), np.float32)
        column = 0
        for spec, model in zip(self.specs, self.models, strict=True):
            for row, text in enumerate(texts):
                model.random.seed(model.seed)  # gensim has one random stream for all calls
                inferred = model.infer_vector(words(text, spec.preprocessing))
                vectors[row, column : column + spec.size] = inferred
            column += spec.size
        return vectors


@dataclass
class _Corpus:
    """Texts as gensim wants them, prepared anew on each pass, so that a corpus that streams from disk stays there."""

    texts: Iterable[str]
    preprocessing: str

    def __iter__(self) -> Iterator[TaggedDocument]:
        for index, text in enumerate(self.texts):
            yield TaggedDocument(words(text, self.preprocessing), [index])
