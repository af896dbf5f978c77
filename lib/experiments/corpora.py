"""The distillation corpus of a profile, read once and kept in the store."""

from __future__ import annotations

from lib.config import paths
from lib.config.schema import Profile
from lib.data import corpus as sources
from lib.data.corpus import Corpus, Document
from lib.experiments import keys, models
from lib.store.records import once, store


def corpus(profile: Profile) -> Corpus:
    """The whole distillation corpus, training and validation documents."""
    return once("corpus", keys.corpus(profile), lambda: _stored(profile))


def _stored(profile: Profile) -> Corpus:
    if profile.corpus.source == "hub":  # the library `datasets` keeps these on disk; they are never all held
        return _read(profile)
    stored = store().record("corpus", keys.corpus(profile), lambda: _plain(_read(profile)))
    return Corpus(*([Document(**document) for document in stored[split]] for split in ("train", "validation")))


def _read(profile: Profile) -> Corpus:
    section = profile.corpus
    sizes = section.model_dump(include={"train_documents", "validation_documents", "seed"})
    if section.source == "gensim":
        return sources.gensim_corpus(**sizes)
    sizes |= section.model_dump(include={"datasets", "min_news_tokens"})
    tokenizer = models.base_student(profile).tokenizer if section.min_news_tokens else None
    if section.source == "folder":
        return sources.folder_corpus(paths.data_root(profile), tokenizer=tokenizer, **sizes)
    return sources.hub_corpus(tokenizer=tokenizer, **sizes)


def _plain(corpus: Corpus) -> dict[str, list[dict[str, str]]]:
    return {split: [vars(document) for document in getattr(corpus, split)] for split in ("train", "validation")}
