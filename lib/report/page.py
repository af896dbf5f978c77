"""One HTML page per profile: the claims ledger, every figure and table beside the published one, and how it was made.

    ledger = claims.check(*claims.our_results(profile), profile=profile.name)
    page.write(profile, ledger)                artifacts/<run>/report.html

The page holds everything it shows - pictures as data URIs, its style inline, no script - so it opens from disk,
without a network, and can be sent as one file. It shows what is there; what was not made is listed as missing.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from lib.config import manifest, paths
from lib.config.profiles import Profile
from lib.findings import claims
from lib.published import deviations
from lib.report import shown_items
from lib.statistics.verdicts import EQUIVALENT, HOLDS, MARGIN, NOT_RUN, NOT_TESTABLE, NUMBER, OPEN, REVERSED
from lib.store import provenance
from lib.store.files import write_atomically
from lib.store.progress import duration

LEDGER = "tab_claims"  # has a section of its own
# Verdict -> class in the page.
_VERDICTS = {
    HOLDS: "holds", REVERSED: "fails", EQUIVALENT: "alike", OPEN: "unclear", NOT_TESTABLE: "untestable",
    NOT_RUN: "notrun", NUMBER: "number",
}  # fmt: skip
_REACH = 0.2  # effects beyond it are drawn at the edge


def write(profile: Profile, ledger: pd.DataFrame) -> Path:
    """Write the page to `artifacts/<run>/report.html`, register it under the label "report", and return its path."""
    path = paths.run_folder(profile) / "report.html"
    write_atomically(path, page(profile, ledger).encode())
    provenance.saved["report"] = [path]
    return path


def page(profile: Profile, ledger: pd.DataFrame) -> str:
    """The page as text. ledger: `claims.check`'s."""
    entries = {label: entry for label, entry in manifest.load().items() if entry.kind != "page" and label != LEDGER}
    items = [shown_items.item(label, entry, profile) for label, entry in entries.items()]
    notebooks = sorted({entry.notebook for entry in entries.values()})
    chapters = {name: [item for item in items if item.entry.notebook == name] for name in notebooks}
    notes = [item.provenance for item in items if item.provenance]
    parameters = [(key, "-" if value is None else str(value)) for key, value in profile.flat().items()]
    html = template("template.html.j2")
    return html.render(
        profile=profile,
        run=paths.run_name(profile),
        chapters=chapters,
        items=items,
        rows=ledger.to_dict("records"),
        linked=entries,
        counts={verdict: int((ledger["verdict"] == verdict).sum()) for verdict in _VERDICTS},
        classes=_VERDICTS,
        within=int((ledger["published_verdict"] == OPEN).sum()),
        rerun=f"{claims.rerun_noise().least_difference:.4f}".removeprefix("0"),
        margin=f"{MARGIN}".removeprefix("0"),
        rankings={label: claims.neighbours(label) for label in claims.RANKINGS},
        notes=notes,
        commits={note["commit"][:12] + " (with changes)" * note["dirty"] for note in notes if note.get("commit")},
        versions=pd.DataFrame([note.get("versions", {}) for note in notes]),  # several where figures differ
        parameters=pd.DataFrame(parameters, columns=["parameter", "value"]),
        timings=_timings(profile, chapters),
        deviations=deviations.table(profile).to_dict("records"),
    )


def template(name: str) -> jinja2.Template:
    """A template of this folder, with what it needs to write numbers."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    whitespace = {"trim_blocks": True, "lstrip_blocks": True}
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, **whitespace)
    environment.filters.update(cell=shown_items.cell, name=shown_items.name, signed=_signed, place=_place)
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


def _place(effect: float) -> float:
    return 100 + 94 * np.sign(effect) * np.sqrt(min(abs(effect), _REACH) / _REACH)


def _signed(number: float | None) -> str:
    return NOT_RUN if pd.isna(number) else f"{number:+.4f}".replace("0.", ".", 1).replace("-", "−")
