"""Printing where the terminal's encoding is not UTF-8."""

import sys


def escape_unprintable() -> None:
    """Print a character that the terminal's encoding lacks as its code point, not as an error.

    The error would be a ValueError, and pass for one about the data that is being described.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a stream that stands in for one may lack it
            stream.reconfigure(errors="backslashreplace")
