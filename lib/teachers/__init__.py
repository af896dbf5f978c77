"""The two teachers. Imported on first use: transformers and gensim take seconds to import."""

from __future__ import annotations

from importlib import import_module

_HOME = {"SBERT": "lib.teachers.sbert", "ParagraphVector": "lib.teachers.paragraph_vector"}


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'lib.teachers' has no attribute '{name}'; it has {', '.join(_HOME)}")
    return getattr(import_module(_HOME[name]), name)
