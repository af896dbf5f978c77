"""Callables that compute rows of tables, from texts or token ids to vectors, with plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.config.schema import StructuralTeacherSettings, StudentSettings
from lib.experiments import models

if TYPE_CHECKING:
    from lib.store.cache import Cache, Product


@dataclass(frozen=True)
class TokenRows:
    """The student's token ids of texts, truncated, and how many there were before."""

    section: StudentSettings

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        student = models.load_layers(self.section)
        ids = student.tokenize(texts)
        whole = [len(row) for row in ids]
        for number, text in enumerate(texts):
            if whole[number] >= student.max_positions:
                whole[number] = len(student.tokenizer(text, verbose=False)["input_ids"])
        rows = [np.array(row, dtype=np.int32) for row in ids]
        return {"ids": rows, "whole": np.array(whole, dtype=np.int64)}


class CutIds(Sequence[np.ndarray]):
    """Token ids cut where the structural teacher stops, computed when needed.

    A text that is cut keeps its last token, which is a special token.
    """

    def __init__(self, ids: Sequence[np.ndarray], limit: int):
        self.ids, self.limit = ids, limit

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[place] for place in range(len(self))[row]]
        ids = self.ids[row]
        return ids if len(ids) <= self.limit else np.append(ids[: self.limit - 1], ids[-1:])


@dataclass(frozen=True)
class StructuralRows:
    """Embeddings by the structural teacher."""

    section: StructuralTeacherSettings
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        teacher = load_structural_teacher(self.section, self.device)
        return {"vectors": teacher.encode(texts, self.section.batch_size)}


@dataclass(frozen=True)
class LengthRows:
    """Lengths of texts in the structural teacher's tokens."""

    section: StructuralTeacherSettings

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        return {"lengths": load_structural_teacher(self.section).lengths(texts)}


@dataclass(frozen=True)
class ChunkRows:
    """The structural teacher's embeddings of all chunks of a text, averaged."""

    section: StructuralTeacherSettings
    device: str

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        from lib.evaluation import baselines

        teacher = load_structural_teacher(self.section, self.device)
        return {"vectors": baselines.mean_of_chunks(teacher, texts)}


@dataclass(frozen=True)
class ParagraphVectorRows:
    """Embeddings by a Paragraph Vector that is in the cache."""

    cache: Cache
    product: Product

    def __call__(self, texts: list[str]) -> dict[str, Any]:
        return {"vectors": self.cache.model(self.product, models.miss_product).encode(texts)}


@dataclass(frozen=True)
class StudentRows:
    """Embeddings by the base, or by a trained student whose weights are in the cache."""

    base: models.Base
    precision: str
    pooling: str = "mean"
    cache: Cache | None = None
    product: Product | None = None

    def __call__(self, ids: list[np.ndarray]) -> dict[str, Any]:
        student = self.base.load()
        if self.pooling == "cls":
            from lib.student.cls import ClsStudent

            student = ClsStudent(student)
        if self.cache is not None and self.product is not None:
            weights = self.cache.arrays(self.product, models.miss_product)
            student = models.unpack_weights(student, weights)
        student = student.to(models.find_device())
        return {"vectors": student.encode(ids, precision=self.precision)}


def load_structural_teacher(section: StructuralTeacherSettings, device: str = "cpu"):
    """Load the structural teacher, a `lib.teachers.sbert.SBERT`, and check its weights."""
    from lib.teachers.sbert import SBERT

    pinned = {"sha256": section.sha256, "revision": section.revision}
    return SBERT.load(section.model, max_tokens=section.max_tokens, **pinned, device=device)
