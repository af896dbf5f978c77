"""What a person sees of a program: printable text, one-line errors, no chatter of libraries."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
        code, told = 1, "interrupted; the same command continues from what was kept"
    except (ValueError, OSError, ArithmeticError, ImportError, MemoryError, RuntimeError) as error:
        told = " ".join(str(error).split()) or type(error).__name__
    else:
        return
    parser.exit(code, f"{parser.prog}: {told}\n")
