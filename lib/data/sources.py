"""Where a profile's dataset folders are, and what names their content."""

from collections.abc import Iterable
from pathlib import Path

from lib.config import paths
from lib.config.schema import Profile
from lib.data.written_once import sha256
from lib.store.files import fingerprint as name_of


def root(profile: Profile) -> Path:
    """The folder of dataset folders: what a builder writes, once, or a person's own."""
    if profile.build is None:
        return paths.data_root(profile)
    from lib.data import builders

    return builders.folder(profile)


def fingerprint(profile: Profile, datasets: Iterable[str]) -> str:
    """16 hex digits of the names and bytes of all files that are read of the named dataset folders and the tasks."""
    place = root(profile)
    patterns = [
        (name, files) for name in datasets for files in ("documents.jsonl*", "documents/*.parquet")
    ]
    tasks = [entry.folder.replace("/", "/tasks/") for entry in profile.tasks.folders.values()]
    patterns += [(task, files) for task in tasks for files in ("*.json", "*.jsonl")]
    held = {path for folder, files in patterns for path in (place / folder).glob(files)}
    return name_of(
        [
            [path.relative_to(place).as_posix(), sha256(path)]
            for path in sorted(held)
            if path.is_file()
        ]
    )


def corpus_datasets(profile: Profile) -> set[str]:
    """The folders that decide what the corpus holds: its own, and the tasks', whose tests it leaves out."""
    return {*profile.corpus.names, *task_datasets(profile)}


def task_datasets(profile: Profile) -> set[str]:
    """The folders of the profile's tasks."""
    return {entry.folder.partition("/")[0] for entry in profile.tasks.folders.values()}
