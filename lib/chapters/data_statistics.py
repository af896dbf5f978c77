"""The lengths and tables of Sections 4.1, 4.2, 5.1 and 5.2 for a profile's own data."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.config.schema import Profile
from lib.data.corpus import Corpus
from lib.data.examples import downsample
from lib.data.task_files import Task
from lib.distillation.variants import MASK_LABEL
from lib.experiments.bench import Texts
from lib.experiments.students import Base

LIMITS = (int(MASK_LABEL), 512)  # tokens, on the thesis' scale
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


def count_long(lengths: pd.DataFrame, keys: list[str], profile: Profile) -> pd.DataFrame:
    """For each group, percent of texts above `LIMITS`, and how many texts the student cuts."""
    tokens = lengths["sbert_tokens"] * find_scale(profile)
    over = {f"over_{limit}_percent": tokens > limit for limit in LIMITS}
    cut = lengths["longformer_tokens"] > profile.student.max_positions
    groups = lengths[keys].assign(**over, cut=cut).groupby(keys, sort=False)
    return (100 * groups[list(over)].mean()).assign(cut=groups["cut"].sum()).reset_index()


def find_scale(profile: Profile) -> float:
    """The ratio of the thesis' and the profile's limit of the structural teacher, at least 1."""
    return max(1.0, LIMITS[0] / profile.structural_teacher.max_tokens)


def tabulate_corpus(lengths: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Tables 4.1 and 5.1, from `count_corpus_tokens`: documents, tokens, and long documents."""
    tokens = lengths.groupby("split", sort=False)["longformer_tokens"]
    table = pd.DataFrame({"documents": tokens.size(), "tokens": tokens.sum()})
    table = table.assign(tokens_mean=tokens.mean(), tokens_sd=tokens.std(ddof=0))
    return table.reset_index().merge(count_long(lengths, ["split"], profile), on="split")


def tabulate_classifications(
    tasks: Tasks, splits: Sequence[str], limit: int | None = None
) -> pd.DataFrame:
    """Tables 4.2 and 5.3: examples and classes of each classification and split.

    Columns: task, split, documents (examples), inputs, truncated (whether the limit removed
    examples), classes, class_percent_mean and class_percent_sd (of the classes' shares).
    """
    rows = []
    for name, task in tasks.items():
        for split in (split for split in splits if split in task.labels):
            labels = task.labels[split]
            kept = labels if limit is None else labels[downsample(labels, limit)]
            shares = 100 * np.bincount(kept, minlength=len(task.classes)) / len(kept)
            inputs = "documents" if len(task.inputs[split][0]) == 1 else "pairs of documents"
            truncated = "yes" if len(kept) < len(labels) else "no"
            facts = (len(kept), inputs, truncated, len(shares), shares.mean(), shares.std())
            rows.append((name, split, *facts))
    columns = ["task", "split", "documents", "inputs", "truncated", "classes"]
    return pd.DataFrame(rows, columns=[*columns, "class_percent_mean", "class_percent_sd"])
