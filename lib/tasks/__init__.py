"""Evaluation tasks: three kinds, from dataset folders, under any name.

Those with the thesis' names (Section 5.2.1, `lib.config.roles`) play these roles in its figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lib.config.roles import ROLES
from lib.data import sources, task_files
from lib.data.task_files import Task

if TYPE_CHECKING:
    from lib.config.schema import Profile


def read(profile: Profile) -> dict[str, Task]:
    """The profile's tasks by name, in its order.

    Raises `ValueError` for anything wrong in a file, with its name and line, and for a role given to another kind.
    """
    for name, kind in _kinds(profile).items():
        if ROLES.get(name, kind) != kind:
            raise ValueError(
                f"tasks.folders.{name}: {profile.tasks.folders[name].folder} is a {kind} task, and {name} is a "
                f"{ROLES[name]} task in the thesis; give yours a name of its own"
            )
    return task_files.of_profile(profile)


def classification_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that heads are trained on."""
    return tuple(name for name, kind in _kinds(profile).items() if kind == "classification")


def retrieval_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that rank texts."""
    return tuple(name for name, kind in _kinds(profile).items() if kind == "retrieval")


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """Indices of at most `limit` examples with the class shares of all, the first ones of each class (thesis code).

    Each class keeps floor(its share x limit) examples, the smallest class also gets what rounding left over. labels:
    (examples,) class indices, in file order. Returns (kept,) int64, ascending.
    """
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


def _kinds(profile: Profile) -> dict[str, str]:
    """{task: kind}, told by the names of files: no text is read."""
    root, folders = sources.root(profile), profile.tasks.folders
    return {name: task_files.kind(task_files.folder(root, folders[name])) for name in profile.tasks.names}
