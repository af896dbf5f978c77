"""The structural teacher and its embeddings of all texts, computed once and kept in the store."""

import functools
from collections.abc import Sequence

import numpy as np

from lib.config.schema import Profile
from lib.experiments import keys, models, text_sets
from lib.store.records import store


def load(profile: Profile):
    """The structural teacher, its weights checked."""
    from lib.teachers.sbert import SBERT

    section = profile.structural_teacher
    pinned = {"sha256": section.sha256, "revision": section.revision}
    return SBERT.load(
        section.model, max_tokens=section.max_tokens, **pinned, device=models.device()
    )


def embeddings(name: str, profile: Profile) -> dict[str, np.ndarray]:
    """Of a set of texts: `embeddings` (texts, dim) and `lengths` (texts,), in its tokens before truncation."""
    teacher = functools.cache(lambda: load(profile))

    def embed(texts: Sequence[str]) -> dict[str, np.ndarray]:
        ids, lengths = teacher().tokenize(texts)
        return {
            "embeddings": teacher().embed(ids, profile.structural_teacher.batch_size),
            "lengths": lengths,
        }

    recipe = {
        "kind": "structural",
        "teacher": keys.structural_teacher(profile),
        "texts": keys.text_set(name, profile),
    }
    return store().mapped(recipe, lambda: text_sets.texts(name, profile), embed)
