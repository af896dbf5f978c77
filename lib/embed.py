"""Embed your own texts: `python -m lib.embed my_texts`.

It reads a dataset folder, a table (.jsonl, .csv, .parquet) or a folder of .txt and .md files,
judges several models on them, embeds all texts with one, and writes vectors, an encoder for new
texts and a page for searching. The last line is a verdict that a script can read. What fails is one
line and exit code 1 (a bad request: 2). What was embedded is kept: the same command goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path

SETUP = "run ./run_all.sh --setup once, then . .venv/bin/activate"
try:
    from lib.config import environment, paths
    from lib.config.terminal import escape_unprintable, name_command
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}: {SETUP}") from None


def main(arguments: list[str] | None = None) -> None:
    escape_unprintable()
    parser = argparse.ArgumentParser(
        prog=name_command("lib.embed"), description="Embed your own texts, and say how well."
    )
    parser.add_argument("texts", type=Path, help="a folder of texts, or a table")
    parser.add_argument("--out", type=Path, help="folder to write; default: <name>_vectors here")
    parser.add_argument("--model", help="take this model of the table, whatever it says")
    parser.add_argument("--student", type=Path, help="a trained student to judge, too")
    parser.add_argument("--text", metavar="NAME", help="column of a table that holds the texts")
    parser.add_argument("--label", metavar="NAME", help="column of a table that holds labels")
    parser.add_argument("--json", action="store_true", help="print one JSON object alone")
    given = parser.parse_args(arguments)
    with warnings.catch_warnings():  # what shows them is changed, and put back
        code, problem = _run(given)
    if code:
        parser.exit(code, " ".join(f"{parser.prog}: {problem}".split()) + "\n")


def _run(given: argparse.Namespace) -> tuple[int, str]:
    """Exit code and, if it is not 0, what went wrong."""
    options = {key: value for key, value in vars(given).items() if key != "json"}
    stream = sys.stderr if given.json else sys.stdout
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    # scikit-learn's shares of variance, which nothing reads, where a fold has one text to fit to.
    warnings.filterwarnings("ignore", "invalid value", RuntimeWarning, "sklearn")
    code = 1
    try:
        environment.set_process_environment(offline=True)  # before NumPy is imported
        from lib.vectors import pipeline

        code = 2
        source = pipeline.read_source(pipeline.Request(**options))
        code = 1
        report = pipeline.embed_texts(source, lambda line: print(line, file=stream, flush=True))
    except KeyboardInterrupt:
        return 1, "interrupted; the same command goes on from what is kept"
    except ImportError as error:
        return 1, f"{error}: {SETUP}"
    except (ValueError, OSError, ArithmeticError, MemoryError) as error:
        problem = str(error) or type(error).__name__
        if str(paths.artifacts()) in problem:
            problem += "; THESIS_ARTIFACTS names another folder to keep things in"
        return code, problem
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        return 1, f"out of memory, end other programs; the same command goes on: {error}"
    line = report.pop("line")
    print(json.dumps(report) if given.json else line)
    return 0, ""


if __name__ == "__main__":
    main()
