"""The four sets of texts that every model embeds, as texts and as the student's token ids.

"train" and "validation" are documents of the distillation corpus, "train" those that the students see; "all_tasks" is
every text of every task once, "tasks" its beginning: the texts of training and validation, as Chapter 4 embeds no more.
"""

from __future__ import annotations

from lib.config.schema import Profile
from lib.experiments import corpora, keys, models, task_texts
from lib.store.records import ragged, store, unragged

NAMES = ("train", "validation", "tasks", "all_tasks")


def texts(name: str, profile: Profile) -> list[str]:
    """The texts of a set, in the order of its rows."""
    if name in ("tasks", "all_tasks"):
        every = task_texts.texts(profile)
        return every if name == "all_tasks" else every[: task_texts.count_for_validation(profile)]
    corpus = corpora.corpus(profile)
    documents = corpus.validation if name == "validation" else corpus.train[: profile.training.documents]
    return [document.text for document in documents]


def token_ids(name: str, profile: Profile) -> list[list[int]]:
    """The texts of a set as the student's token ids, truncated at its maximum, special tokens included."""
    arrays = store().arrays(
        "tokens",
        keys.tokens(name, profile),
        lambda: ragged(models.base_student(profile).tokenize(texts(name, profile))),
    )
    return unragged(arrays)
