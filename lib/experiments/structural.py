"""The structural teacher as a model: SBERT on the beginning of a text, or on all its chunks."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.config.schema import StructuralTeacherSettings
from lib.experiments.devices import find_device, find_model, hash_model
from lib.experiments.model import Model
from lib.store import Product, Rows

PACKAGES = ("torch", "transformers", "tokenizers", "sentence-transformers")


@dataclass(frozen=True, eq=False)
class Teacher(Model):
    """SBERT on the beginning of a text or, with `chunk`, on its pieces of so many tokens, averaged.

    Special tokens are included in `chunk`. `precision` is "fp32" or "bf16".
    """

    section: StructuralTeacherSettings
    chunk: int = 0
    precision: str = "fp32"

    @functools.cached_property
    def product(self) -> Product:
        inputs = self.section.model_dump(mode="json", exclude={"batch_size"})
        inputs |= {"files": hash_model(self.section.model), "chunk": self.chunk}
        inputs |= {"computed": [find_device(), self.precision]}
        modules = (
            "experiments.structural",
            "teachers.sbert",
            "teachers.chunks",
            "teachers.rows",
            "texts",
        )
        label = "SBERT, mean of chunks" if self.chunk else "SBERT"
        return Product("vectors", inputs, modules, PACKAGES, label)

    @functools.cached_property
    def sbert(self) -> Any:
        """The loaded teacher, a `lib.teachers.sbert.SBERT`."""
        from lib.teachers.sbert import SBERT

        section = self.section
        return SBERT.load(
            find_model(section.model),
            max_tokens=self.chunk or section.max_tokens,
            sha256=section.sha256,
            revision=section.revision,
            device=find_device(),
        )

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32."""
        from lib.teachers.chunks import cut_text, mean_of_chunks

        with self._compute_in_precision():
            if not self.chunk:
                return self._encode([cut_text(text) for text in texts])
            size = self.chunk - self.sbert.tokenizer.num_special_tokens_to_add()
            return mean_of_chunks(self.sbert.tokenizer, self._encode, texts, size)

    def _encode(self, texts: list[str]) -> np.ndarray:
        return self.sbert.encode(texts, self.section.batch_size)

    def _compute_in_precision(self) -> Any:
        if self.precision == "fp32":
            return nullcontext()
        import torch

        return torch.autocast(find_device(), torch.bfloat16)

    def lengths(self, texts: Sequence[str]) -> Rows:
        """(texts,) lengths in SBERT's tokens, without special ones and before truncation."""
        inputs = {"model": self.section.model, "revision": self.section.revision}
        inputs["files"] = hash_model(self.section.model)
        product = Product("lengths", inputs, ("teachers.sbert", "texts"), PACKAGES, "lengths")
        rows = self.store.rows(product, texts, lambda part: {"lengths": self.sbert.lengths(part)})
        return rows["lengths"]

    def cut(self, texts: Sequence[str]) -> list[str]:
        """Each text up to the end of the last token that SBERT reads."""
        options = {"truncation": True, "max_length": self.sbert.max_tokens, "verbose": False}
        options |= {"return_offsets_mapping": True}
        offsets = (self.sbert.tokenizer(text, **options)["offset_mapping"] for text in texts)
        return [
            text[: max(end for _, end in each)] for text, each in zip(texts, offsets, strict=True)
        ]
