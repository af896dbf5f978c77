"""The student before training: the layers of an encoder, which may first learn to guess words."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lib.config.schema import StudentSettings
from lib.experiments.model import Model, find_device, find_model, hash_model
from lib.jobs import track
from lib.store import Arrays, Product, Rows, hash_arrays, hash_texts

if TYPE_CHECKING:
    from lib.experiments.embedders import Teacher

PACKAGES = ("torch", "transformers", "tokenizers")
# What computes a student's vectors and a base's weights.
STUDENT = (
    "experiments.base",
    "student.attention",
    "student.checkpoint",
    "student.encoder",
    "student.masked_words",
    "teachers.chunks",
    "teachers.rows",
    "texts",
)


@dataclass(frozen=True, eq=False)
class Base(Model):
    """The student before training.

    With a section `language_model`, the layers first learn to guess masked words of `documents`,
    and are measured on `held_out`. The teacher decides where a `cut` text ends. `precision` is
    "fp32" or "bf16".
    """

    section: StudentSettings
    precision: str
    documents: Sequence[str]
    held_out: Sequence[str]
    teacher: Teacher
    cut: bool = False

    @functools.cached_property
    def start(self) -> Product:
        inputs = self.section.model_dump(mode="json") | {"files": hash_model(self.section.model)}
        if self.section.language_model is not None:
            texts = (self.documents, self.held_out)
            inputs["texts"] = [hash_arrays(hash_texts(each)) for each in texts]
            inputs["computed"] = [find_device(), self.precision]
        return Product("base", inputs, STUDENT, PACKAGES, "masked words")

    @functools.cached_property
    def product(self) -> Product:
        computed = [find_device(), self.precision]
        inputs = {"model": self.start, "read": self.count_read(self.cut), "computed": computed}
        return Product("vectors", inputs, STUDENT, PACKAGES, "Longformer")

    def count_read(self, cut: bool) -> int:
        """How many tokens of a text are read, special ones included."""
        return self.teacher.section.max_tokens if cut else self.section.max_positions

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """(texts, dim) float32."""
        return self.encode_with(self._loaded, texts, self.cut)

    def encode_with(self, student: Any, texts: Sequence[str], cut: bool) -> np.ndarray:
        """(texts, dim) float32, by this student or by a trained copy of it."""
        from lib.teachers.chunks import cut_text

        read = [cut_text(text) for text in texts]
        ids = self.layers.tokenize(read, self.count_read(cut))
        return student.encode(ids, precision=self.precision)

    @functools.cached_property
    def layers(self) -> Any:
        """The student with the weights of its checkpoint, for its tokenizer."""
        return load_layers(self.section)

    @functools.cached_property
    def _loaded(self) -> Any:
        return self.load().to(find_device())

    def load(self, dropout: float | None = None, attention_dropout: float | None = None) -> Any:
        """A fresh copy. It learns its words first if it has not yet."""
        student = load_layers(self.section, dropout, attention_dropout)
        if self.section.language_model is None:
            return student
        return unpack_weights(student, self.store.get(self.start, self._learn_words))

    def history(self) -> Arrays | None:
        """`loss`, `held_out` and `unigram` of `WordLosses`; None without a language model."""
        if self.section.language_model is None:
            return None
        self.store.get(self.start, self._learn_words)
        return self.store.find(self.start, "loss", "held_out", "unigram")

    def _learn_words(self) -> Arrays:
        from lib.student.masked_words import train_masked_words

        student = load_layers(self.section, dropout=0.0).to(find_device())
        texts = [self.tokens(each)["ids"] for each in (self.documents, self.held_out)]
        settings = self.section.language_model.model_dump() | {"precision": self.precision}
        settings["track"] = lambda batches: track(batches, "masked words", len(batches))
        return train_masked_words(student, *texts, **settings)._asdict() | pack_weights(student)

    def tokens(self, texts: Sequence[str]) -> dict[str, Rows]:
        """The token `ids` of texts, special ones included, truncated, and their length `whole`."""
        inputs = {"model": self.section.model, "revision": self.section.revision}
        inputs |= {"files": hash_model(self.section.model), "read": self.section.max_positions}
        product = Product("tokens", inputs, STUDENT, PACKAGES, "tokens")
        return self.store.rows(product, texts, self._tokenize)

    def _tokenize(self, texts: list[str]) -> Arrays:
        student = self.layers
        ids = [np.array(row, np.int32) for row in student.tokenize(texts)]
        whole = [len(row) for row in ids]
        for row, text in enumerate(texts):
            if whole[row] >= student.max_positions:
                whole[row] = len(student.tokenizer(text, verbose=False)["input_ids"])
        return {"ids": ids, "whole": np.array(whole)}


def load_layers(
    section: StudentSettings,
    dropout: float | None = None,
    attention_dropout: float | None = None,
) -> Any:
    """The layers of a base as a student, with the weights of their checkpoint."""
    from lib.student import Student

    path, options = find_model(section.model), {"revision": section.revision, "dropout": dropout}
    if section.base == "longformer":
        student = Student.from_longformer(path, **options)
    else:
        shape = (section.layers, section.window, section.max_positions)
        student = Student.from_encoder(path, *shape, **options)
    if attention_dropout is not None:
        student.config.attention_probs_dropout_prob = attention_dropout
        for layer in student.encoder["layer"]:
            layer.attention["self"].dropout = attention_dropout
    return student


def pack_weights(student: Any) -> Arrays:
    """The weights that training may have changed, each as `w.<name>`; frozen ones are left out."""
    frozen = {name for name, value in student.named_parameters() if not value.requires_grad}
    state = student.state_dict()
    return {f"w.{name}": value.cpu().numpy() for name, value in state.items() if name not in frozen}


def unpack_weights(student: Any, arrays: Arrays) -> Any:
    """Load weights from `pack_weights`, for evaluation; `ValueError` if the student lacks one."""
    import torch

    state = {name[2:]: torch.from_numpy(a) for name, a in arrays.items() if name[:2] == "w."}
    if unknown := student.load_state_dict(state, strict=False).unexpected_keys:
        raise ValueError(f"the weights belong to another student: this one has no {unknown[0]}")
    return student.eval()
