"""Shows progress as a bar; notebooks started by `run_all.sh` write it to a file, line by line."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
duration = tqdm.format_interval  # formats seconds: `00:07`, `12:30`, `1:05:00`


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Yield the `total` items and show how many are done, as a bar or in a file.

    The environment variable THESIS_PROGRESS names the file.
    """
    file = os.environ.get("THESIS_PROGRESS")
    options = {"leave": False}
    if file:
        options = {"bar_format": "{desc} {n_fmt}/{total_fmt}", "mininterval": 0}
    with open(file, "a", encoding="utf-8") if file else contextlib.nullcontext() as stream:
        yield from tqdm(items, desc=description, total=total, file=stream, **options)
