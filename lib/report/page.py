"""One HTML page per profile: the claims ledger, every figure and table beside the published one, and how it was made.

    ledger = claims.check(*claims.our_results(profile), profile=profile.name)
    page.write(profile, ledger)                artifacts/<run>/report.html

The page holds everything it shows - pictures as data URIs, its style inline, no script - so it opens from disk,
without a network, and can be sent as one file. It shows what is there; what was not made is listed as missing.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from lib.config import manifest, paths
from lib.config.profiles import Profile
from lib.findings import claims
from lib.published import deviations
from lib.report import shown_items
from lib.report.shown_items import Item
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
    parameters = [(key, "-" if value is None else str(value)) for key, value in profile.flat().items()]
    return template("template.html.j2").render(
        profile=profile,
        run=paths.run_name(profile),
        chapters=[(name, name.replace("_", " ", 1).replace("_", " "), group) for name, group in chapters.items()],
        items=items,
        missing=[item for item in items if not item.complete],
        rows=[_claim(row, entries) for row in ledger.to_dict("records")],
        counts={verdict: int((ledger["verdict"] == verdict).sum()) for verdict in _VERDICTS},
        classes=_VERDICTS,
        within=int((ledger["published_verdict"] == OPEN).sum()),
        rerun=f"{claims.rerun_noise().least_difference:.4f}".removeprefix("0"),
        margin=f"{MARGIN}".removeprefix("0"),
        rankings=_rankings(),
        facts=_facts(profile, items),
        versions=_versions(items),
        parameters=pd.DataFrame(parameters, columns=["parameter", "value"]),
        timings=_timings(profile, chapters),
        deviations=deviations.table(profile).to_dict("records"),
    )


def template(name: str) -> jinja2.Template:
    """A template of this folder, with what it needs to write numbers."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own = {"cell": shown_items.cell, "numeric": shown_items.numeric, "signed": _signed, "place": _place}
    environment.filters.update(own)
    environment.tests["missing"] = _missing
    return environment.get_template(name)


def _claim(row: dict[str, Any], entries: Container[str]) -> dict[str, Any]:
    return {
        **row,
        "figure": shown_items.name(row["label"]),
        "linked": row["label"] in entries,
        "class": _VERDICTS[row["verdict"]],
        "published_class": _VERDICTS[row["published_verdict"]],
        "published_text": _effect(row, "published_"),
        "ours_text": _effect(row, ""),
        "p_text": _rates(row, ""),
        "published_p_text": _rates(row, "published_"),
        "one_task": ""
        if _missing(row["one_task_low"])
        else " to ".join(map(_signed, (row["one_task_low"], row["one_task_high"]))),
    }


def _effect(row: dict[str, Any], prefix: str) -> str:
    effect, low, high = (row[f"{prefix}{name}"] for name in ("effect", "low", "high"))
    if _missing(effect):
        return ""
    return _signed(effect) + ("" if _missing(low) else f" [{_signed(low)}, {_signed(high)}]")


def _rates(row: dict[str, Any], prefix: str) -> str:
    """p and q of a row in words; nothing where nothing was tested."""
    texts = {name: row[f"{prefix}{name}"] for name in ("p", "q")}
    small = {
        name: "< .001" if value < 0.001 else f"= {value:.3f}".replace("0.", ".", 1) for name, value in texts.items()
    }
    return "" if _missing(texts["p"]) else ", ".join(f"{name} {text}" for name, text in small.items())


def _rankings() -> list[dict[str, Any]]:
    rows = []
    for label in claims.RANKINGS:
        table = claims.neighbours(label)
        close = table.loc[table["within_noise"], ["model", "ahead_of", "arithmetic"]]
        close = close.rename(columns={"ahead_of": "ahead of"})
        rows.append({"name": shown_items.name(label), "within": len(close), "pairs": len(table), "table": close})
    return rows


def _facts(profile: Profile, items: Iterable[Item]) -> list[tuple[str, str]]:
    """What the run rests on, from the provenance of everything shown."""
    notes = [item.provenance for item in items if item.provenance]
    changed = {True: " (with changes)", False: "", None: ""}
    commits = {note["commit"][:12] + changed[note["dirty"]] for note in notes if note.get("commit")}
    seeds = sorted({seed for note in notes for seed in note.get("seed", ())})
    devices = sorted({device for note in notes for device in note.get("device", ())})
    written = sorted(note["written"] for note in notes)
    corpus = f"{profile.corpus.train_documents:,} documents of the folders {', '.join(profile.corpus.names)}"
    return [
        ("Profile", profile.name),
        ("Changed", ", ".join(f"{key} = {value!r}" for key, value in profile.departures.items()) or "nothing"),
        ("Corpus", corpus),
        ("Tasks", ", ".join(f"{name} ({profile.tasks.folders[name].folder})" for name in profile.tasks.names)),
        ("Seeds", ", ".join(map(str, seeds)) or "not recorded"),
        ("Device", ", ".join(devices) or "not recorded"),
        ("Commit", ", ".join(sorted(commits)) or "not recorded"),
        ("Made", f"{written[0]} to {written[-1]}" if written else "not recorded; the figures came with the repository"),
    ]


def _versions(items: Iterable[Item]) -> list[tuple[str, str]]:
    """Package -> version, all of them if figures were made with several."""
    versions: dict[str, set[str]] = {}
    for item in items:
        for package, version in item.provenance.get("versions", {}).items():
            versions.setdefault(package, set()).add(version)
    return [(package, ", ".join(sorted(several))) for package, several in versions.items()]


def _timings(profile: Profile, chapters: dict[str, list[Item]]) -> list[dict[str, Any]]:
    """Per notebook: its last complete run, and the training and encoding that its records stand for."""
    rows = []
    for name, own in chapters.items():
        note = provenance.run_note(name, profile)
        trainings: dict[str, float] = {}
        for item in own:
            trainings |= item.provenance.get("trainings", {})
        run = duration(note["seconds"]) if note else "not timed"
        records = duration(sum(trainings.values())) if trainings else "-"
        labels = f"{sum(item.complete for item in own)} of {len(own)}"
        rows.append({"notebook": name, "labels": labels, "run": run, "records": records})
    return rows


def _place(effect: float) -> float:
    return 100 + 94 * np.sign(effect) * np.sqrt(min(abs(effect), _REACH) / _REACH)


def _signed(number: float | None) -> str:
    return NOT_RUN if _missing(number) else f"{number:+.4f}".replace("0.", ".", 1).replace("-", "−")


def _missing(number: float | None) -> bool:
    return number is None or bool(np.isnan(number))
