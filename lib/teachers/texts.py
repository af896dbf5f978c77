"""What every teacher asks of the texts it is given."""

from collections.abc import Iterable


def check(texts: Iterable[str]) -> int:
    """Number of texts. Raises ValueError, with the index, for what is not text and for a text without a word."""
    if isinstance(texts, str):
        raise ValueError("expected a list of texts, got a single text; put it in a list")
    count = 0
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"text {index} is of type {type(text).__name__}, expected str")
        if not text.strip():
            raise ValueError(f"text {index} is empty; a teacher has no embedding for it, leave it out")
        count += 1
    if not count:
        raise ValueError("expected at least one text, got none")
    return count
