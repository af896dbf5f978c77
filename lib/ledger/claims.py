"""The thesis' findings as checks on published numbers and on ours: the ledger, and each chapter's part of it.

The kind of a finding in `params/claims.yaml` turns it into differences of scores for `lib.statistics.verdicts`: ours by
chance-corrected scores of single examples, noise being seeds and texts, the published ones with the seed's alone.
"""

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.config import profiles
from lib.config.profiles import Profile
from lib.experiments import keys
from lib.ledger import testability
from lib.ledger.claim_kinds import KINDS, Alike, Claim, EasierTask, Number, resolve
from lib.published import figure_models
from lib.statistics import effects, intervals, verdicts
from lib.statistics.intervals import Evidence, SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store import executors
from lib.store.records import store
from lib.tasks import classification_names, retrieval_names

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # rows per metric
# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves that sum, which AdamW hardly notices.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
_TWICE = [
    f"{body}+1 linear;cosine" for body in ("BiLSTM(2)", "BiGRU(2)", "BiGRU")
]  # in the news paper: two schedules
TWINS = tuple((theirs.NEWS, name, f"{name};plateau") for name in _TWICE)
GIVEN = (
    "Longformer",
    "SBERT",
    "TF-IDF",
    "SBERT, mean of chunks",
)  # not trained here: the same with every seed
Scores = Mapping[
    str, pd.DataFrame | Evidence
]  # figure -> its scores; of the news paper what its chapter makes of them
Checks = Mapping[tuple[str, str], str]  # (failed check, figure, finding or "") -> what failed
Numbers = Mapping[str, float]  # ours, by name
_NUMBERS = ("effect", "low", "high", "p", "p_equivalent", "q")
_JUDGED = (*_NUMBERS, "verdict", "decided_by", "arithmetic")
_COLUMNS = [
    "id",
    "section",
    "label",
    "finding",
    *(f"published_{name}" for name in (*_JUDGED, "reason")),
    *_JUDGED,
]
_COLUMNS += ["near_limit", "one_task_low", "one_task_high", "seeds", "checks", "profile", "note"]


@functools.cache
def load() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order; a `ParameterError` names the claim that is wrong."""
    return [parse(*entry) for entry in profiles.entries("claims.yaml")]


def parse(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """One claim, checked against the schema of its kind and the models of its figure; raises as `load`."""
    kind = fields.get("kind")
    if kind not in KINDS:
        raise profiles.ParameterError(
            f"{where}: kind: unknown kind {kind!r}; known: {', '.join(KINDS)}"
        )
    claim = profiles.validated(KINDS[kind], {"id": name, **fields}, where)
    try:
        theirs.load(claim.figure)
        claim.sides(_models(claim))
        if claim.tasks:
            resolve(claim.tasks, theirs.load(claim.source)["task"].unique().tolist())
    except ValueError as error:
        raise profiles.ParameterError(f"{where}: {error} ({claim.source})") from None
    return claim


def check(
    scores: Scores,
    *,
    checks: Checks | None = None,
    numbers: Numbers | None = None,
    profile: str = "",
    label: str = "",
) -> pd.DataFrame:
    """The claims ledger: every finding, a row each, on the published numbers ("published_...") and on our scores.

    scores: figure -> tidy records with scores of single test examples, as of `experiments.run`; model is the identity,
        or the name as printed. Models that the figure does not print add to the seed noise.
    checks: `testability.results`; a claim is "not testable here" if one that it needs failed, of itself or its figure.
    numbers: for claims of the kind `number`.
    label: with what the labels of the findings begin, such as "news".

    Columns: label (the figure), `Judgement`'s, "not run" where a model has no scores, q within each document, and
    near_limit: "near" if the p that a verdict hangs on is within a factor of `verdicts.NEAR` of its limit.
    """
    rows = []
    for claim in (claim for claim in load() if claim.figure.startswith(label)):
        row: dict[str, Any] = claim.model_dump(include={"id", "section", "finding", "note"})
        row |= {"label": claim.figure, "profile": profile}
        absent = f"No records: make {claim.source} first."
        if isinstance(claim, Number):
            ours = (numbers or {}).get(claim.number)
            row |= {
                "published_effect": claim.published,
                "published_verdict": verdicts.NUMBER,
                "effect": ours,
            }
            row |= {"verdict": verdicts.NOT_RUN if ours is None else verdicts.NUMBER}
            missing = absent if ours is None else ""
        else:
            own = scores.get(claim.source)
            judged, missing = (None, absent) if own is None else _ours(claim, own)
            row["checks"] = ", ".join(claim.needed)
            failed = {
                name: why
                for (name, of), why in (checks or {}).items()
                if of in ("", claim.figure, claim.id)
            }
            judged = judged and verdicts.checked(judged, claim.needed, failed)
            for prefix, verdict in (("published_", _judged_published(claim)), ("", judged)):
                columns = asdict(verdict) if verdict else {"verdict": verdicts.NOT_RUN}
                row |= {prefix + name: value for name, value in columns.items()}
        row["note"] = " ".join(filter(None, (claim.note, missing, row.get("reason"))))
        rows.append(row)
    table = pd.DataFrame(rows, columns=_COLUMNS)
    for prefix in ("published_", ""):
        names = [prefix + name for name in _NUMBERS]
        table[names] = table[names].astype(float)
        tested = table[f"{prefix}p"].where(table[f"{prefix}verdict"] != verdicts.NOT_TESTABLE)
        table[f"{prefix}q"] = tested.groupby(table["label"].str.startswith("news")).transform(
            verdicts.q_values
        )
    near = verdicts.near_limit(table)
    notes = ("Near its limit. " + table["note"]).str.strip().where(near, table["note"])
    return table.assign(near_limit=np.where(near, "near", ""), note=notes)


def of_figure(figure: str, scores: pd.DataFrame, checks: Checks | None = None) -> pd.DataFrame:
    """The ledger's rows of one figure, short; published and ours are effects. Arguments are as entries of `check`'s."""
    rows = check(
        {claim.source: scores for claim in load() if claim.figure == figure},
        checks=checks,
        label=figure,
    )
    rows = rows[(rows["label"] == figure) & (rows["published_verdict"] != verdicts.NUMBER)]
    decided = rows["decided_by"].fillna(rows["published_decided_by"])
    short = rows.assign(decided_by=decided, published=rows["published_effect"], ours=rows["effect"])
    return short[["finding", "decided_by", "published", "ours", "low", "high", "verdict"]]


def of_chapter_4(figure: str, records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """`of_figure` for a boxplot of Chapter 4, from its records, with the checks that they allow."""
    wanted = {*chapter4.models(figure, profile).values(), *chapter4.references(figure)}
    scores = records[records["model"].isin(wanted)]
    return of_figure(
        figure, scores, testability.results(testability.table({figure: scores}, profile, load()))
    )


def our_results(profile: Profile) -> dict[str, pd.DataFrame]:
    """Our scores for `check`, of every figure whose runs are all in the store; `NotComputed` if there is none."""
    scores = {}
    evaluated = store().has(keys.tasks(profile))  # if not, there is no reason to read the tasks
    for figure in dict.fromkeys(claim.source for claim in load() if evaluated):
        if figure in RETRIEVAL and RETRIEVAL[0] in scores:
            scores[figure] = scores[RETRIEVAL[0]]  # drawn from the same records
        elif retrieval_names(profile) if figure in RETRIEVAL else classification_names(profile):
            with (
                contextlib.suppress(executors.NotComputed),
                executors.nothing_computed(),
                keys.data_at_rest(),
            ):
                scores[figure] = _records(figure, profile)
    if not scores:
        told = f"no figure of the profile {profile.name} has all of its runs in {store().folder}"
        raise executors.NotComputed(
            f"{told}; first run ./run_all.sh {profile.name}, or some of the notebooks 02 to 07"
        )
    return scores


@functools.cache
def rerun_noise(
    tasks: tuple[str, ...] = (), *, without: str = "", reruns: tuple = RERUNS
) -> SeedNoise:
    """How far a published run may be off: from the two pairs of runs of (almost) one configuration.

        sd^2 = mean over pairs of d^2 / 2,  d: the difference of their mean normalised accuracies, .0067 and .0047

    With two degrees of freedom a difference counts from .0249. For one task: from the twelve of single tasks.
    without: a figure whose pair is left out, for claims about that pair itself. reruns: or those of `TWINS`.
    """
    pairs, values = (
        [rerun for rerun in reruns if rerun[0] != without],
        "value" if reruns is TWINS else "normalized",
    )
    tables = [
        theirs.load(figure).pivot(index="model", columns="task", values=values)
        for figure, *_ in pairs
    ]
    gaps = pd.DataFrame(
        [table.loc[a] - table.loc[b] for table, (_, a, b) in zip(tables, pairs, strict=True)]
    )
    gaps = gaps.stack() if len(tasks) == 1 else gaps.mean(axis=1)
    return SeedNoise(float(np.sqrt((gaps**2).mean() / 2)), len(gaps))


def neighbours(figure: str) -> pd.DataFrame:
    """A published ranking, neighbour by neighbour, best first; in Figure 5.3 neighbours are those of one round.

    gap: of mean normalised accuracy. within_noise: two published runs may differ by as much."""
    means = theirs.load(figure).groupby("model", sort=False)["normalized"].mean()
    rounds = (
        means.index.str.rpartition(";").get_level_values(2)
        if figure == "fig5_3"
        else [""] * len(means)
    )
    table = pd.concat(
        [effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)],
        ignore_index=True,
    )
    table["within_noise"] = table["gap"] <= rerun_noise().least_difference
    table["arithmetic"] = [*map(verdicts.arithmetic, means[table["better"]], means[table["worse"]])]
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


@functools.cache
def _judged_published(claim: Claim) -> Judgement | None:
    if isinstance(claim, Alike):
        return None
    noise = rerun_noise(reruns=TWINS) if claim.metric == "F1" else None
    if claim.metric == "accuracy":
        compared = set().union(*claim.sides(_models(claim)))
        tested = [
            figure for figure, *pair in RERUNS if figure == claim.source and compared == {*pair}
        ]
        noise = rerun_noise(claim.tasks, without="".join(tested))
    scores = _published_scores(claim.source, claim.metric)
    if isinstance(claim, EasierTask) or claim.metric == "F1":  # of raw scores
        runs = scores.pivot(index=["model", "seed"], columns="task", values="value").dropna(
            subset=claim.tasks or None
        )
    else:
        runs = effects.normalized_runs(scores)
    return claim.judged(
        intervals.from_runs(runs, weights=claim.weights(list(runs)), noise=noise), _models(claim)
    )


def _ours(claim: Claim, scores: pd.DataFrame | Evidence) -> tuple[Judgement | None, str]:
    """Our verdict, and what is missing for one."""
    models = _models(claim)
    compared = set().union(*claim.sides(models))
    if isinstance(scores, Evidence):
        missing = sorted(compared - {*scores.means.index})
    else:
        scores = _as_printed(claim, scores)
        weights = claim.weights(list(scores["task"].unique()))
        missing = sorted(compared - set(scores["model"])) + sorted(
            {*claim.tasks, *weights} - set(scores["task"])
        )
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return None, f"No records of {missing[0]}{more}."
    if not isinstance(scores, Evidence):
        given = [name for name in scores["model"].unique() if name.partition(";")[0] in GIVEN]
        scores = intervals.from_examples(
            intervals.task_scores(scores), weights=weights, given=given
        )
    return claim.judged(scores, models), ""


def _models(claim: Claim) -> list[str]:
    return _published_scores(claim.source, claim.metric)["model"].unique().tolist()


@functools.cache
def _published_scores(figure: str, metric: str) -> pd.DataFrame:
    scores = theirs.load(figure)
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric].rename(columns={"score": "value"})
    elif figure in RANKINGS:
        scores = scores.rename(columns={"accuracy": "value"})
    elif figure != theirs.NEWS:
        allowed = ", ".join((*RANKINGS, *RETRIEVAL, theirs.NEWS))
        raise ValueError(f"{figure} has no scores per model and task; expected one of {allowed}")
    return scores.assign(seed=0)[["model", "task", "seed", "value"]]


def _as_printed(claim: Claim, scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of the claim's metric; models that its figure prints have the names printed there."""
    scores = scores[scores["metric"] == claim.metric]
    if claim.source == "fig5_3":
        return scores.assign(model=scores["model"] + ";" + scores["round"])
    identities = {} if claim.source in RETRIEVAL else figure_models.printed(claim.source)
    return scores.assign(
        model=scores["model"].replace({identity: name for name, identity in identities.items()})
    )


def _records(figure: str, profile: Profile) -> pd.DataFrame:
    if figure.startswith("fig4_"):
        return chapter4.records(figure, profile=profile)
    if figure in RETRIEVAL:
        return final_students.retrieval(profile, top=None)
    return pd.concat([final_students.classification(profile), final_students.cut(profile)])
