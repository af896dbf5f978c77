"""Progress that a person sees as a bar; a notebook that `run_all.sh` started keeps it as a line in a file."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
duration = tqdm.format_interval  # seconds as people read them: `00:07`, `12:30`, `1:05:00`


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Yield the `total` items of a loop and report how far it is: as a bar, or in the file named by THESIS_PROGRESS."""
    file = os.environ.get("THESIS_PROGRESS")
    _report(file, description, 0, total)
    for done, item in enumerate(tqdm(items, desc=description, total=total, leave=False, disable=file is not None), 1):
        yield item
        _report(file, description, done, total)


def _report(file: str | None, step: str, done: int, total: int) -> None:
    if file is not None:
        with contextlib.suppress(OSError):  # progress is worth no failed run
            with open(f"{file}.{os.getpid()}", "w", encoding="utf-8") as temporary:
                temporary.write(f"{step} {done}/{total}")
            os.replace(temporary.name, file)
