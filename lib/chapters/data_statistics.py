"""The tables and lengths of Sections 4.1, 4.2, 5.1 and 5.2 for a profile's own data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from lib.config.profiles import Profile
from lib.distillation.variants import MASK_LABEL
from lib.experiments import keys, models, structural_teacher, text_sets
from lib.store.records import store
from lib.store.source_keys import source_key

LIMITS = (int(MASK_LABEL), 512)  # tokens, in the thesis' labels
_BATCH = 1000  # documents whose texts are in memory together
Arrays = dict[str, np.ndarray]
Batches = Iterator[
    tuple[dict[str, Any], list[str]]
]  # columns that say what texts are, and the texts


def corpus_lengths(profile: Profile) -> pd.DataFrame:
    """One row per document of the corpus: source, split, longformer_tokens and sbert_tokens, before truncation."""
    return _lengths("corpus_lengths", keys.corpus(profile), _corpus(profile), profile)


def corpus_table(lengths: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Tables 4.1 and 5.1: documents, tokens, percent of documents that the structural teacher reads only in part."""
    rows = []
    for split, documents in lengths.groupby("split", sort=False):
        tokens = documents["longformer_tokens"]
        row = {
            "split": split,
            "documents": len(documents),
            "tokens": int(tokens.sum()),
            "tokens_mean": tokens.mean(),
        }
        rows.append(row | {"tokens_sd": tokens.std(ddof=0)} | _long(documents, profile))
    return pd.DataFrame(rows)


def task_lengths(profile: Profile) -> pd.DataFrame:
    """One row per task, split and text (once in a split): longformer_tokens and sbert_tokens, before truncation."""
    batches = (({}, text_sets.texts(name, profile)) for name in ["all_tasks"])
    lengths, frames = (
        _lengths("task_lengths", keys.text_set("all_tasks", profile), batches, profile),
        [],
    )
    for task in profile.tasks.names:
        arrays = text_sets.task(task, profile)
        inputs = {
            name.removeprefix("inputs_"): rows
            for name, rows in arrays.items()
            if name.startswith("inputs_")
        }
        for split, rows in (
            {"test": arrays["candidates"]} if "candidates" in arrays else inputs
        ).items():
            frames.append(lengths.loc[np.unique(rows)].assign(task=task, split=split))
    return pd.concat(frames, ignore_index=True)[["task", "split", *lengths]]


def classification_table(
    profile: Profile, splits: tuple[str, ...], limit: int | None = None
) -> pd.DataFrame:
    """Tables 4.2 and 5.3: examples, inputs, classes and how even they are, per task and split, cut to `limit` each."""
    rows = []
    for task, split, arrays in _classification(profile, splits):
        chosen, labels = text_sets.examples(arrays, split, limit)
        shares = 100 * np.bincount(labels, minlength=len(arrays["classes"])) / len(labels)
        inputs = "pairs of documents" if chosen.shape[1] == 2 else "documents"
        truncated = "yes" if len(labels) < len(arrays[f"labels_{split}"]) else "no"
        rows.append(
            (task, split, len(labels), inputs, truncated, len(shares), shares.mean(), shares.std())
        )
    columns = [
        "task",
        "split",
        "documents",
        "inputs",
        "truncated",
        "classes",
        "class_percent_mean",
        "class_percent_sd",
    ]
    return pd.DataFrame(rows, columns=columns)


def length_table(profile: Profile) -> pd.DataFrame:
    """Table 5.4: examples per task and split, and the share of their texts over the structural teacher's limits."""
    lengths = dict(iter(task_lengths(profile).groupby(["task", "split"])))
    return pd.DataFrame(
        {"task": task, "split": split, "documents": len(arrays[f"labels_{split}"])}
        | _long(lengths[task, split], profile)
        for task, split, arrays in _classification(profile, ("train", "test"))
    )


def retrieval_table(profile: Profile) -> pd.DataFrame:
    """Table 5.5: texts, sources and targets of the retrieval tasks."""
    rows = []
    for task, lengths in task_lengths(profile).groupby("task", sort=False):
        arrays = text_sets.task(task, profile)
        if "candidates" in arrays:
            targets = np.array(
                [len(arrays[f"targets_{number}"]) for number in range(len(arrays["sources"]))]
            )
            row = {"task": task, "documents": len(arrays["candidates"]), "sources": len(targets)}
            rows.append(
                row
                | {"targets_mean": targets.mean(), "targets_sd": targets.std()}
                | _long(lengths, profile)
            )
    return pd.DataFrame(rows)


def scale(profile: Profile) -> float:
    """What brings the profile's lengths to the thesis' axis: the thesis' limit over the structural teacher's, or 1."""
    return max(1.0, LIMITS[0] / profile.structural_teacher.max_tokens)


def _classification(profile: Profile, splits: tuple[str, ...]) -> Iterator[tuple[str, str, Arrays]]:
    for task in profile.tasks.names:
        arrays = text_sets.task(task, profile)
        yield from (
            (task, split, arrays)
            for split in splits
            if "classes" in arrays and f"labels_{split}" in arrays
        )


def _long(lengths: pd.DataFrame, profile: Profile) -> dict[str, float]:
    """Percent of texts above the limits, scaled to the profile's teacher; `cut` are longer than the student reads."""
    tokens = lengths["sbert_tokens"] * scale(profile)
    over = {f"over_{limit}_percent": 100 * float((tokens > limit).mean()) for limit in LIMITS}
    return over | {"cut": int((lengths["longformer_tokens"] > profile.student.max_positions).sum())}


def _corpus(profile: Profile) -> Batches:
    corpus = text_sets.corpus(profile)
    for split, documents in (("train", corpus.train), ("validation", corpus.validation)):
        for start in range(0, len(documents), _BATCH):
            batch = documents[start : start + _BATCH]
            yield (
                {"source": [document.source for document in batch], "split": split},
                [doc.text for doc in batch],
            )


def _lengths(kind: str, texts: Any, batches: Batches, profile: Profile) -> pd.DataFrame:
    """A row per text: its labels and its lengths, kept under the key of the texts, both tokenizers and this code."""

    def count() -> Arrays:
        tokenizer, teacher = (
            models.base_student(profile).tokenizer,
            structural_teacher.load(profile),
        )
        frames = []
        for labels, batch in batches:
            longformer = [len(ids) for ids in tokenizer(batch, verbose=False)["input_ids"]]
            labels |= {"longformer_tokens": longformer, "sbert_tokens": teacher.lengths(batch)}
            frames.append(pd.DataFrame(labels))
        columns = pd.concat(frames).items()
        return {
            name: values.to_numpy(int if values.dtype == int else str) for name, values in columns
        }

    code = source_key("lib.chapters.data_statistics", stop=keys.NOT_ENTERED)
    tokenizers = [keys.base(profile), keys.structural_teacher(profile)]
    recipe = {"kind": kind, "tokenizers": tokenizers, "texts": texts, "code": code}
    return pd.DataFrame(store().arrays(recipe, count))
