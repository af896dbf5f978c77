"""Judge findings again: by other rules, or after training under other conditions.

`python -m lib.ledger.again mini` saves table "robust", `... mini "other seeds"` with one variation
of `params/grids/beyond.yaml` alone. It trains the figures of decided findings, with one base, one
set of seeds and one choice of texts. Checks are not made again.
"""

import argparse
import sys
from collections.abc import Mapping

from lib.config import environment, paths, profiles
from lib.config.profiles import ParameterError, grid

if __name__ == "__main__":
    environment.set_process_environment(offline=True)  # before NumPy and torch load

import numpy as np
import pandas as pd
from scipy import stats

from lib.chapters import chapter4, final_students
from lib.experiments.bench import Bench
from lib.figures import tables
from lib.ledger import claims
from lib.ledger.kinds import Alike, load_claims
from lib.published import CHAPTER_4
from lib.statistics import verdicts
from lib.statistics.verdicts import ALPHA, EQUIVALENT, HOLDS, MARGIN, REVERSED, SMALLER

DECIDED = (HOLDS, REVERSED, EQUIVALENT, SMALLER)
AS_RUN = "as run"
QUESTIONS = {"thesis": "repeats"}
QUESTIONS |= {"compare": "survives, heads that compare", "none": "survives, no head"}
_UNMOVED = (verdicts.NOT_RUN, verdicts.NOT_TESTABLE, verdicts.NUMBER)
_JUDGED = ["effect", "low", "high", "verdict"]


def judge_again(ledger: pd.DataFrame, *, margin: float = MARGIN, runs: float = 1) -> pd.DataFrame:
    """Judge a `claims.judge_claims` ledger with another margin, or `runs` times the runs.

        interval = effect +- half-width sqrt(1 - seed_share + seed_share / runs)

    Effects and intervals of differences of spreads stay the same, and the deciding comparison
    stands for the whole finding. The 90% intervals of ties assume normal errors. Columns: verdict,
    compare_verdict, none_verdict and survives.
    """
    alike = {claim.id for claim in load_claims() if isinstance(claim, Alike)}
    shift = np.where(ledger["id"].isin(alike), margin - MARGIN, 0.0)  # their effects contain it
    one_sided = stats.norm.ppf(1 - ALPHA) / stats.norm.ppf(1 - ALPHA / 2)
    published, again = ledger["published_effect"].astype(float), pd.DataFrame(index=ledger.index)
    for prefix in claims.PREFIXES.values():
        names = [prefix + name for name in ("effect", "low", "high", "seed_share", "p_equivalent")]
        effect, low, high, share, p_equivalent = ledger[names].astype(float).to_numpy().T
        narrower = np.sqrt(1 - np.nan_to_num(share) * (1 - 1 / runs))
        below, above = (effect - low) * narrower, (high - effect) * narrower
        effect = effect + shift
        low, high, with_tie = effect - below, effect + above, ~np.isnan(p_equivalent)
        inside = (effect - one_sided * below > -margin) & (effect + one_sided * above < margin)
        smaller = (low <= 0) & (high >= 0) & (high < published)
        word = ledger[f"{prefix}verdict"]
        cases = [word.isin(_UNMOVED), low > 0, high < 0, inside & with_tie, smaller & with_tie]
        words = [word, HOLDS, REVERSED, EQUIVALENT, SMALLER]
        again[f"{prefix}verdict"] = np.select(cases, words, verdicts.OPEN)
    return again.assign(survives=claims.share_verdicts(again))


def list_answers(ledger: pd.DataFrame) -> pd.DataFrame:
    """A row for each finding and readout, with `_JUDGED` and whether it is decided.

    The second question is decided if the two readouts that need little training agree. Rankings
    have one readout, so their two questions are one; those of the news paper are left out.
    """
    parts = []
    for readout, question in QUESTIONS.items():
        names = {claims.PREFIXES[readout] + name: name for name in _JUDGED}
        part = ledger[["id", "label", "finding", *names]].rename(columns=names)
        decided = ledger["verdict" if readout == "thesis" else "survives"].isin(DECIDED)
        asked = ~ledger["label"].str.startswith("news")
        asked &= (readout == "thesis") | ~ledger["label"].isin(claims.RETRIEVAL)
        parts.append(part.assign(question=question, readout=readout, decided=decided & asked))
    return pd.concat(parts).sort_index(kind="stable").reset_index(drop=True)


def tabulate_robustness(
    ledger: pd.DataFrame, profile: str, variations: Mapping[str, Mapping[str, object]]
) -> pd.DataFrame:
    """Table "robust": every decided answer of a profile's ledger, as run and under each variation.

    `variations` are names and dotted keys of the profile with other values. Columns: id, label,
    finding, question, effect, low, high, verdict, variation, and same (whether the verdict is the
    ledger's).
    """
    decided = list_answers(ledger).query("decided")
    sources = {claim.source for claim in load_claims() if claim.id in {*decided["id"]}}
    frames = [decided.assign(variation=AS_RUN, same="yes")]
    for name, overrides in variations.items():
        bench = Bench.load(profile, overrides=dict(overrides))
        judged = claims.judge_claims({figure: _run_figure(figure, bench) for figure in sources})
        ours = list_answers(judged).set_index(["id", "readout"])[_JUDGED]
        again = decided.drop(columns=_JUDGED).join(ours, on=["id", "readout"])
        same = np.where(again["verdict"] == decided["verdict"], "yes", "no")
        frames.append(again.assign(variation=name, same=same))
    columns = ["id", "label", "finding", "question", *_JUDGED, "variation", "same"]
    return pd.concat(frames, ignore_index=True)[columns]


def _run_figure(figure: str, bench: Bench) -> pd.DataFrame:
    """Records of all models of a figure, by all readouts."""
    if figure in claims.RETRIEVAL:
        return final_students.run_retrievals(bench, top=None)
    if figure in CHAPTER_4:
        return chapter4.run_readouts(figure, bench)
    return final_students.run_readouts(bench)


def main() -> None:
    """Save the table and print how many verdicts stay the same."""
    settings = grid("beyond")["robust"]
    parser = argparse.ArgumentParser(prog="python -m lib.ledger.again")
    parser.add_argument("profile", help="a profile that ./run_all.sh has run")
    parser.add_argument("variations", nargs="*", help=f"by default all: {', '.join(settings)}")
    given = parser.parse_args()
    folder = paths.figures(profiles.load(given.profile))
    if unknown := [name for name in given.variations if name not in settings]:
        raise profiles.make_unknown_error("variation", unknown[0], settings)
    ledger = pd.read_csv(folder / "tab_claims.csv", keep_default_na=False, na_values=[""])
    variations = {name: settings[name] for name in given.variations or settings}
    table = tabulate_robustness(ledger, given.profile, variations)
    table.attrs["label"] = "tab_robust"
    tables.save(table, "tab_robust", folder)
    print(table.groupby("variation", sort=False)["same"].value_counts().to_string())


if __name__ == "__main__":
    try:
        main()
    except (ParameterError, FileNotFoundError) as error:  # no profile, or none that was run
        sys.exit(str(error))
