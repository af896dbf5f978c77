"""What the runner shows: where it is, how long it took, how long it will take, and the table at the end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

QUIET_SECONDS = 15.0  # without a terminal, a line at least this often
STEP_SECONDS = 2.0  # and for a new step, but no oftener than this


def shown(path: Path) -> str:
    """A path relative to where the person is, or absolute if it lies elsewhere."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


class Status:
    """One line that is rewritten on a terminal, and printed now and then into a file."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self._text = ""
        self._step = ""
        self._printed = 0.0

    def show(self, step: str, rest: str) -> None:
        """Show `step` (what is running) and `rest` (how far, how long); times alone make no new line."""
        text = f"{step}  {rest}" if rest else step
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stdout.write("\r" + text[:width].ljust(min(len(self._text), width)))
            sys.stdout.flush()
            self._text = text[:width]
            return
        waited = time.monotonic() - self._printed
        if waited >= QUIET_SECONDS or (step != self._step and waited >= STEP_SECONDS):
            print(text, flush=True)
            self._step, self._printed = step, time.monotonic()

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if self.terminal and self._text:
            sys.stdout.write("\r" + " " * len(self._text) + "\r")
            self._text = ""
        print(text, flush=True)


def table(rows: list[tuple[str, ...]]) -> str:
    """Rows as aligned text; the first row is the heading."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])
