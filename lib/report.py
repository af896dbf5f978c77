"""What came out, as tables and counts: what notebooks and pages show of the ledger."""

import os
import sys
from itertools import groupby
from pathlib import Path

import pandas as pd

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.figures import tables
from lib.statistics.verdicts import HOLDS, OPEN, REVERSED, VERDICTS
from lib.store import write_text

GALLERY = """# All figures and tables

*`python -m lib.report {profile}` writes this page. Do not edit it.*

Here is what the notebooks make of `{profile}`, next to what was published, with its values."""


def read_table(folder: Path, label: str) -> pd.DataFrame:
    """Read the saved numbers of a figure or table. Only empty cells are missing: None is a name."""
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def shorten_ledger(ledger: pd.DataFrame) -> pd.DataFrame:
    """Columns finding, published, ours (effects), low, high (of ours), verdict, survives."""
    short = ledger.rename(columns={"published_effect": "published", "effect": "ours"})
    return short[["finding", "published", "ours", "low", "high", "verdict", "survives"]]


def count_findings(ledger: pd.DataFrame) -> dict[str, int]:
    """Count the thesis' findings: all, and by what becomes of them."""
    thesis = ledger[~ledger["label"].str.startswith("news")]
    repeat, survive = thesis["verdict"].eq(HOLDS), thesis["survives"].eq(HOLDS)
    counts = {"findings": len(thesis), "repeat": repeat.sum()}
    counts |= {word: thesis["verdict"].eq(word).sum() for word in (REVERSED, OPEN)}
    return counts | {"survive": survive.sum(), "repeat and survive": (repeat & survive).sum()}


def count_verdicts(ledgers: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Count the thesis' findings by verdict: as published, and for each name of a ledger."""
    columns: dict[str, pd.Series] = {}
    for name, ledger in ledgers.items():
        thesis = ledger[~ledger["label"].str.startswith("news")]
        columns.setdefault("published", thesis["published_verdict"])
        columns |= {f"{name} repeats": thesis["verdict"], f"{name} survives": thesis["survives"]}
    counts = pd.DataFrame({name: words.value_counts() for name, words in columns.items()})
    return counts.reindex(VERDICTS).fillna(0).astype(int).rename_axis("verdict").reset_index()


def make_gallery(profile: Profile, folder: Path) -> str:
    """All saved figures and tables of a profile as Markdown, with links relative to `folder`."""
    parts = [GALLERY.format(profile=profile.name)]
    executed = paths.ROOT / ("docs" if profile.name == "mini" else "") / "notebooks"
    entries = manifest.load().values()
    saved = [entry for entry in entries if all(map(Path.is_file, entry.paths(profile)))]
    for notebook, group in groupby(saved, key=lambda entry: entry.notebook):
        link = os.path.relpath(executed / f"{notebook}.ipynb", folder)
        rows = [f"## [{notebook}]({link})\n\n| | |\n|---|---|"]
        for entry in group:
            links = {file.suffix: os.path.relpath(file, folder) for file in entry.paths(profile)}
            name, command = manifest.full_name(entry.label), f"{profile.name} {entry.label}"
            title = f"{name}: {entry.title}" if name[-1].isdigit() else entry.title
            told = f"**{title}**<br>[numbers]({links['.csv']})"
            shown = f'<img src="{links.get(".svg")}" width="280" alt="{title}">'
            if entry.kind == "table":
                shown, told = f"[table]({links['.md']})", f"{told} · [LaTeX]({links['.tex']})"
            rows.append(f"| {shown} | {told}<br>`./run_all.sh {command}` |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def fill_blocks(text: str, **blocks: pd.DataFrame) -> str:
    """Put tables between `<!-- name -->` and `<!-- /name -->`, each of which is there once."""
    for name, frame in blocks.items():
        head, rest = text.split(f"<!-- {name} -->\n")
        _, tail = rest.split(f"<!-- /{name} -->")
        table = tables.render("md", tables.readable(frame))
        text = f"{head}<!-- {name} -->\n{table}<!-- /{name} -->{tail}"
    return text


def write_pages(profile: Profile) -> list[Path]:
    """Write the gallery; an unchanged `mini` also fills the tables of README and results."""
    folder, pages = paths.run_folder(profile) / "pages", {}
    if paths.run_name(profile) == "mini":
        folder, figures = paths.ROOT / "docs", paths.ROOT / "figures"
        ledgers = {name: read_table(figures / name, "tab_claims") for name in ("mini", "lab")}
        numbers = {"numbers": pd.DataFrame([count_findings(ledgers["mini"])])}
        blocks = {"counts": count_verdicts(ledgers), "findings": shorten_ledger(ledgers["mini"])}
        for file, filled in ((paths.ROOT / "README.md", numbers), (folder / "results.md", blocks)):
            pages[file] = fill_blocks(file.read_text(encoding="utf-8"), **filled)
    pages[folder / "figures.md"] = make_gallery(profile, folder)
    for file, text in pages.items():
        write_text(file, text)
    return [*pages]


if __name__ == "__main__":
    print(*write_pages(profiles.load(sys.argv[1])), sep="\n")
