"""The models of the table: dense ones, words, and combinations that are fitted to documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lib.config import profiles
from lib.config.schema import Profile
from lib.experiments.base import Base
from lib.experiments.combined import Centred, Joined
from lib.experiments.devices import has_bfloat16
from lib.experiments.lexical import Words
from lib.experiments.model import Model
from lib.experiments.structural import Teacher
from lib.store import Store
from lib.teachers.chunks import MOST, SIZE
from lib.teachers.words import DIM
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT, TFIDF

SPECIAL = 2  # tokens of all-MiniLM around each piece


@dataclass(frozen=True)
class Dense:
    """A dense model of the table, and how many tokens of a text it reads."""

    name: str
    model: Model
    longest: int


def list_dense(
    store: Store, profile: Profile | None = None, student: Path | None = None
) -> dict[str, Dense]:
    """The dense models by name, with the teacher and the encoder of a profile, by default "lab".

    `student` is the folder of a trained one, which is added and loaded now. Raises `ValueError`, in
    one line, if it holds no student, is damaged, or lacks a tokenizer.
    """
    profile = profile or profiles.load("lab")
    precision = "bf16" if has_bfloat16() else "fp32"
    teacher = Teacher(store, profile.structural_teacher, precision=precision)

    def read_whole(name: str, **changes: Any) -> Dense:
        changes |= {"layers": None, "language_model": None}
        section = profile.student.model_copy(update=changes)
        base = Base(store, section, precision, [], [], teacher)
        return Dense(name, base, section.max_positions)

    dense = [
        read_whole(BASE),
        Dense(CUT, teacher, profile.structural_teacher.max_tokens),
        Dense(CHUNKS, replace(teacher, chunk=SIZE + SPECIAL), SIZE * MOST),
    ]
    if student is not None:
        from lib.student import Student

        trained = Student.load(student)
        if trained.tokenizer is None:
            raise ValueError(f"{student}: the tokenizer is missing; add its files to read texts")
        facts = {"base": "longformer", "model": str(student), "revision": None}
        dense.append(read_whole(STUDENT, max_positions=trained.max_positions, **facts))
    return {each.name: each for each in dense}


def fit_words(store: Store, documents: Sequence[str]) -> dict[str, Model]:
    """TF-IDF and LSA of documents."""
    return {TFIDF: Words(store, documents), LSA: Words(store, documents, DIM, centred=True)}


def combine(
    dense: Mapping[str, Dense], words: Mapping[str, Model], texts: Sequence[str]
) -> dict[str, Model]:
    """All models of the table by name; the mean vector of `texts` is subtracted."""
    models = {name: each.model for name, each in dense.items()}
    store = models[BASE].store
    centred = Centred(store, models[BASE], texts)
    models |= {CHUNKS: Centred(store, models[CHUNKS], texts), **words}
    return models | {BOTH: Joined(store, (centred, words[LSA]), scaled=True)}
