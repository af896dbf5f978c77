"""Printing where the terminal's encoding is not UTF-8, and the name of a command."""

import sys
from pathlib import Path


def escape_unprintable() -> None:
    """Print a character that the terminal's encoding lacks as its code point, not as an error.

    The error would be a ValueError, and pass for one about the data that is being described.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a stream that stands in for one may lack it
            stream.reconfigure(errors="backslashreplace")


def name_command(module: str) -> str:
    """How this process was started: as a command that pip installed, or by `python -m`."""
    script = Path(sys.argv[0]).name
    return script if script.startswith("thesis-companion-") else f"python -m {module}"
