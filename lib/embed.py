"""Embed your own texts: `python -m lib.embed my_texts`.

The command reads a dataset folder, a table (.jsonl, .csv, .parquet) or a folder of .txt and .md
files. It judges several models on the texts, embeds all of them with one, and writes vectors, an
encoder for new texts and a page for searching. The last line is a verdict that a script can read. A
failure is reported in one line, with exit code 1 (2 for a bad request). Embedded texts are kept, so
the same command continues from there.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

SETUP = "run ./run_all.sh --setup once, then . .venv/bin/activate"
try:
    from lib.config import environment
    from lib.config.console import escape_unprintable, name_command
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}: {SETUP}") from None


def main(arguments: list[str] | None = None) -> None:
    escape_unprintable()
    parser = argparse.ArgumentParser(
        prog=name_command("lib.embed"),
        description="Embed your own texts, and measure how good the vectors are.",
    )
    parser.add_argument("texts", type=Path, help="a folder of texts, or a table")
    parser.add_argument("--out", type=Path, help="folder to write; default: ./<name>_vectors")
    parser.add_argument("--model", help="use this model of the table, whatever its scores")
    parser.add_argument("--student", type=Path, help="folder of a trained student to judge as well")
    parser.add_argument("--text", metavar="NAME", help="column of a table that has the texts")
    parser.add_argument("--label", metavar="NAME", help="column of a table that has the labels")
    parser.add_argument("--json", action="store_true", help="print only one JSON object")
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():  # restores how warnings are shown
        code, problem = _run(given)
    if code:
        parser.exit(code, " ".join(f"{parser.prog}: {problem}".split()) + "\n")


def _run(given: argparse.Namespace) -> tuple[int, str]:
    """Exit code and, if it is not 0, what went wrong."""
    options = {key: value for key, value in vars(given).items() if key not in ("texts", "json")}
    stream = sys.stderr if given.json else sys.stdout
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    # From scikit-learn's shares of variance, which are unused, if a fold has one text to fit to.
    warnings.filterwarnings("ignore", "invalid value", RuntimeWarning, "sklearn")
    code = 1
    try:
        environment.set_process_environment(offline=True)  # before NumPy is imported
        from lib.vectors import pipeline

        code = 2
        source = pipeline.read_source(given.texts, **options)
        code = 1
        report = pipeline.embed_texts(source, lambda line: print(line, file=stream, flush=True))
    except KeyboardInterrupt:
        return 1, "interrupted; the same command continues from what was kept"
    except ImportError as error:
        return 1, f"{error}: {SETUP}"
    except (ValueError, OSError, ArithmeticError, MemoryError) as error:
        return code, str(error) or type(error).__name__
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        return 1, f"out of memory; end other programs and run the same command again: {error}"
    line = report.pop("line")
    print(json.dumps(report) if given.json else line)
    return 0, ""


if __name__ == "__main__":
    main()
