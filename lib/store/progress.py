"""Progress that a person sees as a bar and the runner reads from a file.

Started by `run_all.sh`, a notebook finds a file's name in `THESIS_PROGRESS` and keeps one JSON line there: the step it
is at, how much of it is done, and of how much. Otherwise a bar is drawn.
"""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
duration = tqdm.format_interval  # seconds as people read them: `00:07`, `12:30`, `1:05:00`


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Yield the `total` items of a loop and report how far it is; description: a few words, as "training students"."""
    file = os.environ.get("THESIS_PROGRESS")
    if file is None:
        yield from tqdm(items, desc=description, total=total, leave=False)
        return
    for done, item in enumerate(items):
        _write(Path(file), {"step": description, "done": done, "total": total})
        yield item
    _write(Path(file), {"step": description, "done": total, "total": total})


def _write(path: Path, line: dict[str, str | int]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):  # progress is worth no failed run
        temporary.write_text(json.dumps(line, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path)
