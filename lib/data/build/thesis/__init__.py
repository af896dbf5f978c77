"""thesis: the published corpora and tasks as dataset folders (thesis, Sections 4.1 and 5.2.1).

Corpora come from the files that the profile names, IMDB and ARXIV from the hub, the other tasks from files downloaded
by hand (`published_tasks`). Rows go straight from the source's files into the folder's; no text is held.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lib.config import paths
from lib.data.build import write_readme
from lib.data.build.thesis import published_tasks, text_tables
from lib.store.files import file_fingerprint

if TYPE_CHECKING:
    from lib.config.schema import Profile

DATASETS = {  # task's role: its dataset folder, as params/thesis.yaml names it
    "IMDB": "imdb",
    "ARXIV": "arxiv",
    "AAN": "aan",
    "OC": "oc",
    "S2ORC": "s2orc",
    "PAN": "pan",
    "WINES": "wines",
    "GAMES": "games",
}


def key_files(profile: Profile) -> str:
    """The pins of the files downloaded by hand; hub files are pinned by revision in the settings."""
    sums = paths.data_root(profile) / published_tasks.SUMS
    return file_fingerprint(sums) if sums.is_file() else ""


def writers(profile: Profile) -> dict[str, Callable[[Path], None]]:
    """What fills each folder that the profile reads."""
    root = paths.data_root(profile)

    def corpus(folder: Path, name: str, files: tuple[str, ...]) -> None:
        left_out = text_tables.write(folder, files)
        write_readme(folder, f"The corpus' {name}", f"Source: {', '.join(files)}. Licence: as stated there.",
                     f"All rows with a text, in order; {left_out} without a token left out.")  # fmt: skip

    def task(folder: Path, role: str) -> None:
        write_readme(folder, role, *published_tasks.write(role, folder, root))

    used = {entry.folder.partition("/")[0] for entry in profile.tasks.folders.values()}
    corpora = {"wikipedia": profile.build.wikipedia, "news": profile.build.news}
    return {
        **{name: functools.partial(corpus, name=name, files=files) for name, files in corpora.items()},
        **{name: functools.partial(task, role=role) for role, name in DATASETS.items() if name in used},
    }
