"""The tables and lengths of Sections 4.1, 4.2, 5.1 and 5.2 for a profile's own data."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.config.profiles import Profile
from lib.data.corpus import token_statistics
from lib.experiments import keys, models, structural_teacher, task_texts, text_sets
from lib.store.records import fingerprint, store
from lib.store.source_keys import source_key

LIMITS = (384, 512)  # tokens, in the thesis' labels


def corpus_lengths(profile: Profile) -> pd.DataFrame:
    """One row per document of the corpus: source, split, longformer_tokens and sbert_tokens, before truncation."""

    def count() -> dict[str, np.ndarray]:
        tokenizers = models.base_student(profile).tokenizer, structural_teacher.load(profile).tokenizer
        frame = token_statistics(text_sets.corpus(profile), *tokenizers).drop(columns="id")
        return {name: values.to_numpy(str if name in ("source", "split") else int) for name, values in frame.items()}

    key = fingerprint([keys.base(profile), keys.structural_teacher(profile), keys.corpus(profile), _code()])
    return pd.DataFrame(store().arrays("corpus_lengths", key, count))


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
            "tokens_sd": tokens.std(ddof=0),
        }
        rows.append(row | _long(documents, profile))
    return pd.DataFrame(rows)


def task_lengths(profile: Profile) -> pd.DataFrame:
    """One row per task, split and text: longformer_tokens and sbert_tokens; a text counts once in a split."""
    lengths = _task_lengths(profile)
    frames = []
    for task in profile.tasks.names:
        arrays = task_texts.arrays(task, profile)
        if "candidates" in arrays:
            parts = {"test": arrays["candidates"]}
        else:
            parts = {name.removeprefix("inputs_"): rows for name, rows in arrays.items() if name.startswith("inputs_")}
        for split, rows in parts.items():
            rows = np.unique(rows)
            frames.append(
                pd.DataFrame({"task": task, "split": split, **{name: values[rows] for name, values in lengths.items()}})
            )
    return pd.concat(frames, ignore_index=True)


def classification_table(profile: Profile, splits: tuple[str, ...], limit: int | None = None) -> pd.DataFrame:
    """Tables 4.2 and 5.3: examples, inputs, classes and how even they are, per task and split, cut to `limit` each."""
    rows = []
    for task, arrays in _classification(profile):
        for split in splits:
            if f"labels_{split}" not in arrays:
                continue
            chosen, labels = task_texts.examples(arrays, split, limit)
            counts = np.bincount(labels, minlength=len(arrays["classes"]))
            shares = 100 * counts / counts.sum()
            rows.append(
                {
                    "task": task,
                    "split": split,
                    "documents": len(labels),
                    "inputs": "pairs of documents" if chosen.shape[1] == 2 else "documents",
                    "truncated": "yes" if len(labels) < len(arrays[f"labels_{split}"]) else "no",
                    "classes": len(counts),
                    "class_percent_mean": shares.mean(),
                    "class_percent_sd": shares.std(),
                }
            )
    return pd.DataFrame(rows)


def length_table(profile: Profile, splits: tuple[str, ...] = ("train", "test")) -> pd.DataFrame:
    """Table 5.4: examples per task and split, and the share of their texts over the structural teacher's limits."""
    lengths = task_lengths(profile)
    rows = []
    for task, arrays in _classification(profile):
        for split in splits:
            if f"labels_{split}" in arrays:
                chosen = lengths[(lengths["task"] == task) & (lengths["split"] == split)]
                rows.append(
                    {"task": task, "split": split, "documents": len(arrays[f"labels_{split}"])} | _long(chosen, profile)
                )
    return pd.DataFrame(rows)


def retrieval_table(profile: Profile) -> pd.DataFrame:
    """Table 5.5: texts, sources and targets of the retrieval tasks."""
    lengths = task_lengths(profile)
    rows = []
    for task in profile.tasks.names:
        arrays = task_texts.arrays(task, profile)
        if "candidates" not in arrays:
            continue
        targets = np.array([len(arrays[f"targets_{number}"]) for number in range(len(arrays["sources"]))])
        row = {
            "task": task,
            "documents": len(arrays["candidates"]),
            "sources": len(targets),
            "targets_mean": targets.mean(),
            "targets_sd": targets.std(),
        }
        rows.append(row | _long(lengths[lengths["task"] == task], profile))
    return pd.DataFrame(rows)


def _classification(profile: Profile):
    for task in profile.tasks.names:
        arrays = task_texts.arrays(task, profile)
        if "classes" in arrays:
            yield task, arrays


def _long(lengths: pd.DataFrame, profile: Profile) -> dict[str, float]:
    """Percent of texts above each of the teacher's limits, and how many are longer than the student reads (`cut`).

    A profile whose teacher reads less than the thesis' scales both limits alike.
    """
    teacher = profile.structural_teacher
    scale = teacher.max_tokens / teacher.label_tokens
    over = {f"over_{limit}_percent": 100 * float((lengths["sbert_tokens"] > limit * scale).mean()) for limit in LIMITS}
    return over | {"cut": int((lengths["longformer_tokens"] > profile.student.max_positions).sum())}


def _task_lengths(profile: Profile) -> dict[str, np.ndarray]:
    """longformer_tokens (with special tokens) and sbert_tokens (without) of the task texts, before truncation."""

    def count() -> dict[str, np.ndarray]:
        texts = text_sets.texts("all_tasks", profile)
        longformer = models.base_student(profile).tokenizer(texts, verbose=False)["input_ids"]
        return {
            "longformer_tokens": np.array([len(ids) for ids in longformer]),
            "sbert_tokens": structural_teacher.load(profile).lengths(texts),
        }

    key = fingerprint(
        [keys.base(profile), keys.structural_teacher(profile), keys.text_set("all_tasks", profile), _code()]
    )
    return store().arrays("task_lengths", key, count)


def _code() -> str:
    """Names the code that counts."""
    return source_key("lib.findings.data_statistics", stop=keys.CARRIERS)
