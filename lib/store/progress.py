"""Progress that a person sees as a bar; a notebook that `run_all.sh` started keeps it as lines of a file."""

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
    form = (
        {"bar_format": "{desc} {n_fmt}/{total_fmt}", "mininterval": 0} if file else {"leave": False}
    )
    with open(file, "a", encoding="utf-8") if file else contextlib.nullcontext() as stream:
        yield from tqdm(items, desc=description, total=total, file=stream, **form)
