"""The ledger: the thesis' findings, judged on the published numbers and on ours.

The kind of a finding in `params/claims.yaml` turns it into differences of scores for
`lib.statistics.verdicts`. Our scores are the chance-corrected scores of single examples, whose
noise is that of seeds, texts and processors (F1 of the news chapter: of seeds and events). Of
published numbers, only the seed's noise is known.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.ledger import testability
from lib.ledger.claim_kinds import KINDS, Alike, Claim, EasierTask, Number, match_models
from lib.published import figure_models
from lib.statistics import effects, intervals, verdicts
from lib.statistics.intervals import Evidence, SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store.cache import NotComputed

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # rows per metric
# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves that sum. AdamW hardly notices.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
# In the news paper: students that were trained with two schedules.
TWINS = (
    (theirs.NEWS, "BiLSTM(2)+1 linear;cosine", "BiLSTM(2)+1 linear;cosine;plateau"),
    (theirs.NEWS, "BiGRU(2)+1 linear;cosine", "BiGRU(2)+1 linear;cosine;plateau"),
    (theirs.NEWS, "BiGRU+1 linear;cosine", "BiGRU+1 linear;cosine;plateau"),
)
# Not trained here: the same with every seed.
GIVEN = ("Longformer", "SBERT", "TF-IDF", "SBERT, mean of chunks")
# Figure -> its scores; for the news paper, the evidence that its chapter makes of them.
Scores = Mapping[str, pd.DataFrame | Evidence]
# (failed check, figure or finding, "" for all) -> what failed.
Failures = Mapping[tuple[str, str], str]
Numbers = Mapping[str, float]  # ours, by name
_NUMBERS = ("effect", "low", "high", "p", "p_equivalent", "q")
_JUDGED = (*_NUMBERS, "verdict", "decided_by", "arithmetic")
_COLUMNS = [
    *("id", "section", "label", "finding"),
    *(f"published_{name}" for name in (*_JUDGED, "reason")),
    *_JUDGED,
    *("one_task_low", "one_task_high", "seeds", "checks", "rules", "profile", "note"),
]


# ---- what the claims are ------------------------------------------------------------------------


@functools.cache
def load_claims() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order.

    Raises `ParameterError`, one line, which names the claim that is wrong.
    """
    return [parse_claim(*entry) for entry in profiles.entries("claims.yaml")]


def parse_claim(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """One claim, checked against the schema of its kind and the models of its figure.

    Raises as `load_claims`; messages begin with `where`.
    """
    kind = fields.get("kind")
    if kind not in KINDS:
        raise profiles.ParameterError(
            f"{where}: kind: unknown kind {kind!r}; known: {', '.join(KINDS)}"
        )
    claim = profiles.validated(KINDS[kind], {"id": name, **fields}, where)
    try:
        theirs.load(claim.figure)
        claim.sides(_list_models(claim))
        if claim.tasks:
            match_models(claim.tasks, theirs.load(claim.source)["task"].unique().tolist())
    except ValueError as error:
        raise profiles.ParameterError(f"{where}: {error} ({claim.source})") from None
    return claim


# ---- verdicts -----------------------------------------------------------------------------------


def judge_claims(
    scores: Scores,
    *,
    failures: Failures | None = None,
    numbers: Numbers | None = None,
    profile: str = "",
    label: str = "",
) -> pd.DataFrame:
    """The ledger: a row for each finding, on the published numbers and on our scores.

    Parameters
    ----------
    scores
        Figure -> tidy records with scores of single test examples, as of `Bench.run`. Models have
        their identity, or the name printed in the figure. Models that the figure does not print
        add to the seed noise.
    failures
        `testability.describe_failures`. A claim is "not testable here" if a check failed that it
        needs, whether of all, of its figure or of itself.
    numbers
        For claims of the kind `number`.
    label
        Only findings whose figures begin with this, such as "news".

    Returns
    -------
    DataFrame
        id, section, label (the figure), finding; columns of `Judgement` on the published numbers
        ("published_...") and on ours; q, over the document's findings; rules, the version of the
        rules (`verdicts.RULES`). The verdict is "not run" where a model has no scores.
    """
    rows = [
        _judge_claim(claim, scores, failures or {}, numbers or {})
        for claim in load_claims()
        if claim.figure.startswith(label)
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS).assign(profile=profile, rules=verdicts.RULES)
    of_news = table["label"].str.startswith("news")
    for prefix in ("published_", ""):
        names = [prefix + name for name in _NUMBERS]
        table[names] = table[names].astype(float)
        tested = table[f"{prefix}p"].where(table[f"{prefix}verdict"] != verdicts.NOT_TESTABLE)
        table[f"{prefix}q"] = tested.groupby(of_news).transform(verdicts.q_values)
    return table


def judge_figure(
    figure: str, scores: pd.DataFrame, failures: Failures | None = None
) -> pd.DataFrame:
    """The ledger's rows of one figure, short: the effects are published and ours.

    scores and failures are as in `judge_claims`.
    """
    sources = {claim.source: scores for claim in load_claims() if claim.figure == figure}
    rows = judge_claims(sources, failures=failures, label=figure)
    rows = rows[(rows["label"] == figure) & (rows["published_verdict"] != verdicts.NUMBER)]
    decided = rows["decided_by"].fillna(rows["published_decided_by"])
    short = rows.assign(decided_by=decided, published=rows["published_effect"], ours=rows["effect"])
    return short[["finding", "decided_by", "published", "ours", "low", "high", "verdict"]]


def judge_chapter4(figure: str, records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """`judge_figure` for a boxplot of Chapter 4, with the checks that its records allow."""
    wanted = {*chapter4.list_models(figure, bench).values(), *chapter4.list_references(figure)}
    scores = records[records["model"].isin(wanted)]
    checks = testability.run_checks({figure: scores}, bench, load_claims())
    return judge_figure(figure, scores, testability.describe_failures(checks))


def collect_scores(bench: Bench) -> dict[str, pd.DataFrame]:
    """Our scores of every figure whose runs are all in the cache, for `judge_claims`.

    Raises `NotComputed` if no figure is complete.
    """
    scores: dict[str, pd.DataFrame] = {}
    reading = bench.reading()
    for figure in dict.fromkeys(claim.source for claim in load_claims()):
        tasks = bench.retrievals if figure in RETRIEVAL else bench.classifications
        if figure in RETRIEVAL and RETRIEVAL[0] in scores:
            scores[figure] = scores[RETRIEVAL[0]]  # drawn from the same records
        elif tasks and figure in (*RANKINGS, *RETRIEVAL):
            with contextlib.suppress(NotComputed):
                scores[figure] = _read_records(figure, reading)
    if not scores:
        name = bench.profile.name
        raise NotComputed(
            f"no figure of the profile {name} has all of its runs; "
            f"first run ./run_all.sh {name}, or some of the notebooks 02 to 07"
        )
    return scores


def _judge_claim(
    claim: Claim, scores: Scores, failures: Failures, numbers: Numbers
) -> dict[str, Any]:
    """The ledger's row of one claim."""
    row: dict[str, Any] = claim.model_dump(include={"id", "section", "finding"})
    row["label"] = claim.figure
    missing = f"No records: make {claim.source} first."
    if isinstance(claim, Number):
        ours = numbers.get(claim.number)
        row["published_effect"], row["published_verdict"] = claim.published, verdicts.NUMBER
        row["effect"] = ours
        row["verdict"] = verdicts.NOT_RUN if ours is None else verdicts.NUMBER
        missing = missing if ours is None else ""
    else:
        judgement = None
        if claim.source in scores:
            judgement, missing = _judge_ours(claim, scores[claim.source])
        if judgement:
            about = ("", claim.figure, claim.id)
            failed = {check: why for (check, label), why in failures.items() if label in about}
            judgement = verdicts.checked(judgement, claim.needed, failed)
        row["checks"] = ", ".join(claim.needed)
        for prefix, verdict in (("published_", _judge_published(claim)), ("", judgement)):
            columns = asdict(verdict) if verdict else {"verdict": verdicts.NOT_RUN}
            row |= {prefix + name: value for name, value in columns.items()}
    row["note"] = " ".join(filter(None, (claim.note, missing, row.get("reason"))))
    return row


def _judge_ours(claim: Claim, scores: pd.DataFrame | Evidence) -> tuple[Judgement | None, str]:
    """Our verdict, and what is missing for one."""
    models = _list_models(claim)
    compared = set().union(*claim.sides(models))
    if isinstance(scores, Evidence):
        missing = sorted(compared - {*scores.means.index})
    else:
        scores = _rename_as_printed(claim, scores)
        tasks = list(scores["task"].unique())
        missing = sorted(compared - {*scores["model"]})
        missing += sorted({*claim.tasks, *claim.weights(tasks)} - {*tasks})
    if missing:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return None, f"No records of {missing[0]}{more}."
    if not isinstance(scores, Evidence):
        given = [name for name in scores["model"].unique() if name.partition(";")[0] in GIVEN]
        scores = intervals.from_examples(
            intervals.task_scores(scores), weights=claim.weights(tasks), given=given
        )
    return claim.judge_scores(scores, models), ""


@functools.cache
def _judge_published(claim: Claim) -> Judgement | None:
    """The verdict on the published numbers; None for a claim about our runs alone."""
    if isinstance(claim, Alike):
        return None
    noise = None
    if claim.metric == "F1":
        noise = measure_rerun_noise(reruns=TWINS)
    elif claim.metric == "accuracy":
        compared = set().union(*claim.sides(_list_models(claim)))
        about = [
            figure for figure, *pair in RERUNS if figure == claim.source and compared == {*pair}
        ]
        noise = measure_rerun_noise(claim.tasks, without="".join(about))
    scores = _load_published_scores(claim.source, claim.metric)
    if isinstance(claim, EasierTask) or claim.metric == "F1":  # of raw scores
        runs = scores.pivot(index=["model", "seed"], columns="task", values="value")
        runs = runs.dropna(subset=claim.tasks or None)
    else:
        runs = effects.normalized_runs(scores)
    evidence = intervals.from_runs(runs, weights=claim.weights(list(runs)), noise=noise)
    return claim.judge_scores(evidence, _list_models(claim))


# ---- published noise ----------------------------------------------------------------------------


@functools.cache
def measure_rerun_noise(
    tasks: tuple[str, ...] = (), *, without: str = "", reruns: Sequence[tuple] = RERUNS
) -> SeedNoise:
    """How far a published run may be off, from pairs of runs of (almost) one configuration.

        sd^2 = mean over pairs of d^2 / 2

    d is the difference of a pair's mean normalised accuracies: .0067 and .0047. With their two
    degrees of freedom, a difference counts from .0249.

    Parameters
    ----------
    tasks
        For a score of one task, the twelve differences of single tasks count.
    without
        A figure whose pair is left out, for claims about that pair itself.
    reruns
        (figure, model, model) of each pair; or those of `TWINS`.
    """
    gaps = []
    for figure, first, second in reruns:
        if figure != without:
            values = "value" if figure == theirs.NEWS else "normalized"
            table = theirs.load(figure).pivot(index="model", columns="task", values=values)
            gaps.append(table.loc[first] - table.loc[second])
    frame = pd.DataFrame(gaps)
    values = frame.stack() if len(tasks) == 1 else frame.mean(axis=1)
    return SeedNoise(float(np.sqrt((values**2).mean() / 2)), len(values))


def compare_neighbours(figure: str) -> pd.DataFrame:
    """A published ranking, each model with the next one, best first; Figure 5.3's by round.

    Columns: model, ahead_of, gap (of mean normalised accuracy), within_noise (two published runs
    may differ by as much), arithmetic.
    """
    means = theirs.load(figure).groupby("model", sort=False)["normalized"].mean()
    rounds = [""] * len(means)
    if figure == "fig5_3":
        rounds = means.index.str.rpartition(";").get_level_values(2)
    ranked = [effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)]
    table = pd.concat(ranked, ignore_index=True)
    table["within_noise"] = table["gap"] <= measure_rerun_noise().least_difference
    table["arithmetic"] = [*map(verdicts.arithmetic, means[table["better"]], means[table["worse"]])]
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


# ---- scores -------------------------------------------------------------------------------------


def _list_models(claim: Claim) -> list[str]:
    return _load_published_scores(claim.source, claim.metric)["model"].unique().tolist()


@functools.cache
def _load_published_scores(figure: str, metric: str) -> pd.DataFrame:
    """Columns model, task, seed, value; `ValueError` for a figure that has no such scores."""
    scores = theirs.load(figure)
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric].rename(columns={"score": "value"})
    elif figure in RANKINGS:
        scores = scores.rename(columns={"accuracy": "value"})
    elif figure != theirs.NEWS:
        allowed = ", ".join((*RANKINGS, *RETRIEVAL, theirs.NEWS))
        raise ValueError(f"{figure} has no scores per model and task; expected one of {allowed}")
    return scores.assign(seed=0)[["model", "task", "seed", "value"]]


def _rename_as_printed(claim: Claim, scores: pd.DataFrame) -> pd.DataFrame:
    """The scores of the claim's metric, with the model names of its figure where it prints them."""
    scores = scores[scores["metric"] == claim.metric]
    if claim.source == "fig5_3":
        return scores.assign(model=scores["model"] + ";" + scores["round"])
    if claim.source in RETRIEVAL:
        return scores
    names = {identity: name for name, identity in figure_models.printed(claim.source).items()}
    return scores.assign(model=scores["model"].replace(names))


def _read_records(figure: str, bench: Bench) -> pd.DataFrame:
    if figure in theirs.CHAPTER_4:
        return chapter4.run_figures(figure, bench)
    if figure in RETRIEVAL:
        return final_students.run_retrievals(bench, top=None)
    return pd.concat([final_students.run_classifications(bench), final_students.run_cut(bench)])
