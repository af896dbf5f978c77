"""The lengths of a profile's own texts before truncation (Sections 4.1, 4.2, 5.1 and 5.2)."""

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd

from lib.data.corpus import Corpus
from lib.data.task_files import Task
from lib.experiments.bench import Texts
from lib.experiments.students import Base


def count_corpus_tokens(corpus: Corpus, base: Base) -> pd.DataFrame:
    """A row for each document: source, split, longformer_tokens, sbert_tokens."""
    frames = []
    for split, documents in (("train", corpus.train), ("validation", corpus.validation)):
        facts = {"source": [document.source for document in documents], "split": split}
        frames.append(_count_tokens(Texts(documents), base, facts))
    return pd.concat(frames, ignore_index=True)


def count_task_tokens(tasks: Mapping[str, Task], base: Base) -> pd.DataFrame:
    """A row for each distinct text of a split: task, split, longformer_tokens, sbert_tokens.

    All texts of a retrieval are in "test".
    """
    frames = []
    for name, task in tasks.items():
        splits = {"test": [list(task.texts)]} if task.kind == "retrieval" else task.inputs
        for split, inputs in splits.items():
            texts = [task.texts[key] for key in dict.fromkeys(itertools.chain(*inputs))]
            frames.append(_count_tokens(texts, base, {"task": name, "split": split}))
    return pd.concat(frames, ignore_index=True)


def _count_tokens(texts: Sequence[str], base: Base, facts: dict) -> pd.DataFrame:
    """The facts, `longformer_tokens`, with special tokens, and `sbert_tokens`, without."""
    whole, read = base.tokens(texts)["whole"], base.teacher.lengths(texts)
    return pd.DataFrame(facts | {"longformer_tokens": whole[:], "sbert_tokens": read[:]})
