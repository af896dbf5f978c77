"""Write the sentences with numbers anew after figures have moved: README, docs and what notebooks found.

    ./run_all.sh && python -m tests.retell          what HEAD's figures say is replaced by what today's say
    python -m tests.retell --since v0.2.0           the texts tell the figures of another commit

Sentences come from `TOLD` in `tests.test_told_numbers`, once by the figures of the commit and once by those on disk.
What cannot be found is printed and left alone. Words that no number decides stay as they are: run that test afterwards.
"""

from __future__ import annotations

import argparse
import functools
import io
import json
import re
import subprocess

import pandas as pd

from lib.config import paths
from tests import test_told_numbers as told
from tests.test_notebooks_style import NUMBERED


@functools.cache
def committed(name: str, commit: str) -> pd.DataFrame:
    text = subprocess.run(
        ["git", "show", f"{commit}:{name}.csv"], cwd=paths.ROOT, check=True, capture_output=True
    )
    return pd.read_csv(
        io.BytesIO(text.stdout), dtype={"case": str}, keep_default_na=False, na_values=[""]
    )


def replaced(text: str, old: str, new: str) -> tuple[str, int]:
    """The text with `new` for `old` wherever it stands, however its lines are broken; and how often."""

    def sentence(match: re.Match[str]) -> str:
        gaps, words = re.findall(r"\s+", match[0]), new.split()
        gaps = gaps if len(gaps) == len(words) - 1 else [" "] * (len(words) - 1)
        return "".join(word + gap for word, gap in zip(words, [*gaps, ""], strict=True))

    return re.subn(
        r"(?<![\d.])" + r"\s+".join(map(re.escape, old.split())) + r"(?![\d])", sentence, text
    )


def retell(name: str, changes: dict[str, str]) -> list[str]:
    """Change a document, or the Markdown of a notebook; what was not found."""
    path = paths.ROOT / (f"notebooks/{name}.ipynb" if name in NUMBERED else name)
    notebook = json.loads(path.read_text(encoding="utf-8")) if name in NUMBERED else None
    texts = (
        ["".join(cell["source"]) for cell in notebook["cells"]]
        if notebook
        else [path.read_text(encoding="utf-8")]
    )
    markdown = [
        not notebook or notebook["cells"][place]["cell_type"] == "markdown"
        for place in range(len(texts))
    ]
    absent = []
    for old, new in sorted(changes.items(), key=lambda change: -len(change[0])):
        found = [
            replaced(text, old, new) if told else (text, 0)
            for text, told in zip(texts, markdown, strict=True)
        ]
        texts = [text for text, _ in found]
        absent += [] if any(count for _, count in found) else [f"{name}: {old}"]
    if notebook:
        for cell, text in zip(notebook["cells"], texts, strict=True):
            cell["source"] = text.splitlines(keepends=True)
        texts = [json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"]
    path.write_text("".join(texts), encoding="utf-8")
    return absent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--since", default="HEAD", help="the commit whose figures the texts tell")
    commit = parser.parse_args().since
    for name, sentences in told.TOLD.items():
        told.read = functools.partial(committed, commit=commit)
        before = sentences()
        told.read = told.committed
        changes = {old: new for old, new in zip(before, sentences(), strict=True) if old != new}
        print(
            f"{name}: {len(changes)} sentences",
            *(retell(name, changes) if changes else ()),
            sep="\n  not found: ",
        )


if __name__ == "__main__":
    main()
