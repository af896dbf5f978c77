"""What every teacher asks of the texts it is given."""

from collections.abc import Iterable


def check(texts: Iterable[str]) -> int:
    """Count texts; `ValueError`, with the index, for what is no text and for one without a word."""
    if isinstance(texts, str):
        raise ValueError("expected a list of texts, got a single text; put it in a list")
    count = 0
    for text in texts:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"expected texts with words, text {count} is {text!r:.60}; leave it out"
            )
        count += 1
    if not count:
        raise ValueError("expected at least one text, got none")
    return count
