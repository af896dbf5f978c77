"""Contextual teachers as models: a Paragraph Vector, and the words of TF-IDF or LSA."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.experiments.model import Model
from lib.store import Arrays, Product, hash_arrays, hash_texts

FACTS = ("vocabulary_size", "seconds", "truncated", "documents")


@dataclass(frozen=True, eq=False)
class ParagraphVector(Model):
    """A single Paragraph Vector, trained on `documents`.

    `label` is such as "DM;1024;stem;2" (see `lib.teachers.labels`), `width` a factor for its size,
    and `settings` are arguments of the teacher's `train`, its seed among them.
    """

    label: str
    width: float
    settings: Mapping[str, Any]
    documents: Sequence[str]

    @functools.cached_property
    def product(self) -> Product:
        inputs = {"label": self.label, "width": self.width, "settings": self.settings}
        inputs["documents"] = hash_arrays(hash_texts(self.documents))
        modules = (
            "experiments.contextual",
            "teachers.paragraph_vector",
            "teachers.labels",
            "texts",
        )
        packages = ("gensim", "nltk", "numpy", "scipy")
        label = f"{self.label}, seed {self.settings['seed']}"
        return Product("paragraph_vector", inputs, modules, packages, label)

    @functools.cached_property
    def loaded(self) -> Any:
        """A `lib.teachers.paragraph_vector.ParagraphVector`, trained if it is missing."""
        return pickle.loads(self.store.get(self.product, self._train)["pickle"].tobytes())

    def facts(self) -> Arrays:
        """`vocabulary_size`, `seconds` of training, `truncated` and `documents` (counts)."""
        found = self.store.find(self.product, *FACTS)
        return found or self.store.get(self.product, self._train)

    def _train(self) -> Arrays:
        from lib.teachers.paragraph_vector import ParagraphVector as Teacher

        untrained = Teacher.parse(self.label, width=self.width)
        model = untrained.train(self.documents, **self.settings)
        facts = {name: getattr(model, name) for name in FACTS}
        return facts | {"pickle": np.frombuffer(pickle.dumps(model), np.uint8)}

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32."""
        return self.loaded.encode(texts)
