"""The site of a profile: a summary, a page for each notebook, the claims ledger, and how everything was made.

A page is its notebook's text with outputs; figures and tables stand where they are saved, with the verdicts that rest
on them. Links are relative and nothing is loaded from elsewhere: it opens from disk, in JupyterLab and from a server.
"""

import argparse
import functools
import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import mistune
import nbformat
import pandas as pd
from matplotlib.textpath import TextPath

from lib.config import manifest, paths, profiles
from lib.config.profiles import Profile
from lib.ledger import claims
from lib.published import deviations
from lib.store import progress, provenance
from lib.store.files import write_atomically

_LOOK = profiles.read_yaml("figures.yaml")


def write(profile: Profile, ledger: pd.DataFrame, copy: Path | None = None) -> Path:
    """Write the site to `artifacts/<run>/site`, label "report", and return its first page. ledger: `claims.check`'s.
    copy: another folder to write to, without what differs between runs of the same numbers: times, versions, machine.
    """
    first = (copy or paths.run_folder(profile) / "site") / "index.html"
    for name, content in files(profile, ledger, noted=copy is None).items():
        write_atomically(first.parent / name, content)
    provenance.saved["report"] = [first]
    return first


def files(profile: Profile, ledger: pd.DataFrame, *, noted: bool = True) -> dict[str, bytes]:
    """Every file of the site by its name. noted: say when, how long and on what machine."""
    entries = manifest.load()
    report = entries.pop("report").notebook
    items = {label: item(entry, profile) for label, entry in entries.items()}
    chapters = {
        name: cells(name, items, profile)
        for name in sorted({entry.notebook for entry in entries.values()})
    }
    notebooks = sorted(path.name for path in paths.NOTEBOOKS.glob("*.ipynb"))
    values = {
        "profile": profile,
        "ledger": ledger,
        "noted": noted,
        "items": items,
        "report": report,
    }
    values |= {"chapters": chapters, "notebooks": notebooks}
    kinds = {
        "index": "index",
        **dict.fromkeys(chapters, "chapter"),
        report: "claims",
        "about": "about",
    }
    load = templates().get_template
    texts = {
        f"{name}.html": load(f"{kind}.html.j2").render(values, page=name)
        for name, kind in kinds.items()
    }
    texts |= {
        name: load(f"{name}.j2").render(pages=texts)
        for name in ("search.js", "site.js", "style.css")
    }
    copied = {
        f"figures/{name}": path for each in items.values() for name, path in each.files.items()
    }
    copied |= {f"notebooks/{name}": paths.NOTEBOOKS / name for name in notebooks}
    return {name: text.encode() for name, text in texts.items()} | {
        name: copied[name].read_bytes() for name in copied
    }


def item(entry: manifest.Entry, profile: Profile) -> SimpleNamespace:
    """All that is on disk about a label: its files by name, none if one is missing, the published figure among them."""
    label, own = entry.label, {path.name: path for path in entry.paths(profile)}
    whole = all(path.is_file() for path in own.values())
    text = {path.suffix: path.read_text(encoding="utf-8") for path in own.values() if whole}
    own |= (
        {f"published/{label}.svg": paths.ROOT / f"figures/published/{label}.svg"}
        if entry.kind == "figure"
        else {}
    )
    files = {name: path for name, path in own.items() if whole and path.is_file()}
    # Without pandas' list of missing values: the thesis' "None" is a label, not a gap.
    numbers = (
        pd.read_csv(own[f"{label}.csv"], keep_default_na=False, na_values=[""]) if files else None
    )
    words = {"alt": _LOOK["alt"].get(label), **_LOOK["texts"].get(label, {})}
    note = provenance.read(label, profile)
    return SimpleNamespace(
        label=label, entry=entry, files=files, text=text, numbers=numbers, words=words, note=note
    )


def cells(name: str, items: dict[str, SimpleNamespace], profile: Profile) -> list[SimpleNamespace]:
    """The cells of a notebook; code has the outputs of its last run, unless it reads a clock, and the items it saves. A
    last cell without source has the items that no other saves."""
    ran = paths.run_folder(profile) / "executed" / f"{name}.ipynb"
    executed = nbformat.read(ran, 4).cells if ran.is_file() else []
    outputs = {
        cell.source: cell.get("outputs", [])
        for cell in executed
        if "perf_counter" not in cell.source
    }
    left, shown = [each for each in items.values() if each.entry.notebook == name], []
    for cell in nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", 4).cells:
        saves = cell.cell_type == "code" and re.search(r"\b(save|draw)\(", cell.source)
        saved = [each for each in left if saves and f'"{each.label}"' in cell.source]
        left = [each for each in left if each not in saved]
        shown.append(SimpleNamespace(cell=cell, outputs=outputs.get(cell.source, []), items=saved))
    return [*shown, SimpleNamespace(cell=None, outputs=[], items=left)]


def outline(latex: str) -> TextPath | None:
    """A formula as matplotlib draws it, ten units an em; None where it cannot read it."""
    try:
        return TextPath((0, 0), f"${latex}$", size=10)
    except ValueError:
        return None


@functools.cache
def templates() -> jinja2.Environment:
    """The templates of this folder, with what they need to write numbers and texts."""
    settings = {
        "autoescape": True,
        "undefined": jinja2.StrictUndefined,
        "trim_blocks": True,
        "lstrip_blocks": True,
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), **settings
    )
    markdown = mistune.create_markdown(escape=False, plugins=["table", "math"])
    environment.filters |= {
        "name": manifest.full_name,
        "duration": progress.duration,
        "markdown": markdown,
    }
    environment.filters |= {
        "outline": outline,
        "split": lambda text, pattern: re.split(pattern, text, flags=re.DOTALL),
    }
    environment.filters["sub"] = lambda text, pattern, new: re.sub(
        pattern, new, text, flags=re.DOTALL
    )
    environment.globals |= {
        "claims": claims,
        "deviations": deviations,
        "paths": paths,
        "provenance": provenance,
    }
    environment.globals |= {"margin": claims.verdicts.MARGIN, "sections": _LOOK["sections"]}
    environment.tests["missing"] = pd.isna
    return environment


def main() -> None:
    """Write the site as a copy to publish, of the figures as they lie on disk and the notebooks as they ran last."""
    parser = argparse.ArgumentParser(prog="python -m lib.report.site", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.profiles())
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    profile = profiles.load(given.profile)
    if not (ledger := paths.figures(profile) / "tab_claims.csv").is_file():
        parser.error(f"there is no {ledger}: first run ./run_all.sh {profile.name}")
    print(write(profile, pd.read_csv(ledger, dtype={"seeds": str}), given.folder))


if __name__ == "__main__":
    main()
