"""The site of a profile: a summary, a page for each notebook, the claims ledger, and how everything was made.

A page is its notebook's text with outputs; figures and tables stand where they are saved, beside the verdicts that rest
on them. All is plain files with relative links: it opens from disk, in JupyterLab and from any web server, and loads
nothing from elsewhere. The templates beside this file say what stands where.
"""

import argparse
import re
from pathlib import Path
from types import SimpleNamespace

import jinja2
import mistune
import nbformat
import pandas as pd
from matplotlib.textpath import TextPath

from lib.config import manifest, paths, profiles
from lib.config.manifest import Entry
from lib.config.profiles import Profile
from lib.figures.style import LOOK
from lib.findings import claims
from lib.published import deviations
from lib.statistics import verdicts
from lib.store import progress, provenance
from lib.store.files import write_atomically


def write(profile: Profile, ledger: pd.DataFrame, copy: Path | None = None) -> Path:
    """Write the site to `artifacts/<run>/site`, label "report", and return its first page; equal files stay untouched.

    ledger: `claims.check`'s. copy: another folder to write to, without what differs between two runs that give the
    same numbers: times, versions, the machine.
    """
    (first,) = manifest.load()["report"].paths(profile)
    first = copy / first.name if copy else first
    for name, content in files(profile, ledger, noted=copy is None).items():
        path = first.parent / name
        if not path.is_file() or path.read_bytes() != content:
            write_atomically(path, content)
    provenance.saved["report"] = [first]
    return first


def files(profile: Profile, ledger: pd.DataFrame, *, noted: bool = True) -> dict[str, bytes]:
    """Every file of the site by its name. noted: say when, how long and on what machine."""
    entries = {label: entry for label, entry in manifest.load().items() if entry.kind != "page"}
    items = {label: item(label, entry, profile) for label, entry in entries.items()}
    notebooks = sorted({entry.notebook for entry in entries.values()})
    values = {
        "chapters": {name: cells(name, [i for i in items.values() if i.entry.notebook == name], profile) for name in notebooks},
        "deviations": deviations.table(profile),
        "items": items,
        "ledger": ledger,
        "margin": verdicts.MARGIN,
        "profile": profile,
        "rankings": {label: claims.neighbours(label) for label in claims.RANKINGS},
        "report": manifest.load()["report"].notebook,
        "rerun": claims.rerun_noise().least_difference,
        "run": paths.run_name(profile),
        "runs": {name: provenance.run_note(name, profile) for name in notebooks} if noted else {},
        "ten": ten(ledger),
    }
    kinds = {"index": "index", **dict.fromkeys(notebooks, "chapter"), values["report"]: "claims", "about": "about"}
    texts = {f"{name}.html": template(f"{kind}.html").render(values, page=name) for name, kind in kinds.items()}
    texts |= {name: template(name).render(pages=texts) for name in ("search.js", "site.js", "style.css")}
    shown = {f"figures/{name}": path for each in items.values() for name, path in each.files.items()}
    shown |= {f"notebooks/{name}.ipynb": paths.NOTEBOOKS / f"{name}.ipynb" for name in notebooks}
    return {name: text.encode() for name, text in texts.items()} | {n: path.read_bytes() for n, path in shown.items()}


def ten(ledger: pd.DataFrame) -> pd.DataFrame:
    """Ten findings for the summary, in the ledger's order: of each section the one of which our runs speak most clearly,
    then the clearest of the others. Clear is a small p, of a difference or of its absence; untested ones are left out.
    """
    tested = ledger[~ledger["verdict"].isin((verdicts.NOT_TESTABLE, verdicts.NOT_RUN, verdicts.NUMBER))]
    clearest = tested.loc[tested[["p", "p_equivalent"]].min(axis=1).sort_values(kind="stable").index]
    later = clearest["section"].duplicated()
    return pd.concat([clearest[~later], clearest[later]])[:10].sort_index()


def item(label: str, entry: Entry, profile: Profile) -> SimpleNamespace:
    """All that is on disk about a label: its files by name, none if one is missing, the published figure among them."""
    own = {path.name: path for path in entry.paths(profile)}
    published = paths.ROOT / "figures" / "published" / f"{label}.svg"
    own |= {f"published/{published.name}": published} if published.is_file() and entry.kind == "figure" else {}
    own = own if all(path.is_file() for path in own.values()) else {}
    text = {path.suffix: path.read_text(encoding="utf-8") for path in entry.paths(profile) if own}
    # Without pandas' list of missing values: the thesis' "None" is a label, not a gap.
    numbers = pd.read_csv(own[f"{label}.csv"], keep_default_na=False, na_values=[""]) if own else None
    words = {"alt": LOOK["alt"].get(label), **LOOK.get("texts", {}).get(label, {})}
    note = provenance.read(label, profile)
    return SimpleNamespace(label=label, entry=entry, files=own, text=text, numbers=numbers, words=words, note=note)


def cells(name: str, items: list[SimpleNamespace], profile: Profile) -> list[SimpleNamespace]:
    """The cells of a notebook but its frame; code has the outputs of its last run and the items that it saves.

    The last has the items that no cell saves. What a cell prints that reads a clock is left out.
    """
    ran = paths.run_folder(profile) / "executed" / f"{name}.ipynb"
    executed = nbformat.read(ran, 4).cells if ran.is_file() else []
    outputs = {cell.source: cell.get("outputs", []) for cell in executed if "perf_counter" not in cell.source}
    source, shown = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", 4).cells, []
    begin = next((number for number, cell in enumerate(source) if number and cell.source.startswith("## ")), 1)
    for cell in [source[0], *source[begin:]]:
        saves = cell.cell_type == "code" and re.search(r"\b(save|draw)\(", cell.source)
        saved = [each for each in items if saves and f'"{each.label}"' in cell.source]
        items = [each for each in items if each not in saved]
        if not cell.source.startswith("nb.finish("):
            shown.append(SimpleNamespace(cell=cell, outputs=outputs.get(cell.source, []), items=saved))
    return [*shown, SimpleNamespace(cell=None, outputs=[], items=items)]


def outline(latex: str) -> TextPath | None:
    """A formula as matplotlib draws it, ten units an em; None where it cannot read it."""
    other_names = {r"\lVert": r"\|", r"\rVert": r"\|", r"\lvert": "|", r"\rvert": "|", r"\tfrac": r"\frac"}
    try:
        return TextPath((0, 0), "$" + re.sub(r"\\\w+", lambda name: other_names.get(name[0], name[0]), latex) + "$", 10)
    except ValueError:
        return None


def template(name: str) -> jinja2.Template:
    """A template of this folder, with what it needs to write numbers and texts."""
    settings = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), **settings)
    markdown = mistune.create_markdown(escape=False, plugins=["table", "math"])
    environment.filters |= {"name": manifest.full_name, "duration": progress.duration, "markdown": markdown}
    environment.filters |= {"outline": outline, "split": lambda text, pattern: re.split(pattern, text, flags=re.DOTALL)}
    environment.filters["sub"] = lambda text, pattern, new: re.sub(pattern, new, text, flags=re.DOTALL)
    environment.tests["missing"] = pd.isna
    return environment.get_template(f"{name}.j2")


def main() -> None:
    """Write the site as a copy to publish, of the figures as they lie on disk and the notebooks as they ran last."""
    parser = argparse.ArgumentParser(prog="python -m lib.report.site", description=main.__doc__)
    parser.add_argument("profile", choices=profiles.profiles())
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    profile = profiles.load(given.profile)
    if not (saved := paths.figures(profile) / "tab_claims.csv").is_file():
        parser.error(f"there is no {saved}: first run ./run_all.sh {profile.name}")
    print(write(profile, pd.read_csv(saved, dtype={"seeds": str}), given.folder))


if __name__ == "__main__":
    main()
