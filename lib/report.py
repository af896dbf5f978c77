"""What came out, as tables and counts: what notebook 09 and the pages show of the ledger.

`python -m lib.report mini` fills the tables of README.md and docs/results.md, and writes
docs/figures.md. People write all sentences.
"""

import argparse
import os
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path

import pandas as pd

from lib.config import manifest, paths, profiles
from lib.config.manifest import Entry
from lib.config.schema import Profile
from lib.figures import tables
from lib.statistics.verdicts import HOLDS, OPEN, REVERSED, VERDICTS
from lib.store import write_text

COMMITTED = ("mini", "lab")  # profiles whose figures are in the repository
EMPTY = "<!-- counts -->\n<!-- /counts -->\n\n<!-- findings -->\n<!-- /findings -->\n"
GALLERY = """# All figures and tables

*`python -m lib.report {profile}` writes this page. Do not edit it.*

Here is what the notebooks make of `{profile}`, next to what was published. *Numbers* has the values
behind a figure or table. The command makes it again."""


def read_table(folder: Path, label: str) -> pd.DataFrame:
    """Read the saved numbers of a figure or table. Only empty cells are missing: None is a name."""
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def read_others(profile: Profile) -> dict[str, pd.DataFrame]:
    """The committed ledgers of other profiles: name -> a row for each finding."""
    folders = {name: paths.ROOT / "figures" / name for name in COMMITTED}
    folders.pop(paths.run_name(profile), None)
    return {name: read_table(folder, "tab_claims") for name, folder in folders.items()}


def select_thesis(ledger: pd.DataFrame) -> pd.DataFrame:
    """The findings of the thesis, without those of the news paper."""
    return ledger[~ledger["label"].str.startswith("news")]


def shorten_ledger(ledger: pd.DataFrame) -> pd.DataFrame:
    """Columns finding, published, ours (effects), low, high (of ours), verdict, survives."""
    short = ledger.rename(columns={"published_effect": "published", "effect": "ours"})
    short.attrs["label"] = "short_ledger"  # of its layout in `params/tables.yaml`
    return short[["finding", "published", "ours", "low", "high", "verdict", "survives"]]


def count_findings(ledger: pd.DataFrame) -> dict[str, int]:
    """Count the thesis' findings: all, and by what becomes of them."""
    thesis = select_thesis(ledger)
    repeats, survives = [*thesis["verdict"]], [*thesis["survives"]]
    return {
        "findings": len(thesis),
        "repeat": repeats.count(HOLDS),
        "reversed": repeats.count(REVERSED),
        "open": repeats.count(OPEN),
        "survive": survives.count(HOLDS),
        "repeat and survive": [*zip(repeats, survives, strict=True)].count((HOLDS, HOLDS)),
    }


def count_verdicts(ledgers: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Count the thesis' findings in each ledger by verdict.

    Columns: verdict; published; for each name "<name> repeats" and "<name> survives".
    """
    columns = {}
    for name, ledger in ledgers.items():
        thesis = select_thesis(ledger)
        columns.setdefault("published", thesis["published_verdict"])
        columns |= {f"{name} repeats": thesis["verdict"], f"{name} survives": thesis["survives"]}
    counts = {name: verdicts.value_counts() for name, verdicts in columns.items()}
    frame = pd.DataFrame(counts).reindex(VERDICTS).fillna(0).astype(int)
    return frame.rename_axis("verdict").reset_index()


def make_gallery(profile: Profile, folder: Path) -> str:
    """All saved figures and tables of a profile as Markdown, with links relative to `folder`."""
    parts = [GALLERY.format(profile=profile.name)]
    for name, entries in groupby(manifest.load().values(), key=lambda entry: entry.notebook):
        saved = [entry for entry in entries if all(map(Path.is_file, entry.paths(profile)))]
        if saved:
            executed = paths.ROOT / ("docs" if profile.name == "mini" else "") / "notebooks"
            link = os.path.relpath(executed / f"{name}.ipynb", folder)
            rows = [_describe(entry, profile, folder) for entry in saved]
            parts.append("\n".join([f"## [{name}]({link})\n\n| | |\n|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _describe(entry: Entry, profile: Profile, folder: Path) -> str:
    """A row of the gallery: picture or table, then title, numbers and command."""
    links = {file.suffix: os.path.relpath(file, folder) for file in entry.paths(profile)}
    name = manifest.full_name(entry.label)
    title = f"{name}: {entry.title}" if name[-1].isdigit() else entry.title
    numbers = f"[numbers]({links['.csv']})"
    if entry.kind == "table":
        shown, numbers = f"[table]({links['.md']})", f"{numbers} · [LaTeX]({links['.tex']})"
    else:
        shown = f'<img src="{links[".svg"]}" width="280" alt="{title}">'
    return f"| {shown} | **{title}**<br>{numbers}<br>`./run_all.sh {profile.name} {entry.label}` |"


def fill_blocks(text: str, **blocks: pd.DataFrame) -> str:
    """Put tables between `<!-- name -->` and `<!-- /name -->`; ValueError without such a place."""
    for name, frame in blocks.items():
        table = tables.render("md", frame)
        place = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
        text, places = place.subn(lambda _, table=table: table, text)
        if places != 1:
            raise ValueError(f"{places} places for the table {name!r}, expected one")
    return text


def write_pages(profile: Profile) -> list[Path]:
    """Write what pages show of a saved ledger, and the gallery; returns their files.

    An unchanged `mini` fills README.md and docs/results.md, other runs pages in their folder.
    """
    ledger = read_table(paths.figures(profile), "tab_claims")
    folder, results, pages = paths.run_folder(profile) / "pages", EMPTY, {}
    if paths.run_name(profile) == "mini":
        folder, readme = paths.ROOT / "docs", paths.ROOT / "README.md"
        results = (folder / "results.md").read_text(encoding="utf-8")
        numbers = pd.DataFrame([count_findings(ledger)])
        pages[readme] = fill_blocks(readme.read_text(encoding="utf-8"), numbers=numbers)
    counts = count_verdicts({paths.run_name(profile): ledger} | read_others(profile))
    findings = shorten_ledger(ledger)
    pages[folder / "results.md"] = fill_blocks(results, counts=counts, findings=findings)
    pages[folder / "figures.md"] = make_gallery(profile, folder)
    for file, text in pages.items():
        write_text(file, text)
    return [*pages]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the pages of a profile that was run.")
    parser.add_argument("profile", choices=profiles.list_profiles())
    print(*write_pages(profiles.load(parser.parse_args().profile)), sep="\n")
