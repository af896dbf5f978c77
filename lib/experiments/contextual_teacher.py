"""The contextual teachers, Paragraph Vectors: trained on the corpus, their embeddings kept in the store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lib.config.schema import Profile
from lib.experiments import keys, text_sets
from lib.store.records import store
from lib.teachers.labels import CONTEXTUAL_TEACHERS


def embeddings(label: str, name: str, profile: Profile) -> np.ndarray:
    """(texts, dim) embeddings of a Paragraph Vector for a set of texts; a compound is its two parts side by side."""
    parts = [paragraph_vector(part, profile, name == "all_tasks") for part in label.split("+")]
    return np.concatenate([part[name] for part in parts], axis=1)


def paragraph_vector(label: str, profile: Profile, everything: bool = False) -> dict[str, np.ndarray]:
    """A single Paragraph Vector trained on the corpus: its embeddings by set, `vocabulary_size`, `seconds` of training,
    `documents` it saw and how many of them gensim `truncated`. One that teaches no student embeds task texts alone."""
    teaches = any(label in teacher.split("+") for teacher in CONTEXTUAL_TEACHERS.values())
    sets = ("train", "validation", "all_tasks") if teaches else ("all_tasks" if everything else "tasks",)
    return store().arrays(keys.paragraph_vector(label, profile, sets), lambda: _train(label, sets, profile))


def _train(label: str, sets: tuple[str, ...], profile: Profile) -> dict[str, np.ndarray]:
    from lib.teachers.paragraph_vector import ParagraphVector

    section = profile.contextual_teacher
    model = ParagraphVector.parse(label, width=profile.width)
    documents = text_sets.corpus(profile).train[: section.documents]
    model = model.train(_Texts(documents), **section.model_dump(exclude={"documents"}))
    numbers = {name: getattr(model, name) for name in ("vocabulary_size", "seconds", "truncated")}
    vectors = {name: model.encode(text_sets.texts(name, profile)) for name in sets}
    if "all_tasks" in vectors:  # the others of which begin with them
        vectors["tasks"] = vectors["all_tasks"][: len(text_sets.texts("tasks", profile))]
    return {name: np.asarray(value) for name, value in (vectors | numbers | {"documents": len(documents)}).items()}


@dataclass
class _Texts:
    """The texts of documents, read one at a time, as often as asked for."""

    documents: Sequence

    def __iter__(self) -> Iterator[str]:
        return (document.text for document in self.documents)
