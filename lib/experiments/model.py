"""What embeds texts: one class for teachers, students, words, and their combinations.

Made of plain values, a model has a name before anything is computed, and can be sent to processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from lib.store import Arrays, Product, Store


@dataclass(frozen=True, eq=False)
class Model:
    """Embeds texts. Subclasses say how, in `encode`, and what decides the result, in `product`."""

    store: Store

    @property
    def product(self) -> Product:
        """The table of the model's vectors, whatever the texts."""
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> Any:
        """Vectors (texts, dim) of texts, computed now by this process. They may be sparse."""
        raise NotImplementedError

    def embed(self, texts: Sequence[str]) -> Any:
        """Like `encode`, but vectors are kept on disk, and read from there when indexed."""
        return self.store.rows(self.product, texts, self.compute)["vectors"]

    def compute(self, texts: list[str]) -> Arrays:
        return {"vectors": self.encode(texts)}

    def is_embedded(self, texts: Sequence[str]) -> bool:
        """Whether `embed` would compute nothing."""
        return self.store.has_rows(self.product, texts)

    @property
    def parts(self) -> Sequence[Model]:
        """The models whose vectors are computed one by one; a joined model has several."""
        return (self,)

    def list_needs(self) -> list[tuple[Model, Sequence[str]]]:
        """Models, with texts, whose vectors this one needs before it can be made."""
        return []

    def fit_outside(self, texts: Sequence[str]) -> Model:
        """The same model, fitted to none of these texts. Most are fitted to nothing."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Other processes get the fields, and load weights and fit words themselves."""
        return {field.name: getattr(self, field.name) for field in fields(self)}
