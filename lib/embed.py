"""Embed your own texts: `python -m lib.embed my_texts`.

It judges several models on the texts, embeds all of them with one, and writes vectors, an encoder
for new texts and a page for searching. The last line is a verdict for scripts. A failure is one
line, with exit code 1 (2 for a bad request). The same command continues from what was kept.
"""

import argparse
import contextlib
import json
import sys
import warnings
from pathlib import Path

from lib.config import environment
from lib.messages import exit_in_one_line
from lib.vectors import SIMPLEST_FIRST


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lib.embed", description=__doc__)
    add = parser.add_argument
    add("texts", type=Path, help="a dataset folder, one of .txt and .md files, or a table")
    add("--out", type=Path, help="folder to write; default: ./<name>_vectors")
    add("--model", choices=SIMPLEST_FIRST, help="use this model, whatever its scores")
    add("--student", type=Path, help="folder of a trained student to judge as well")
    add("--text", metavar="NAME", help="column of a table that has the texts")
    add("--label", metavar="NAME", help="column of a table that has the labels")
    add("--json", action="store_true", help="print only one JSON object")
    given = parser.parse_args(arguments)
    # From scikit-learn's shares of variance, which are unused, if a fold has one text to fit to.
    warnings.filterwarnings("ignore", "invalid value", RuntimeWarning, "sklearn")
    with contextlib.redirect_stdout(sys.stderr if given.json else sys.stdout):
        with exit_in_one_line(parser, code=2):
            environment.set_process_environment(offline=True)  # before NumPy is imported
            from lib.vectors.own import OwnTexts

            texts = OwnTexts(given)
        with exit_in_one_line(parser, code=1):
            report = texts.embed()
    line = report.pop("line")
    print(json.dumps(report) if given.json else line)


if __name__ == "__main__":
    main()
