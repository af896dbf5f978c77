"""Evaluation tasks: four kinds, from dataset folders, under any name.

`read(profile)` gives a profile's tasks. Those with the thesis' names (Section 5.2.1, `lib.config.roles`) play these
roles in its figures.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lib.config.roles import ROLES
from lib.data import sources, task_files
from lib.data.dataset_folder import Documents
from lib.data.task_files import SPLITS

if TYPE_CHECKING:
    from lib.config.schema import Profile

__all__ = ["SPLITS", "Task", "classification_names", "downsample", "read", "retrieval_names"]


@dataclass(frozen=True)
class Task:
    """One task. A text of two tasks is the same one where both its id and its content are.

    Attributes:
        name: in the profile.
        kind: "single" or "pair" (classifications), "retrieval" or "clustering".
        texts: {id: text}, every text that the task uses, in the order of its documents.
        inputs: classification: {split: [(id,) or (a, b), ...]}.
        labels: classification: {split: (examples,) int64, indices into `classes`}.
        classes: classification: the names of the classes, sorted.
        folds: number of stratified cross-validation folds over "train", of a task without a validation split.
        groups: {id: what a document shares with others}; folds never cut a group. Empty where documents have none.
        relevant: retrieval: {source id: [target ids]}; all texts are candidates.
        clusters: clustering: {id: cluster}.
        notes: what a reader of results should know, e.g. that validation examples were taken from train.
    """

    name: str
    kind: str
    texts: dict[str, str]
    inputs: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    labels: dict[str, np.ndarray] = field(default_factory=dict)
    classes: list[str] = field(default_factory=list)
    folds: int | None = None
    groups: dict[str, str] = field(default_factory=dict)
    relevant: dict[str, list[str]] = field(default_factory=dict)
    clusters: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def example_groups(self, split: str) -> np.ndarray | None:
        """(examples,) int64, equal where examples of a split share a group; None if no document has one."""
        return task_files.grouping(self.inputs[split], self.groups)


def read(profile: Profile) -> dict[str, Task]:
    """The profile's tasks by name, in the order of `profile.tasks.names`.

    Raises:
        ValueError: anything wrong in a file, with its name and line; a role of the thesis given to another kind.
    """
    root, tasks = sources.root(profile), {}
    folders = {name: Documents(root, name) for name in sorted(sources.task_datasets(profile))}
    _check_roles(profile)
    for name in profile.tasks.names:
        entry = profile.tasks.folders[name]
        documents = folders[entry.folder.partition("/")[0]]
        path = task_files.folder(root, entry)
        files = task_files.read(path, documents, folds=entry.folds, seed=profile.tasks.seed)
        classes = sorted({label for split in files.examples.values() for _, label in split})
        number = {label: index for index, label in enumerate(classes)}
        used = {text_id for split in files.examples.values() for ids, _ in split for text_id in ids} | {*files.clusters}
        tasks[name] = Task(
            name,
            files.kind,
            {
                text_id: text
                for text_id, text in files.documents.items()
                if files.kind == "retrieval" or text_id in used
            },
            inputs={split: [ids for ids, _ in examples] for split, examples in files.examples.items()},
            labels={
                split: np.array([number[label] for _, label in examples], dtype=np.int64)
                for split, examples in files.examples.items()
            },
            classes=classes,
            folds=entry.folds,
            groups=files.groups,
            relevant=files.relevant,
            clusters=files.clusters,
            notes=files.notes,
        )
    return tasks


def kinds(profile: Profile) -> dict[str, str]:
    """{task: kind} of a profile, told by the names of files: no text is read."""
    root = sources.root(profile)
    folders = profile.tasks.folders
    return {name: task_files.kind(task_files.folder(root, folders[name])) for name in profile.tasks.names}


def classification_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that heads are trained on."""
    return _names("classification", profile)


def retrieval_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that rank texts."""
    return _names("retrieval", profile)


def form(kind: str) -> str:
    """ "classification" of a single or pair task, else the kind itself."""
    return "classification" if kind in ("single", "pair") else kind


def _names(wanted: str, profile: Profile) -> tuple[str, ...]:
    return tuple(name for name, kind in kinds(profile).items() if form(kind) == wanted)


def _check_roles(profile: Profile) -> None:
    for name, kind in kinds(profile).items():
        if ROLES.get(name, form(kind)) != form(kind):
            raise ValueError(
                f"tasks.folders.{name}: {profile.tasks.folders[name].folder} is a {kind} task, and {name} is a "
                f"{ROLES[name]} task in the thesis; give yours a name of its own"
            )


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Indices of at most `limit` examples with the class shares of all, the first ones of each class (thesis code).

    Each class keeps floor(its share x limit) examples, the smallest class also gets what rounding left over.

    Args:
        labels: (examples,) class indices, in file order.
        limit: number of examples to keep; with as many or fewer examples all are kept.

    Returns:
        (kept,) int64, ascending.
    """
    labels = np.asarray(labels)
    if limit < 1:
        raise ValueError(f"limit: expected at least 1 example, got {limit}")
    if len(labels) <= limit:
        return np.arange(len(labels), dtype=np.int64)
    classes, counts = np.unique(labels, return_counts=True)
    kept = counts * limit // len(labels)
    # The smallest class rarely holds fewer examples than it is to get; then the next smallest takes the rest.
    for index in np.argsort(counts, kind="stable"):
        kept[index] += min(limit - kept.sum(), counts[index] - kept[index])
    rows = [np.flatnonzero(labels == label)[:n] for label, n in zip(classes, kept, strict=True)]
    return np.sort(np.concatenate(rows)).astype(np.int64)
