"""One HTML page per profile: the claims ledger, every figure and table beside the published one, and how it was made.

The page holds everything it shows - pictures as data URIs, its style inline, no script - so it opens from disk,
without a network, and can be sent as one file. What was not made is listed as missing.
"""

import base64
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import pandas as pd

from lib.config import manifest, paths, roles
from lib.config.manifest import Entry, full_name
from lib.config.profiles import Profile
from lib.findings import claims
from lib.published import deviations
from lib.statistics.verdicts import MARGIN
from lib.store import provenance
from lib.store.files import write_atomically
from lib.store.progress import duration

LEDGER = "tab_claims"  # has a section of its own


def write(profile: Profile, ledger: pd.DataFrame) -> Path:
    """Write the page to `artifacts/<run>/report.html`, label "report", and return its path."""
    path = paths.run_folder(profile) / "report.html"
    write_atomically(path, page(profile, ledger).encode())
    provenance.saved["report"] = [path]
    return path


def page(profile: Profile, ledger: pd.DataFrame) -> str:
    """The page as text. ledger: `claims.check`'s."""
    entries = {label: entry for label, entry in manifest.load().items() if entry.kind != "page" and label != LEDGER}
    items = [shown_item(label, entry, profile) for label, entry in entries.items()]
    notebooks = {label: entry.notebook for label, entry in entries.items()}
    chapters = {name: [item for item in items if item.entry.notebook == name] for name in sorted({*notebooks.values()})}
    notes = [item.provenance for item in items if item.provenance]
    values = {"rerun": claims.rerun_noise().least_difference, "timings": _timings(profile, chapters)}
    values["rankings"] = {label: claims.neighbours(label) for label in claims.RANKINGS}
    commits = (note["commit"][:12] + " (with changes)" * note["dirty"] for note in notes if note.get("commit"))
    values |= {"commits": {*commits}, "versions": pd.DataFrame([note["versions"] for note in notes])}
    values["parameters"] = pd.DataFrame(profile.flat().items(), columns=["parameter", "value"]).map(str)
    values |= {"profile": profile, "run": paths.run_name(profile), "chapters": chapters, "items": items, "notes": notes}
    values |= {"ledger": ledger, "margin": MARGIN, "deviations": deviations.table(profile), "notebooks": notebooks}
    return template("template.html.j2").render(values)


def shown_item(label: str, entry: Entry, profile: Profile) -> SimpleNamespace:
    """Everything about one label that is on disk; what is missing leaves image and table empty."""
    files = {file.suffix: file for file in entry.paths(profile)}
    complete = all(file.is_file() for file in files.values())
    # Without pandas' list of missing values: the thesis' "None" is a label, not a gap.
    numbers = pd.read_csv(files[".csv"], keep_default_na=False, na_values=[""]) if complete else pd.DataFrame()
    image = base64.b64encode(files[".svg"].read_bytes()).decode() if complete and ".svg" in files else ""
    shown = {"image": image, "alt": alt(label, entry.title, numbers), "table": _beside(numbers)}
    note = provenance.read(label, profile)
    return SimpleNamespace(label=label, entry=entry, complete=complete, provenance=note, **shown)


def alt(label: str, title: str, numbers: pd.DataFrame) -> str:
    """What a picture shows, in words: for boxplots the best model, here and published."""
    text = f"{full_name(label)}: {title}."
    if "normalized" not in numbers:
        return f"{text} {len(numbers)} rows of {', '.join(numbers)}."
    means = numbers.groupby("model", sort=False)[["normalized", "published_normalized"]].mean()
    text += f" Boxplots of normalised accuracy, one row for each of {len(means)} models."
    for words, column in (("Best mean here", means["normalized"]), ("Published best", means["published_normalized"])):
        text += f" {words}: {column.idxmax()} ({cell(column.max())})." if column.notna().any() else ""
    return text


def cell(value: Any) -> str:
    """A value as a table shows it: at most four decimals of a float, nothing for a missing value."""
    if pd.isna(value):
        return ""
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _beside(numbers: pd.DataFrame) -> pd.DataFrame:
    """The numbers behind a figure or table; a boxplot's with a row per model, the best first, ours / published."""
    if "normalized" not in numbers:
        return numbers
    columns = {"ours": ("normalized", "mean"), "published": ("published_normalized", "mean"), "seeds": ("seeds", "max")}
    means = numbers.groupby("model", sort=False).agg(**columns)
    pairs = numbers["value"].map(cell) + " / " + numbers["published"].map(cell).replace("", "-")
    tasks = numbers.assign(pair=pairs).pivot(index="model", columns="task", values="pair")
    return means.join(tasks[roles.ordered(numbers["task"])]).iloc[::-1].reset_index()


def template(name: str) -> jinja2.Template:
    """A template of this folder, with what it needs to write numbers."""
    settings = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), **settings)
    environment.filters.update(cell=cell, name=full_name)
    environment.tests["missing"] = pd.isna
    return environment.get_template(name)


def _timings(profile: Profile, chapters: dict[str, list[SimpleNamespace]]) -> list[dict[str, Any]]:
    """Per notebook: its last complete run, and the training and encoding that its records stand for."""
    rows = []
    for name, own in chapters.items():
        note = provenance.run_note(name, profile)
        trainings = dict(pair for item in own for pair in item.provenance.get("trainings", {}).items())
        run = duration(note["seconds"]) if note else "not timed"
        records = duration(sum(trainings.values())) if trainings else "-"
        labels = f"{sum(item.complete for item in own)} of {len(own)}"
        rows.append({"notebook": name, "labels": labels, "run": run, "records": records})
    return rows
