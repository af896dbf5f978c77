"""Texts that a search found, with the part of each that was read (notebook 00)."""

from collections.abc import Iterable
from html import escape

from IPython.display import HTML


def show_reading(heading: str, found: Iterable[tuple[str, str, int]]) -> HTML:
    """Texts below each other, pale from where the reader stopped.

    Parameters
    ----------
    heading
        A line above them.
    found
        For each text its caption, the text, and the character at which the reader stopped.
    """
    parts = [f"<p>{escape(heading)}</p>"]
    for caption, text, end in found:
        rest = f"<b> ◄ </b><span style='opacity: .5'>{escape(text[end:])}</span>"
        parts.append(
            f"<p style='max-width: 50em'><b>{escape(caption)}</b> {escape(text[:end])}"
            f"{rest if end < len(text) else ''}</p>"
        )
    return HTML("".join(parts))
