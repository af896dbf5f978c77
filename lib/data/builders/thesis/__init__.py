"""thesis: the published corpora and tasks as dataset folders (thesis, Sections 4.1 and 5.2.1)."""

import functools
from collections.abc import Callable
from pathlib import Path

from lib.config import paths
from lib.config.roles import ROLES
from lib.config.schema import Profile
from lib.data.builders.thesis import published_tasks, text_tables
from lib.store.files import file_fingerprint


def key_files(profile: Profile) -> str:
    """The pins of the files downloaded by hand; hub files are pinned by revision in the settings."""
    sums = paths.data_root(profile) / published_tasks.SUMS
    return file_fingerprint(sums) if sums.is_file() else ""


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder: the corpora's are named after the settings, the tasks' in the profile."""
    files = {"wikipedia": profile.build.wikipedia, "news": profile.build.news}
    writers = {name: functools.partial(text_tables.write, patterns) for name, patterns in files.items()}
    for role, entry in profile.tasks.folders.items():
        dataset, _, task = entry.folder.partition("/")
        if role in ROLES:
            writers[dataset] = functools.partial(published_tasks.write, role, task, paths.data_root(profile))
    return writers
