"""The tables and lengths of Sections 4.1, 4.2, 5.1 and 5.2 for a profile's own data."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from lib.data.task_files import Task, downsample
from lib.distillation.variants import MASK_LABEL
from lib.experiments.bench import Bench, Texts

LIMITS = (int(MASK_LABEL), 512)  # tokens, on the thesis' scale


def count_corpus_tokens(bench: Bench) -> pd.DataFrame:
    """A row for each document of the corpus, with its lengths before truncation.

    Columns: source, split, longformer_tokens, sbert_tokens.
    """
    frames = []
    for split in ("train", "validation"):
        documents = getattr(bench.corpus, split)
        lengths = bench.count_tokens(Texts(documents))
        lengths.insert(0, "source", [document.source for document in documents])
        lengths.insert(1, "split", split)
        frames.append(lengths)
    return pd.concat(frames, ignore_index=True)


def tabulate_corpus(lengths: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Tables 4.1 and 5.1: documents, tokens, and the share of documents above each of `LIMITS`.

    `lengths` is what `count_corpus_tokens` returns.
    """
    rows = []
    for split, documents in lengths.groupby("split", sort=False):
        tokens = documents["longformer_tokens"]
        row = {
            "split": split,
            "documents": len(documents),
            "tokens": int(tokens.sum()),
            "tokens_mean": tokens.mean(),
            "tokens_sd": tokens.std(ddof=0),
        }
        rows.append(row | _count_long(documents, bench))
    return pd.DataFrame(rows)


def count_task_tokens(bench: Bench) -> pd.DataFrame:
    """A row for each task, split and distinct text, with its lengths before truncation.

    Columns: task, split, longformer_tokens, sbert_tokens. All texts of a retrieval are in "test".
    """
    frames = []
    for name, task in bench.tasks.items():
        for split, ids in _list_texts(task).items():
            lengths = bench.count_tokens([task.texts[text_id] for text_id in ids])
            lengths.insert(0, "task", name)
            lengths.insert(1, "split", split)
            frames.append(lengths)
    return pd.concat(frames, ignore_index=True)


def tabulate_classifications(
    bench: Bench, splits: Sequence[str], limit: int | None = None
) -> pd.DataFrame:
    """Tables 4.2 and 5.3: examples and classes of each task and split.

    Parameters
    ----------
    limit
        At most this many examples of each split.

    Returns
    -------
    DataFrame
        task, split, documents (examples), inputs, truncated (whether the limit removed examples),
        classes, class_percent_mean and class_percent_sd (of the classes' shares).
    """
    rows = []
    for name, split, task in _list_classifications(bench, splits):
        labels = task.labels[split]
        kept = labels if limit is None else labels[downsample(labels, limit)]
        shares = 100 * np.bincount(kept, minlength=len(task.classes)) / len(kept)
        pairs = len(task.inputs[split][0]) == 2
        row = {
            "task": name,
            "split": split,
            "documents": len(kept),
            "inputs": "pairs of documents" if pairs else "documents",
            "truncated": "yes" if len(kept) < len(labels) else "no",
            "classes": len(shares),
            "class_percent_mean": shares.mean(),
            "class_percent_sd": shares.std(),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def tabulate_lengths(bench: Bench) -> pd.DataFrame:
    """Table 5.4: examples of each task and split, and the share of texts above `LIMITS`."""
    lengths = dict(iter(count_task_tokens(bench).groupby(["task", "split"])))
    rows = []
    for name, split, task in _list_classifications(bench, ("train", "test")):
        row = {"task": name, "split": split, "documents": len(task.labels[split])}
        rows.append(row | _count_long(lengths[name, split], bench))
    return pd.DataFrame(rows)


def tabulate_retrievals(bench: Bench) -> pd.DataFrame:
    """Table 5.5: texts, sources and targets of the retrieval tasks."""
    lengths = dict(iter(count_task_tokens(bench).groupby("task")))
    rows = []
    for name in bench.retrievals:
        task = bench.tasks[name]
        targets = np.array(
            [sum(target in task.texts for target in named) for named in task.relevant.values()]
        )
        row = {
            "task": name,
            "documents": len(task.texts),
            "sources": len(targets),
            "targets_mean": targets.mean(),
            "targets_sd": targets.std(),
        }
        rows.append(row | _count_long(lengths[name], bench))
    return pd.DataFrame(rows)


def find_scale(bench: Bench) -> float:
    """The factor from the profile's lengths to the thesis' scale, at least 1.

    It is the ratio of the two structural teachers' limits.
    """
    return max(1.0, LIMITS[0] / bench.profile.structural_teacher.max_tokens)


def _list_texts(task: Task) -> dict[str, list[str]]:
    """Split -> ids of its texts, each once."""
    if task.kind == "retrieval":
        return {"test": list(task.texts)}
    ids = {}
    for split, inputs in task.inputs.items():
        ids[split] = list(dict.fromkeys(text_id for example in inputs for text_id in example))
    return ids


def _list_classifications(bench: Bench, splits: Sequence[str]) -> Iterator[tuple[str, str, Task]]:
    for name in bench.classifications:
        task = bench.tasks[name]
        for split in splits:
            if split in task.labels:
                yield name, split, task


def _count_long(lengths: pd.DataFrame, bench: Bench) -> dict[str, float]:
    """Percent of texts above `LIMITS` on the thesis' scale, and how many texts the student cuts."""
    tokens = lengths["sbert_tokens"] * find_scale(bench)
    over = {f"over_{limit}_percent": 100 * float((tokens > limit).mean()) for limit in LIMITS}
    return over | {
        "cut": int((lengths["longformer_tokens"] > bench.profile.student.max_positions).sum())
    }
