"""The four sets of texts that every model embeds, as texts and as the student's token ids.

"train" and "validation" are documents of the distillation corpus, "train" those that the students see; "all_tasks" is
every text of every task once, "tasks" its beginning: the texts of training and validation, as Chapter 4 embeds no more.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from lib.config.schema import Profile
from lib.data import corpus as dataset_corpus
from lib.data.corpus import Corpus
from lib.experiments import keys, models, task_texts
from lib.store.records import once, store

NAMES = ("train", "validation", "tasks", "all_tasks")


def corpus(profile: Profile) -> Corpus:
    """The distillation corpus, all of it. The store keeps which documents it draws; texts stay in their folders."""
    key = keys.corpus(profile)

    def select() -> dataset_corpus.Selection:
        return dataset_corpus.select(profile, tokenizer=lambda: models.base_student(profile).tokenizer)

    return once("corpus", key, lambda: dataset_corpus.read(profile, store().record("corpus", key, select)))


def texts(name: str, profile: Profile) -> list[str]:
    """The texts of a set, in the order of its rows."""
    if name in ("tasks", "all_tasks"):
        every = task_texts.texts(profile)
        return every if name == "all_tasks" else every[: task_texts.count_for_validation(profile)]
    whole = corpus(profile)
    documents = whole.validation if name == "validation" else whole.train[: profile.training.documents]
    return [document.text for document in documents]


def token_ids(name: str, profile: Profile) -> list[list[int]]:
    """The texts of a set as the student's token ids, truncated at its maximum, special tokens included."""

    def tokenize() -> dict[str, np.ndarray]:
        return _ragged(models.base_student(profile).tokenize(texts(name, profile)))

    return _unragged(store().arrays("tokens", keys.tokens(name, profile), tokenize))


def _ragged(lists: Iterable[list[int]]) -> dict[str, np.ndarray]:
    """Lists of token ids as two arrays, `ids` end to end and `lengths`, the form in which a store keeps them."""
    lists = list(lists)
    ids = np.fromiter(itertools.chain.from_iterable(lists), dtype=np.int32)
    return {"ids": ids, "lengths": np.asarray([len(row) for row in lists], dtype=np.int64)}


def _unragged(arrays: dict[str, np.ndarray]) -> list[list[int]]:
    """The inverse of `_ragged`."""
    ends = np.cumsum(arrays["lengths"])
    return [arrays["ids"][end - length : end].tolist() for end, length in zip(ends, arrays["lengths"], strict=True)]
