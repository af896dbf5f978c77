"""Embeddings of the baselines that the thesis does not have: TF-IDF, and the mean of SBERT over a text's pieces."""

from __future__ import annotations

import numpy as np

from lib.config.schema import Profile
from lib.evaluation import baselines
from lib.experiments import structural_teacher, text_sets

TFIDF_FEATURES = 1024  # as wide as the widest embedding of the mini profile


def tfidf(name: str, profile: Profile) -> np.ndarray:
    """(texts, TFIDF_FEATURES) of a set of texts; words and their frequencies come from the students' documents."""
    corpus, texts = text_sets.texts("train", profile), text_sets.texts(name, profile)
    return baselines.tfidf(corpus, texts, features=TFIDF_FEATURES)


def sbert_chunks(name: str, profile: Profile) -> np.ndarray:
    """(texts, dim) of a set of texts: the structural teacher over each text in pieces, averaged."""
    return baselines.mean_of_chunks(structural_teacher.load(profile), text_sets.texts(name, profile))
