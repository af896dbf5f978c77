"""Students trained on one's own documents by a recipe.

They begin with the layers of the teacher, and learn its vectors of stretches of 126 tokens. The
weights that were best on held-out documents are kept.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from lib.distillation.aligned import (
    AlignedHistory,
    AlignedScheme,
    StretchedDocument,
    average_stretches,
    train_aligned,
)
from lib.distillation.joint_target import fit_joint_target
from lib.experiments import models
from lib.student import Student
from lib.student.positions import repeat_positions
from lib.student.stretches import embed_stretches, find_special_tokens, split_text
from lib.teachers.sbert import SBERT
from lib.vectors.chunks import SIZE
from lib.vectors.dense import find_teacher
from lib.vectors.lexical import WordCounts, centre_rows, fit_lexical, mean_row, scale_rows
from lib.vectors.recipes import Recipe

POSITIONS = 128  # that all-MiniLM was trained on, with the two special tokens
WINDOW, LONGEST = 256, 4096  # tokens: what is read around a token, and of a text
TOKENS = 4000  # of an update
UPDATES, CHECK_EVERY = 200, 25  # of a training; between two looks at held-out documents


class Lesson(NamedTuple):
    """Texts, and their stretches: with the teacher's vectors, and as text in one list."""

    texts: Sequence[str]
    documents: list[StretchedDocument]
    pieces: list[str]


def load_start() -> Student:
    """All layers of the teacher, reading on to 4,096 tokens by the positions it was trained on."""
    student = Student.from_encoder(find_teacher(), None, WINDOW, LONGEST, dropout=0.0)
    repeat_positions(student, POSITIONS)
    student.freeze_token_embeddings()
    return student


@functools.cache
def load_teacher() -> SBERT:
    return SBERT.load(find_teacher(), max_tokens=POSITIONS, device=models.find_device())


def read_lesson(texts: Sequence[str], precision: str = "fp32") -> Lesson:
    """Texts with the teacher's vectors, of norm 1, of their stretches.

    precision: of the teacher, "fp32" or "bf16".
    """
    teacher = load_teacher()
    splits = [split_text(teacher.tokenizer, text, SIZE, LONGEST - 2) for text in texts]
    pieces = [piece for split in splits for piece in split.pieces]
    with torch.autocast(models.find_device(), torch.bfloat16, enabled=precision == "bf16"):
        vectors = scale_rows(teacher.encode(pieces))
    documents = [
        StretchedDocument(split.ids, split.ends, rows)
        for split, rows in zip(splits, _share(vectors, splits), strict=True)
    ]
    return Lesson(texts, documents, pieces)


def _share(rows: np.ndarray, documents: Sequence[Any]) -> list[np.ndarray]:
    """Rows of all stretches, cut into those of each document."""
    return np.split(rows, np.cumsum([len(document.ends) for document in documents])[:-1])


def average_documents(documents: Sequence[StretchedDocument]) -> np.ndarray:
    """(documents, dim) means of their stretches, weighted by length."""
    return np.stack([average_stretches(each.sizes, each.stretches) for each in documents])


def join_targets(train: Lesson, held_out: Lesson, start: np.ndarray) -> tuple[Lesson, Lesson]:
    """Both lessons with targets of teacher and LSA together.

    Parameters
    ----------
    train, held_out : Lesson
        LSA, means and the target are fitted to the first.
    start : (texts, dim)
        Vectors of the texts of `train` by the untrained student.
    """
    words = WordCounts.read(train.texts)
    lsa = fit_lexical(words.counts)
    mean = mean_row(average_documents(train.documents))

    def embed_parts(vectors: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        return centre_rows(vectors, mean), lsa.embed(words.count(texts))

    def embed(lesson: Lesson) -> list[tuple[np.ndarray, np.ndarray]]:
        stretches = np.concatenate([document.stretches for document in lesson.documents])
        wholes = average_documents(lesson.documents)
        return [embed_parts(stretches, lesson.pieces), embed_parts(wholes, lesson.texts)]

    fitted = [np.vstack(parts) for parts in zip(*embed(train), strict=True)]
    # A stretch alone is to the untrained student what it is to its teacher: the same layers.
    stretches = np.concatenate([document.stretches for document in train.documents])
    target = fit_joint_target(*fitted, np.vstack([stretches, start]))

    def replace_targets(lesson: Lesson) -> Lesson:
        stretches, wholes = (target.transform(*parts) for parts in embed(lesson))
        documents = [
            StretchedDocument(document.ids, document.ends, rows, whole)
            for document, rows, whole in zip(
                lesson.documents, _share(stretches, lesson.documents), wholes, strict=True
            )
        ]
        return lesson._replace(documents=documents)

    return replace_targets(train), replace_targets(held_out)


def train_student(
    recipe: Recipe,
    train: Lesson,
    held_out: Lesson,
    *,
    updates: int,
    seed: int,
    precision: str = "fp32",
    checkpoint: Path | None = None,
    advance: Callable[[int, float], Any] = lambda update, loss: None,
) -> tuple[Student, AlignedHistory]:
    """Train a student by a recipe.

    Parameters
    ----------
    recipe : Recipe
    train, held_out : Lesson
        Of `read_lesson`; the second chooses the weights that are kept.
    updates, seed : int
    precision : {"fp32", "bf16"}
    checkpoint, advance
        As in `lib.distillation.aligned.train_aligned`.

    Raises
    ------
    ValueError
        Without texts to train on or to hold out.
    FloatingPointError
        If the loss is not finite.
    """
    student = load_start().to(models.find_device())
    if recipe.joint:
        start = student.encode(train.texts, precision=precision)
        train, held_out = join_targets(train, held_out, start)
    special = find_special_tokens(student.tokenizer)
    scheme = AlignedScheme(
        updates=updates,
        tokens=TOKENS,
        precision=precision,
        similarity=recipe.similarity,
        crops=recipe.crops,
        check_every=CHECK_EVERY,
    )
    history = train_aligned(
        student,
        functools.partial(embed_stretches, student, opening=len(special[0])),
        train.documents,
        held_out.documents,
        special,
        scheme,
        seed=seed,
        checkpoint=checkpoint,
        advance=advance,
    )
    return student, history
