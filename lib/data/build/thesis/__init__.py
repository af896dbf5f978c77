"""thesis: the published corpora and tasks as dataset folders (thesis, Sections 4.1 and 5.2.1).

Corpora come from the files that the profile names, IMDB and ARXIV from the hub, the other tasks from files downloaded
by hand (`published_tasks`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lib.config import paths
from lib.data import sources
from lib.data.build.thesis import published_tasks, text_tables
from lib.store.files import file_fingerprint

if TYPE_CHECKING:
    from lib.config.schema import Profile


def key_files(profile: Profile) -> str:
    """The pins of the files downloaded by hand; hub files are pinned by revision in the settings."""
    sums = paths.data_root(profile) / published_tasks.SUMS
    return file_fingerprint(sums) if sums.is_file() else ""


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder that the profile reads."""
    root, used = paths.data_root(profile), sources.task_datasets(profile)
    corpora = {"wikipedia": profile.build.wikipedia, "news": profile.build.news}
    places = {role: place.partition("/")[0] for role, place in published_tasks.PLACES.items()}
    return {
        **{name: functools.partial(text_tables.write, files=files) for name, files in corpora.items()},
        **{
            places[role]: functools.partial(published_tasks.write, role, root)
            for role in places
            if places[role] in used
        },
    }
