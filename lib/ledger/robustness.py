"""Judge the decided findings again, under other conditions (table "robust").

A finding is decided if it holds, is reversed, is a tie or is smaller than published. That verdict
comes from one base, one set of seeds and one choice of texts. Here the models that such findings
name are trained and judged again. Preconditions are not checked again.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.config import profiles
from lib.config.profiles import grid
from lib.distillation.variants import parse
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench
from lib.ledger import claims
from lib.ledger.claim_kinds import Claim
from lib.published import figure_models
from lib.statistics.verdicts import EQUIVALENT, HOLDS, REVERSED, SMALLER

DECIDED = (HOLDS, REVERSED, EQUIVALENT, SMALLER)
AS_RUN = "as run"
# Prefix of the ledger's columns -> the question. The second one has two readouts.
QUESTION_OF_PREFIX = {
    "": "repeats",
    "compare_": "survives, heads that compare",
    "none_": "survives, no head",
}
_FIELDS, _JUDGED = ("id", "label", "finding"), ("effect", "low", "high", "verdict")


def select_decided(ledger: pd.DataFrame) -> pd.DataFrame:
    """The decided answers of a ledger, a row for each, without those of the news paper.

    The second question is decided if the two readouts that need little training agree; then each of
    them has a row. Columns: id, label, finding, question, prefix (of the ledger's columns), effect,
    low, high and verdict.
    """
    rows = []
    for row in ledger[~ledger["label"].str.startswith("news")].to_dict("records"):
        # Rankings have one readout, so the two questions are one.
        asked = [""] if row["label"] in claims.RETRIEVAL else QUESTION_OF_PREFIX
        for prefix in asked:
            if (row["survives"] if prefix else row["verdict"]) in DECIDED:
                about = {"question": QUESTION_OF_PREFIX[prefix], "prefix": prefix}
                rows.append(row | about | _judged(row, prefix))
    return pd.DataFrame(rows, columns=[*_FIELDS, "question", "prefix", *_JUDGED])


def run_named(chosen: Sequence[Claim], bench: Bench) -> dict[str, pd.DataFrame]:
    """Run the models that claims name, and all of Chapter 5: figure -> records by all readouts."""
    scores: dict[str, pd.DataFrame] = {}
    for figure in dict.fromkeys(claim.source for claim in chosen):
        if figure in claims.RETRIEVAL:
            scores[figure] = final_students.run_retrievals(bench, top=None)
        elif figure not in theirs.CHAPTER_4:
            scores[figure] = final_students.run_readouts(bench)
        else:
            named = list_models([claim for claim in chosen if claim.source == figure])
            seeds = chapter4.assign_seeds(bench.profile)
            frames = [bench.with_readout(name).run(named, seeds=seeds) for name in READOUTS]
            scores[figure] = pd.concat(frames, ignore_index=True)
    return scores


def list_models(chosen: Sequence[Claim]) -> list[str]:
    """Identities of the models that claims about one figure of Chapter 4 name.

    The references that measure the seed noise of these models come last.
    """
    figure = chosen[0].source
    printed = figure_models.printed(figure)
    named = {name for claim in chosen for side in claim.sides(list(printed)) for name in side}
    models = [identity for name, identity in printed.items() if name in named]
    classes = {parse(model).seed_class for model in models}
    references = chapter4.list_references(figure)
    models += [model for model in references if parse(model).seed_class in classes]
    return list(dict.fromkeys(models))


def tabulate_robustness(
    ledger: pd.DataFrame, profile: str, variations: Mapping[str, Mapping[str, object]]
) -> pd.DataFrame:
    """Table "robust": every decided answer of a profile's ledger, as run and under each variation.

    A variation is a name and dotted keys of the profile with other values. Columns are those of
    `select_decided` except prefix, then variation and same ("yes" if the verdict is that of the
    ledger, else "no").
    """
    decided = select_decided(ledger)
    frames = [decided.assign(variation=AS_RUN)]
    for name, overrides in variations.items() if len(decided) else ():
        scores = run_named(_find_claims(decided), Bench.load(profile, overrides=dict(overrides)))
        again = claims.judge_claims(scores).set_index("id")
        rows = [_judged(again.loc[row.id], row.prefix) for row in decided.itertuples()]
        judged = pd.DataFrame(rows, index=decided.index)
        frames.append(decided.assign(**judged, variation=name))
    table = pd.concat(frames)
    same = table["verdict"] == table.index.map(decided["verdict"])
    table = table.assign(same=same.map({True: "yes", False: "no"}))
    return table.drop(columns="prefix").reset_index(drop=True)


def load_variations(names: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Variations of `params/grids/beyond.yaml`, by default all: name -> dotted keys and values."""
    known = grid("beyond")["robust"]
    for name in names:
        if name not in known:
            raise profiles.make_unknown_error("variation", name, known)
    return {name: known[name] for name in names or known}


def count_named(ledger: pd.DataFrame) -> tuple[int, int]:
    """How many findings are decided, and how many students of Chapter 4 they need."""
    chosen = _find_claims(select_decided(ledger))
    about = [[each for each in chosen if each.source == figure] for figure in theirs.CHAPTER_4]
    models = {model for part in about if part for model in list_models(part)}
    return len(chosen), sum(parse(model).kind == "student" for model in models)


def _find_claims(decided: pd.DataFrame) -> list[Claim]:
    wanted = {*decided["id"]}
    return [claim for claim in claims.load_claims() if claim.id in wanted]


def _judged(row: Mapping[str, object], prefix: str) -> dict[str, object]:
    return {name: row[prefix + name] for name in _JUDGED}
