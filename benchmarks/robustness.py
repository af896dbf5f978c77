"""Whether decided findings stay decided: with another base, other seeds and other passages.

    THESIS_DATA=... python benchmarks/robustness.py mini    longer than `./run_all.sh mini`
    THESIS_DATA=... python benchmarks/robustness.py mini "other seeds"

Saves table "robust" beside the ledger of a profile that ./run_all.sh has run: every decided answer
as run, and under each variation of `params/grids/beyond.yaml`. It trains the figures of decided
findings, with one base, one set of seeds and one choice of texts. Checks are not made again.
"""

import argparse

import numpy as np
import pandas as pd

from lib.config import paths, profiles
from lib.experiments.bench import Bench
from lib.figures import tables
from lib.ledger import claims
from lib.ledger.claims import read_table
from lib.ledger.kinds import load_claims
from lib.statistics.verdicts import EQUIVALENT, HOLDS, REVERSED, SMALLER

QUESTIONS = {"thesis": "repeats"}
QUESTIONS |= {"compare": "survives, heads that compare", "none": "survives, no head"}
JUDGED = ["effect", "low", "high", "verdict"]


def list_answers(ledger):
    """A row for each finding of the thesis and readout, and whether it is decided.

    The second question is decided if the two readouts that need little training agree. Rankings
    have one readout, so their two questions are one.
    """
    parts = []
    for readout, question in QUESTIONS.items():
        names = {claims.PREFIXES[readout] + name: name for name in JUDGED}
        part = ledger[["id", "label", "finding", *names]].rename(columns=names)
        decided = ledger["verdict" if readout == "thesis" else "survives"]
        decided = decided.isin([HOLDS, REVERSED, EQUIVALENT, SMALLER])
        if readout != "thesis":
            decided &= ~ledger["label"].isin(claims.RETRIEVAL)
        parts.append(part.assign(question=question, readout=readout, decided=decided))
    answers = pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)
    return answers[~answers["label"].str.startswith("news")]


def tabulate(ledger, profile, variations):
    """`variations` are names and dotted keys of the profile with other values."""
    decided = list_answers(ledger).query("decided")
    sources = {claim.source for claim in load_claims() if claim.id in {*decided["id"]}}
    frames = [decided.assign(variation="as run", same="yes")]
    for name, overrides in variations.items():
        bench = Bench.load(profile, overrides=dict(overrides))
        scores = {figure: claims.run_figure(figure, bench) for figure in sources}
        ours = list_answers(claims.judge_claims(scores)).set_index(["id", "readout"])[JUDGED]
        again = decided.drop(columns=JUDGED).join(ours, on=["id", "readout"])
        same = np.where(again["verdict"] == decided["verdict"], "yes", "no")
        frames.append(again.assign(variation=name, same=same))
    columns = ["id", "label", "finding", "question", *JUDGED, "variation", "same"]
    return pd.concat(frames, ignore_index=True)[columns]


if __name__ == "__main__":
    settings = profiles.grid("beyond")["robust"]
    parser = argparse.ArgumentParser()
    parser.add_argument("profile")
    parser.add_argument("variations", nargs="*", default=[*settings])
    given = parser.parse_args()
    folder = paths.figures(profiles.load(given.profile))
    variations = {name: settings[name] for name in given.variations}
    table = tabulate(read_table(folder, "tab_claims"), given.profile, variations)
    table.attrs["label"] = "tab_robust"
    tables.save(table, "tab_robust", folder)
    print(table.groupby("variation", sort=False)["same"].value_counts().to_string())
