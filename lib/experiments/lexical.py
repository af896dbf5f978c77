"""Words as a model: TF-IDF of documents, or their LSA."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.experiments.model import Model
from lib.store import Product, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.structural import Teacher


@dataclass(frozen=True, eq=False)
class Words(Model):
    """TF-IDF, or LSA of `dim` directions, fitted to documents; what they do not fill is 0.

    Texts are read only as far as the teacher `cut` reads them. `centred` is LSA without words of a
    single document, minus the documents' mean, scaled to norm 1, as own texts are embedded.
    Documents that are `left_out` count words but give them no weights; see `fit_outside`.
    """

    documents: Sequence[str]
    dim: int = 0
    cut: Teacher | None = None
    centred: bool = False
    left_out: Sequence[str] = ()

    @functools.cached_property
    def product(self) -> Product:
        inputs = {
            "texts": [hash_arrays(hash_texts(each)) for each in (self.documents, self.left_out)],
            "dim": self.dim,
            "centred": self.centred,
            "cut": self.cut and self.cut.product,
        }
        modules = ("experiments.lexical", "teachers.rows", "teachers.words", "texts")
        return Product("words", inputs, modules, ("scikit-learn", "scipy"), self.label)

    @property
    def label(self) -> str:
        return "LSA" if self.dim else "TF-IDF"

    @functools.cached_property
    def counter(self) -> Any:
        """The counted words of all documents, a `lib.teachers.words.WordCounts`."""
        from lib.teachers.words import WordCounts

        return WordCounts.read(self.documents)

    @functools.cached_property
    def fitted(self) -> Any:
        """A `lib.teachers.words.Lexical`. LSA is kept: other processors find other directions."""
        from lib.teachers.words import Lexical

        if not self._is_kept:
            return self._fit()
        return Lexical(**self.store.get(self.product, lambda: vars(self._fit())))

    def _fit(self) -> Any:
        outside = ~np.isin(hash_texts(self.documents), hash_texts(self.left_out))
        return self.counter.fit(np.flatnonzero(outside), self.dim, rare=not self.centred)

    @property
    def _is_kept(self) -> bool:
        """TF-IDF is sparse, and the words of own texts are fitted anew for each fold."""
        return bool(self.dim) and not self.centred

    def encode(self, texts: Sequence[str]) -> Any:
        """(texts, dim) float32; for TF-IDF (texts, words) sparse, with rows of norm 1 or 0."""
        counts = self.counter.count(texts if self.cut is None else self.cut.cut(texts))
        if not self.dim:
            return self.fitted.weigh(counts)
        if self.centred:
            return self.fitted.embed(counts)
        rows = self.fitted.project(counts)
        return np.pad(rows, [(0, 0), (0, self.dim - rows.shape[1])])

    def embed(self, texts: Sequence[str]) -> Any:
        return super().embed(texts) if self._is_kept else self.encode(texts)

    def is_embedded(self, texts: Sequence[str]) -> bool:
        return not self._is_kept or super().is_embedded(texts)

    def fit_outside(self, texts: Sequence[str]) -> Words:
        """The same words without the weights that these texts give them. Counts are shared."""
        model = replace(self, left_out=[*self.left_out, *texts])
        model.__dict__["counter"] = self.counter
        return model
