"""Progress that a person sees as a bar and the runner reads from a file.

Started by `run_all.sh`, a notebook finds a file's name in `THESIS_PROGRESS` and keeps one JSON line there: the step it
is at, how much of it is done, and of how much. Otherwise a bar is drawn. Worker processes do neither: their parent
reports for them.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
INTERVAL = 0.5  # seconds between two writes of the file
duration = tqdm.format_interval  # seconds as people read them: `00:07`, `12:30`, `1:05:00`

_open_steps: list[dict[str, object]] = []  # the loops that are running, the outermost first


def track(items: Iterable[T] | int, description: str, total: int | None = None) -> Iterator[T]:
    """Yield the items of a loop, `n` for `range(n)`, and report how far it is; total: where `items` has no length."""
    items = range(items) if isinstance(items, int) else items
    if total is None and hasattr(items, "__len__"):
        total = len(items)
    if multiprocessing.parent_process() is not None:
        yield from items
    elif "THESIS_PROGRESS" in os.environ:
        yield from _to_file(items, description, total, Path(os.environ["THESIS_PROGRESS"]))
    else:
        yield from tqdm(items, desc=description, total=total, leave=False)


def _to_file(items: Iterable[T], description: str, total: int | None, path: Path) -> Iterator[T]:
    step: dict[str, object] = {"step": description, "done": 0, "total": total}
    _open_steps.append(step)
    try:
        _write(path)
        written = time.monotonic()
        for done, item in enumerate(items, start=1):
            yield item
            step["done"] = done
            if time.monotonic() - written > INTERVAL:
                _write(path)
                written = time.monotonic()
        _write(path)
    finally:
        _open_steps.remove(step)


def _write(path: Path) -> None:
    """Replace the file by one line: the outermost loop, and the names of the loops inside it."""
    line = {**_open_steps[0], "step": ", ".join(str(step["step"]) for step in _open_steps)}
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # progress is worth no failed run
        temporary.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)
