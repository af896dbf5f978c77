"""Evaluation tasks from dataset folders; those with the thesis' names (Section 5.2.1) have a role in its figures."""

import numpy as np

from lib.config.roles import ROLES
from lib.config.schema import Profile
from lib.data import sources, task_files
from lib.data.task_files import Task


def read(profile: Profile) -> dict[str, Task]:
    """The profile's tasks by name, in its order; `ValueError` for a role given to a task of another kind."""
    for name, kind in _kinds(profile).items():
        if ROLES.get(name, kind) != kind:
            told = f"{name} is a {ROLES[name]} task in the thesis; give yours a name of its own"
            raise ValueError(f"tasks.folders.{name} is a {kind} task, and {told}")
    return task_files.of_profile(profile)


def classification_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that heads are trained on."""
    return tuple(name for name, kind in _kinds(profile).items() if kind == "classification")


def retrieval_names(profile: Profile) -> tuple[str, ...]:
    """The profile's tasks that rank texts."""
    return tuple(name for name, kind in _kinds(profile).items() if kind == "retrieval")


def downsample(labels: np.ndarray, limit: int) -> np.ndarray:
    """(kept,) int64, ascending: at most `limit` of (examples,) labels, the first ones of each class (thesis code).

    Each class keeps floor(its share x limit) examples, the smallest class also gets what rounding left over.
    """
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
    return {
        name: task_files.kind(task_files.folder(root, folders[name]))
        for name in profile.tasks.names
    }
