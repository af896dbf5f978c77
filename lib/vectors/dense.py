"""Dense models by name, and their vectors of many texts, which are stored piece by piece."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.config import profiles
from lib.config.schema import Profile
from lib.experiments import encoders, models, products
from lib.store.cache import Cache, Product, Rows
from lib.vectors import chunks
from lib.vectors.names import BASE, CHUNKS, CUT, STUDENT

PIECE = 100_000  # tokens between two writes: about half a minute on one core


@dataclass(frozen=True)
class DenseModel:
    """A model that embeds texts with one encoder.

    Attributes
    ----------
    table : Product
        Its rows are the vectors.
    load : callable
        Returns the function that embeds texts, (texts, dim).
    longest : int
        How many tokens of a text are read.
    """

    name: str
    table: Product
    load: Callable[[], Callable[[list[str]], np.ndarray]]
    longest: int

    def make_rows(self, texts: list[str]) -> dict[str, np.ndarray]:
        return {"vectors": self.load()(texts)}


def find_precision() -> str:
    """ "bf16" if the device supports it, else "fp32"."""
    return "bf16" if models.has_bfloat16() else "fp32"


def list_models(
    student: Path | None = None, profile: Profile | None = None
) -> dict[str, DenseModel]:
    """The dense models by name.

    Parameters
    ----------
    student : Path, optional
        The folder of a trained student, which is added to the models and loaded now.
    profile : Profile, optional
        The profile that names teacher and encoder, by default "lab".

    Raises
    ------
    ValueError
        In one line, if the folder holds no student, is damaged, or lacks a tokenizer.
    """
    profile, precision = profile or profiles.load("lab"), find_precision()
    teacher = profile.structural_teacher
    section = profile.student.model_copy(update={"layers": None})
    computed = {"device": models.find_device(), "precision": precision}
    modules = (__name__, "lib.student.encoder", "lib.teachers.sbert")
    code = (products.find_code(*modules, stop=("lib.experiments",)),)
    packages = ("torch", "transformers", "tokenizers", "sentence-transformers")

    def name_table(name: str, **inputs: Any) -> Product:
        return Product("vectors", {"model": name, **computed, **inputs}, code, packages, name)

    by_teacher = {"teacher": teacher.model_dump(mode="json")}
    listed = [
        DenseModel(
            BASE,
            name_table(BASE, layers=products.name_layers(section)),
            functools.cache(lambda: _encode_whole(models.load_layers(section), precision)),
            section.max_positions,
        ),
        DenseModel(
            CUT,
            name_table(CUT, **by_teacher),
            functools.cache(lambda: _encode_beginning(_load_teacher(teacher), precision)),
            teacher.max_tokens,
        ),
        DenseModel(
            CHUNKS,
            name_table(CHUNKS, **by_teacher, size=chunks.SIZE),
            functools.cache(lambda: _encode_chunks(_load_teacher(teacher), precision)),
            chunks.SIZE * chunks.MOST,
        ),
    ]
    if student is not None:
        from lib.student import Student

        trained = Student.load(student)
        if trained.tokenizer is None:
            raise ValueError(f"{student}: the tokenizer is missing; add its files to read texts")
        listed.append(
            DenseModel(
                STUDENT,
                name_table(STUDENT, files=models.hash_model(str(student))),
                functools.cache(lambda: _encode_whole(trained, precision)),
                trained.max_positions,
            )
        )
    return {model.name: model for model in listed}


def load_base() -> Any:
    """The base: all layers of the teacher's encoder, extended to read 4,096 tokens."""
    return models.load_layers(profiles.load("lab").student.model_copy(update={"layers": None}))


def find_teacher() -> str:
    """The folder of the teacher, a stock SentenceTransformer."""
    return models.find_model(profiles.load("lab").structural_teacher.model)


def _load_teacher(section: Any) -> Any:
    return encoders.load_structural_teacher(section, models.find_device())


def _encode_whole(student: Any, precision: str) -> Callable[[list[str]], np.ndarray]:
    student = student.to(models.find_device())
    return lambda texts: student.encode(map(chunks.cut_text, texts), precision=precision)


def _encode_beginning(teacher: Any, precision: str) -> Callable[[list[str]], np.ndarray]:
    def encode(texts: list[str]) -> np.ndarray:
        with torch.autocast(models.find_device(), torch.bfloat16, enabled=precision == "bf16"):
            return teacher.encode(map(chunks.cut_text, texts))

    return encode


def _encode_chunks(teacher: Any, precision: str) -> Callable[[list[str]], np.ndarray]:
    teacher.max_tokens = chunks.SIZE + teacher.tokenizer.num_special_tokens_to_add()
    encode = _encode_beginning(teacher, precision)
    return lambda texts: chunks.average_chunks(teacher.tokenizer, encode, texts)


def embed_texts(
    cache: Cache,
    model: DenseModel,
    texts: Sequence[str],
    lengths: Sequence[float],
    advance: Callable[[float, bool], None],
) -> Rows:
    """Vectors of texts. Stored vectors are reused, and a killed process loses one piece at most.

    Parameters
    ----------
    cache : Cache
    model : DenseModel
    texts : sequence of str
        May read texts from disk when needed.
    lengths : sequence of float
        Approximate length of each text in tokens.
    advance : callable
        Called after each piece with its number of tokens, and whether they were computed now.

    Returns
    -------
    Rows
        (texts, dim), read from disk when needed.
    """
    for start, end in _cut_pieces(lengths):
        piece = texts[start:end]
        new = not cache.has_rows(model.table, piece)
        if new:
            cache.rows(model.table, piece, model.make_rows)
        advance(float(np.sum(lengths[start:end])), new)
    return cache.rows(model.table, texts, model.make_rows)["vectors"]


def _cut_pieces(lengths: Sequence[float]) -> list[tuple[int, int]]:
    """(start, end) of runs of texts with at most `PIECE` tokens, or one text."""
    pieces, start, total = [], 0, 0.0
    for row, length in enumerate(lengths):
        if row > start and total + length > PIECE:
            pieces.append((start, row))
            start, total = row, 0.0
        total += length
    return [*pieces, (start, len(lengths))] if len(lengths) else []
