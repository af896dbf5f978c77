"""The distillation corpus of a profile. The store keeps which documents it draws; texts stay in their folders."""

from __future__ import annotations

from lib.config.schema import Profile
from lib.data import corpus as dataset_corpus
from lib.data.corpus import Corpus
from lib.experiments import keys, models
from lib.store.records import once, store


def corpus(profile: Profile) -> Corpus:
    """The whole distillation corpus, training and validation documents."""
    return once("corpus", keys.corpus(profile), lambda: _read(profile))


def _read(profile: Profile) -> Corpus:
    def select() -> dataset_corpus.Selection:
        return dataset_corpus.select(profile, tokenizer=lambda: models.base_student(profile).tokenizer)

    return dataset_corpus.read(profile, store().record("corpus", keys.corpus(profile), select))
