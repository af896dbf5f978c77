"""The lengths of a profile's own texts (Sections 4.1, 4.2, 5.1 and 5.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lib.data.corpus import Corpus
from lib.data.task_files import Task
from lib.experiments.bench import Texts
from lib.experiments.students import Base

Tasks = Mapping[str, Task]


def count_corpus_tokens(corpus: Corpus, base: Base) -> pd.DataFrame:
    """A row for each document of the corpus, with its lengths before truncation.

    Columns: source, split, longformer_tokens, sbert_tokens.
    """
    frames = []
    for split, documents in (("train", corpus.train), ("validation", corpus.validation)):
        sources = [document.source for document in documents]
        frames.append(_count_tokens(Texts(documents), base, source=sources, split=split))
    return pd.concat(frames, ignore_index=True)


def count_task_tokens(tasks: Tasks, base: Base) -> pd.DataFrame:
    """A row for each task, split and distinct text, with its lengths before truncation.

    Columns: task, split, longformer_tokens, sbert_tokens. All texts of a retrieval are in "test".
    """
    frames = []
    for name, task in tasks.items():
        splits = {"test": [list(task.texts)]} if task.kind == "retrieval" else task.inputs
        for split, inputs in splits.items():
            ids = dict.fromkeys(text_id for example in inputs for text_id in example)
            texts = [task.texts[text_id] for text_id in ids]
            frames.append(_count_tokens(texts, base, task=name, split=split))
    return pd.concat(frames, ignore_index=True)


def _count_tokens(texts: Sequence[str], base: Base, **facts: Any) -> pd.DataFrame:
    """The facts, `longformer_tokens`, with special tokens, and `sbert_tokens`, without."""
    whole, read = base.tokens(texts)["whole"], base.teacher.lengths(texts)
    return pd.DataFrame(facts | {"longformer_tokens": whole[:], "sbert_tokens": read[:]})
