"""Context managers for loading other people's models quietly and with one-line errors."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bars and reports while a model is loaded."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def one_line_errors(task: str) -> Iterator[None]:
    """Turn errors, of many types and lengths, into a one-line ValueError, "cannot <task>: ..."."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:250]
        raise ValueError(f"cannot {task}: {type(error).__name__}: {reason}") from error
