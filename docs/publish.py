"""Fill the pages of the site after a run of all of `mini`: `python docs/publish.py`.

It writes the tables in README.md and docs/results.md, the gallery docs/figures.md, and copies of
the executed notebooks; and it draws the rates that `benchmarks/bench_student.py` has written.
"""

import re
from itertools import groupby
from pathlib import Path

import nbformat
import pandas as pd
from nbconvert.preprocessors import ClearMetadataPreprocessor, TagRemovePreprocessor

from lib import figures
from lib.config import manifest, paths, profiles
from lib.figures import tables
from lib.ledger.claims import count_verdicts, read_table, shorten_ledger
from lib.statistics.verdicts import HOLDS, OPEN, REVERSED
from lib.store import write_text

FOLDER = paths.ROOT / "docs"
FIGURES = paths.ROOT / "figures"
STEPS = (
    TagRemovePreprocessor(remove_cell_tags={"injected-parameters"}),  # the cell that papermill adds
    ClearMetadataPreprocessor(preserve_nb_metadata_mask={"kernelspec", "language_info"}),
)
GALLERY = """# All figures and tables

*`python docs/publish.py` writes this page. Do not edit it.*

Here is what the notebooks make of `mini`, next to what was published, with its values."""


def make_pages() -> dict[Path, str]:
    """Page -> its text, with the tables of the committed figures."""
    ledgers = {name: read_table(FIGURES / name, "tab_claims") for name in ("mini", "lab")}
    numbers = {"numbers": pd.DataFrame([count_findings(ledgers["mini"])])}
    blocks = {"counts": count_verdicts(ledgers), "findings": shorten_ledger(ledgers["mini"])}
    pages = {FOLDER / "figures.md": make_gallery()}
    for file, filled in ((paths.ROOT / "README.md", numbers), (FOLDER / "results.md", blocks)):
        pages[file] = fill_blocks(file.read_text(encoding="utf-8"), **filled)
    return pages


def count_findings(ledger: pd.DataFrame) -> dict[str, int]:
    """Count the thesis' findings: all, and by what becomes of them."""
    thesis = ledger[~ledger["label"].str.startswith("news")]
    repeat, survive = thesis["verdict"].eq(HOLDS), thesis["survives"].eq(HOLDS)
    counts = {"findings": len(thesis), "repeat": repeat.sum()}
    counts |= {word: thesis["verdict"].eq(word).sum() for word in (REVERSED, OPEN)}
    return counts | {"survive": survive.sum(), "repeat and survive": (repeat & survive).sum()}


def fill_blocks(text: str, **blocks: pd.DataFrame) -> str:
    """Put tables between `<!-- name -->` and `<!-- /name -->`, each of which is there once."""
    for name, frame in blocks.items():
        head, rest = text.split(f"<!-- {name} -->\n")
        _, tail = rest.split(f"<!-- /{name} -->")
        text = f"{head}<!-- {name} -->\n{tables.render('md', frame)}<!-- /{name} -->{tail}"
    return text


def make_gallery() -> str:
    """All committed figures and tables of mini as Markdown, with links from `FOLDER`."""
    parts, profile = [GALLERY], profiles.load("mini")
    for notebook, entries in groupby(manifest.load().values(), key=lambda entry: entry.notebook):
        rows = [f"## [{notebook}](notebooks/{notebook}.ipynb)\n\n| | |\n|---|---|"]
        for entry in entries:
            links = {file.suffix: f"../figures/mini/{file.name}" for file in entry.paths(profile)}
            name = manifest.full_name(entry.label)
            title = f"{name}: {entry.title}" if name[-1].isdigit() else entry.title
            told = f"**{title}**<br>[numbers]({links['.csv']})"
            shown = f'<img src="{links.get(".svg")}" width="280" alt="{title}">'
            if entry.kind == "table":
                shown, told = f"[table]({links['.md']})", f"{told} · [LaTeX]({links['.tex']})"
            rows.append(f"| {shown} | {told}<br>`./run_all.sh mini {entry.label}` |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts) + "\n"


def draw_rates(folder: Path) -> None:
    """Draw `rates.csv` of a folder: tokens a second against the length of documents."""
    rates = pd.read_csv(folder / "rates.csv").query("case != 'mixed'").astype({"case": int})
    above = rates["model"] == "static table"
    told = f"static table: {rates[above]['rate'].min():,.0f} and more, far above this axis"
    parts = rates[~above].groupby("precision", sort=False)
    with figures.style():
        figure, (axes,) = figures.panels(2, 3.6, sharey=True)
        for axis, (precision, part) in zip(axes, parts, strict=True):
            for name, rows in part.groupby("model", sort=False):
                axis.plot(rows["case"], rows["rate"], "o-", label=name)
            axis.set(xscale="log", title=precision, xlabel="tokens of a document")
            axis.set_xticks(sizes := sorted({*rates["case"]}), [f"{size:,}" for size in sizes])
            axis.minorticks_off()
        axes[0].set(ylabel="tokens a second", ylim=(0, 1.05 * rates[~above]["rate"].max()))
        handles = figures.labelled(axes)
        figure.legend(handles=handles, loc="outside lower center", ncols=3, title=told)
        figure.savefig(folder / "rates.svg", metadata={"Date": None})


def clean(path: Path) -> str:
    """Clean an executed notebook, so that its copy depends only on its cells and their results.

    ValueError if a cell failed or did not run.
    """
    notebook = nbformat.read(path, 4)
    for step in STEPS:
        notebook, _ = step.preprocess(notebook, {})
    notebook.metadata.get("language_info", {}).pop("version", None)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            # Copies are one folder deeper, and notebooks without a number are not copied.
            text = re.sub(r"\]\((?=\.\./)", "](../", cell.source)
            cell.source = re.sub(r"\]\((?=[a-z]\w*\.ipynb)", "](../../notebooks/", text)
            cell.metadata = {}
            continue
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        failed = any(output.output_type == "error" for output in cell.outputs)
        if failed or cell.execution_count is None:
            raise ValueError(f"{path}: a cell failed or did not run: run the notebook again")
    text = nbformat.writes(notebook) + "\n"
    places = {str(paths.artifacts()): "artifacts", str(paths.ROOT): ".", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        text = re.sub(rf"{re.escape(place)}(?=[/\"\\\s])", places[place], text)
    return text


if __name__ == "__main__":
    executed = (paths.run_folder(profiles.load("mini")) / "executed").glob("*.ipynb")
    pages = make_pages() | {FOLDER / "notebooks" / path.name: clean(path) for path in executed}
    for path, text in pages.items():  # all, or none if a notebook failed
        write_text(path, text)
    draw_rates(paths.ROOT / "benchmarks" / "results")
    print(f"{len(pages)} pages written")
