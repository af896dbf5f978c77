"""What a person is told: errors in one line, and nothing of what libraries report."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager


class OneLine(BaseException):
    """An error that IPython shows as one line, because its place in `lib` would help nobody."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


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
    """Turn any error into a ValueError, "cannot <task>: ...". The hub's are of many types."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:250]
        raise ValueError(f"cannot {task}: {type(error).__name__}: {reason}") from error


@contextmanager
def exit_in_one_line(parser: argparse.ArgumentParser, code: int) -> Iterator[None]:
    """End a command in one line and with this exit code if what a person can mend goes wrong."""
    try:
        yield
    except KeyboardInterrupt:
        told = "interrupted; the same command continues from what was kept"
        parser.exit(1, f"{parser.prog}: {told}\n")
    except (ValueError, OSError, ArithmeticError, ImportError, MemoryError, RuntimeError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
        parser.exit(code, f"{parser.prog}: {told}\n")
