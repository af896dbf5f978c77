"""Models made of other models: several side by side, or one without the mean of its vectors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lib.experiments.model import Model
from lib.store import Product, hash_arrays, hash_texts
from lib.teachers.rows import centre_rows, join_rows, mean_row


@dataclass(frozen=True, eq=False)
class Joined(Model):
    """Vectors of several models side by side; two `scaled` ones have norm 1 and equal weight."""

    models: tuple[Model, ...]
    scaled: bool = False

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"models": [model.product for model in self.models], "scaled": self.scaled}
        modules = ("experiments.combined", "teachers.rows")
        return Product(
            "joined", inputs, modules, (), " + ".join(m.product.label for m in self.models)
        )

    @property
    def parts(self) -> Sequence[Model]:
        return [part for model in self.models for part in model.parts]

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, sum of dims) float32."""
        return self._join([model.encode(texts) for model in self.models])[:]

    def embed(self, texts: Sequence[str]) -> Any:
        return self._join([model.embed(texts) for model in self.models])

    def _join(self, parts: Sequence[Any]) -> Any:
        return join_rows(*map(np.asarray, parts)) if self.scaled else Columns(parts)

    def is_embedded(self, texts: Sequence[str]) -> bool:
        return all(part.is_embedded(texts) for part in self.parts)

    def fit_outside(self, texts: Sequence[str]) -> Model:
        return replace(self, models=tuple(model.fit_outside(texts) for model in self.models))


@dataclass(frozen=True, eq=False)
class Centred(Model):
    """A model's vectors, each of norm 1, without the mean over `documents`, scaled to 1 again."""

    model: Model
    documents: Sequence[str]

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"model": self.model.product, "documents": hash_arrays(hash_texts(self.documents))}
        modules = ("experiments.combined", "teachers.rows")
        return Product("centred", inputs, modules, (), self.model.product.label)

    @property
    def parts(self) -> Sequence[Model]:
        return self.model.parts

    @functools.cached_property
    def mean(self) -> np.ndarray:
        """(dim,)"""
        return mean_row(np.asarray(self.model.embed(self.documents)))

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32, of norm 1."""
        return centre_rows(np.asarray(self.model.encode(texts)), self.mean)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return centre_rows(np.asarray(self.model.embed(texts)), self.mean)

    def is_embedded(self, texts: Sequence[str]) -> bool:
        return self.model.is_embedded(texts) and self.model.is_embedded(self.documents)

    def list_needs(self) -> list[tuple[Model, Sequence[str]]]:
        return [*self.model.list_needs(), *((part, self.documents) for part in self.parts)]

    def fit_outside(self, texts: Sequence[str]) -> Model:
        kept = ~np.isin(hash_texts(self.documents), hash_texts(texts))
        outside = [self.documents[int(row)] for row in np.flatnonzero(kept)]
        return replace(self, model=self.model.fit_outside(texts), documents=outside)


@dataclass(frozen=True)
class Columns(Sequence[np.ndarray]):
    """Arrays with the same rows, joined when rows are read, because they may exceed memory."""

    parts: Sequence[Any]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.concatenate([part[rows] for part in self.parts], axis=-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self[:], dtype=dtype)
