"""The models of the table: dense ones, words, and combinations that are fitted to documents."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tqdm import tqdm

from lib.config import profiles
from lib.config.schema import Profile
from lib.experiments.embedders import Centred, Joined, Teacher, Words
from lib.experiments.model import Model, has_bfloat16
from lib.experiments.students import Base
from lib.store import Store
from lib.teachers.chunks import MOST, SIZE
from lib.teachers.words import DIM
from lib.vectors.names import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT, TFIDF

SPECIAL = 2  # tokens of all-MiniLM around each piece
PIECE = 64  # texts that are embedded before the bar moves


def list_dense(
    store: Store, profile: Profile | None = None, student: Path | None = None
) -> dict[str, Model]:
    """The dense models by name, with the teacher and the encoder of a profile, by default "lab".

    `student` is the folder of a trained one; `ValueError`, in one line, if there is none.
    """
    profile = profile or profiles.load("lab")
    precision = "bf16" if has_bfloat16() else "fp32"
    teacher = Teacher(store, profile.structural_teacher, precision=precision)
    section = profile.student.model_copy(update={"layers": None, "language_model": None})
    base = Base(store, section, precision, [], [], teacher)
    models = {BASE: base, CUT: teacher, CHUNKS: replace(teacher, chunk=SIZE + SPECIAL)}
    if student is not None:
        from lib.student import Student

        facts = {"base": "longformer", "model": str(student), "revision": None}
        facts["max_positions"] = Student.load(student).max_positions
        models[STUDENT] = replace(base, section=section.model_copy(update=facts))
    return models


def count_read(model: Model) -> int:
    """How many tokens of a text a dense model reads."""
    if isinstance(model, Teacher):
        return SIZE * MOST if model.chunk else model.section.max_tokens
    return model.section.max_positions


def fit_words(store: Store, documents: Sequence[str]) -> dict[str, Model]:
    """TF-IDF and LSA of documents."""
    return {TFIDF: Words(store, documents), LSA: Words(store, documents, DIM, centred=True)}


def combine(
    dense: Mapping[str, Model], words: Mapping[str, Model], texts: Sequence[str]
) -> dict[str, Model]:
    """All models of the table by name; the mean vector of `texts` is subtracted."""
    store = dense[BASE].store
    base, chunks = (Centred(store, dense[name], texts) for name in (BASE, CHUNKS))
    both = Joined(store, (base, words[LSA]), scaled=True)
    return {**dense, CHUNKS: chunks, **words, BOTH: both}


def embed_pieces(models: Iterable[Model], texts: Sequence[str]) -> None:
    """Embed texts with all that the models are made of, so that a killed run goes on there."""
    for part, read in itertools.chain.from_iterable(model.list_work(texts) for model in models):
        if not part.is_embedded(read):
            starts = range(0, len(read), PIECE)
            for start in tqdm(starts, desc="embedding", leave=False, disable=None):
                part.embed(read[start : start + PIECE])
