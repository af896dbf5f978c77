"""The contextual teachers, Paragraph Vectors: trained on the corpus, their embeddings kept in the store."""

import functools
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.config.schema import Profile
from lib.experiments import keys, text_sets
from lib.store.files import write_atomically
from lib.store.records import store
from lib.teachers.labels import CONTEXTUAL_TEACHERS

EMBEDDED = 2000  # documents, as the longest trainings of mini, mini_medium and lab read; gensim trains more slowly


@dataclass(frozen=True)
class SideBySide:
    """Arrays with the same rows, put side by side where rows are asked for: they may be larger than memory."""

    parts: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.concatenate([part[rows] for part in self.parts], axis=-1)


def embeddings(label: str, name: str, profile: Profile) -> np.ndarray | SideBySide:
    """(texts, dim) embeddings of a Paragraph Vector for a set of texts; a compound is its two parts side by side."""
    parts = [
        paragraph_vector(part, profile, name == "all_tasks")[name] for part in label.split("+")
    ]
    parts = [part[: profile.training.documents] for part in parts] if name == "train" else parts
    return SideBySide(parts) if name == "train" else np.concatenate(parts, axis=1)


def embedded_documents(profile: Profile) -> int:
    """How many training documents a Paragraph Vector that teaches embeds: the profile's, and up to `EMBEDDED`, so that
    it need not be trained again for a profile that trains its students on more of the corpus."""
    return max(profile.training.documents, min(profile.corpus.train_documents, EMBEDDED))


def paragraph_vector(
    label: str, profile: Profile, everything: bool = False
) -> dict[str, np.ndarray]:
    """A single Paragraph Vector trained on the corpus: its embeddings by set, `vocabulary_size`, `seconds` of training,
    `documents` it saw and how many of them gensim `truncated`. One that teaches no student embeds task texts alone, of
    the others "train" has `embedded_documents` rows."""
    teaches = any(label in teacher.split("+") for teacher in CONTEXTUAL_TEACHERS.values())
    sets = (
        ("train", "validation", "all_tasks")
        if teaches
        else ("all_tasks" if everything else "tasks",)
    )
    recipe = keys.paragraph_vector(label, profile)
    model = functools.cache(lambda: _model(label, store().path(recipe, ".model"), profile))
    numbers = ("vocabulary_size", "seconds", "truncated", "documents")
    arrays = store().arrays(
        recipe, lambda: {name: np.array(getattr(model(), name)) for name in numbers}
    )

    def embed(texts: Sequence[str]) -> dict[str, np.ndarray]:
        return {
            "vectors": model().encode(texts) if texts else np.empty((0, model().dim), np.float32)
        }

    longest = profile.changed("training", documents=embedded_documents(profile))
    for name in sets:
        texts = functools.partial(text_sets.texts, name, longest)
        arrays[name] = store().mapped(keys.paragraph_vector(label, longest, (name,)), texts, embed)[
            "vectors"
        ]
    if "all_tasks" in arrays:  # the others of which begin with them
        arrays["tasks"] = arrays["all_tasks"][: len(text_sets.texts("tasks", profile))]
    store().path(recipe, ".model").unlink(missing_ok=True)
    return arrays


def _model(label: str, path: Path, profile: Profile) -> Any:
    """The Paragraph Vector as trained; its file is for who is killed before all texts are embedded."""
    from lib.teachers.paragraph_vector import ParagraphVector

    if path.is_file():
        return pickle.loads(path.read_bytes())
    section = profile.contextual_teacher
    texts = text_sets.Texts(text_sets.corpus(profile).train[: section.documents])
    model = ParagraphVector.parse(label, width=profile.width)
    write_atomically(
        path, pickle.dumps(model.train(texts, **section.model_dump(exclude={"documents"})))
    )
    return model
