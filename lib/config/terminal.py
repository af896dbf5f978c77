"""Prints to terminals whose encoding is not UTF-8, and names commands."""

import sys
from pathlib import Path


def escape_unprintable() -> None:
    """Print characters that the terminal's encoding lacks as code points instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a replaced stream, as in tests, may not have it
            stream.reconfigure(errors="backslashreplace")


def name_command(module: str) -> str:
    """Return the command that started this process: one installed by pip, or `python -m`."""
    script = Path(sys.argv[0]).name
    return script if script.startswith("thesis-companion-") else f"python -m {module}"
