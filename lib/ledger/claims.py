"""The ledger: the thesis' findings, judged on the published numbers and on ours by each readout.

The kind of a finding in `params/claims.yaml` turns it into differences of chance-corrected scores,
or of F1 in the news chapter, for `lib.statistics.verdicts`. By the readout "thesis", its protocol,
a finding may *repeat*; by the two that need little training, heads that compare and no head, it may
*survive*. Our noise comes from seeds, test texts (events, for news) and processors, that of
published scores from near re-runs and the number of test examples.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.chapters.published_noise import RERUNS, measure_published_noise
from lib.distillation.variants import STUDENT_CLASSES, parse
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench
from lib.figures.scores import GIVEN
from lib.ledger import checks
from lib.ledger.kinds import Alike, Claim, Number, load_claims
from lib.statistics import effects, intervals, verdicts
from lib.statistics.effects import Comparison
from lib.statistics.intervals import PROCESSOR_SD, Evidence, SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store import NotComputed

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # whose tables have a row for each metric
BASE = "Longformer"  # untrained, so it is the same with every seed
# Figure -> its scores, or for the news paper the evidence that notebook 08 makes of them.
Scores = Mapping[str, pd.DataFrame | Evidence]
Failures = Mapping[tuple[str, str], str]  # as of `checks.describe_failures`
# Readout of our scores -> the prefix of its columns in table "claims".
PREFIXES = {"thesis": "", "compare": "compare_", "none": "none_"}
# (side, readout) -> prefix: the judgements of a finding.
SIDES = {("published", "thesis"): "published_"}
SIDES |= {("ours", readout): prefix for readout, prefix in PREFIXES.items()}
_JUDGED = ("effect", "low", "high", "p", "p_equivalent", "q", "verdict", "holding")
_JUDGED += ("decided_by", "arithmetic")
COLUMNS = [
    *("id", "section", "label", "finding", "quote", "read_off"),
    *(f"published_{name}" for name in (*_JUDGED, "reason")),
    *(
        f"{each}{name}"
        for each in PREFIXES.values()
        for name in (*_JUDGED, "seed_share", "vacuous")
    ),
    *("survives", "survives_p", "survives_q"),
    *("one_task_low", "one_task_high", "seeds", "checks", "rules", "profile", "note"),
]

# ---- verdicts -----------------------------------------------------------------------------------


def judge_claims(
    scores: Scores,
    *,
    failures: Failures | None = None,
    numbers: Mapping[str, float] | None = None,
    label: str = "",
    profile: str = "",
) -> pd.DataFrame:
    """Table "claims", a row for each finding of the figures that begin with `label`.

    `scores` are records as of `Bench.run`, by one or more readouts, with models named by identity
    or as printed; models that the figure does not print only help to measure the seed noise.
    Rankings and F1 have no readouts: their columns are the same by each. With `failures`, a claim
    is "not testable here" if a check that it needs has failed, for all findings, its figure or
    itself. `numbers` are ours, for claims of the kind `number`.

    Columns of the published numbers begin with "published_", ours with one of `PREFIXES`; they are
    those of `Judgement`, vacuous (whether the untrained base passes in the student's place), and q
    over all findings of the thesis or of the news paper. survives is the verdict that the two
    readouts with little training share; survives_p is the larger p of the two, 1 if their effects
    have different signs. Without scores of a model, the verdict is "not run".
    """

    @functools.cache
    def collect(source: str, metric: str, weights: tuple, readout: str) -> Evidence:
        return _collect_evidence(scores[source], source, metric, dict(weights), readout)

    rows, kept = [], {"id", "section", "finding", "quote", "read_off", "note"}
    for claim in load_claims():
        row = claim.model_dump(include=kept) | {"label": claim.figure, "reason": ""}
        row["checks"] = ", ".join(claim.needed)
        for (side, readout), prefix in SIDES.items():
            if isinstance(claim, Number):
                ours = (numbers or {}).get(claim.number)
                value = claim.published if side == "published" else ours
                judged = {"effect": value, "verdict": verdicts.NUMBER}
                judged = _refuse_unmade(claim) if value is None else judged
            elif side == "ours":
                judged = _judge_ours(claim, scores, collect, readout, failures or {})
            else:
                judgement = _judge_published(claim)
                judged = asdict(judgement) if judgement else _refuse()
            row |= {prefix + name: value for name, value in judged.items()}
        rows.append(row)
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS, "reason"])
    table = table[table["label"].str.startswith(label)].reset_index(drop=True)
    apart = table["compare_effect"] * table["none_effect"] <= 0
    larger = table[["compare_p", "none_p"]].max(axis=1, skipna=False).mask(apart, 1.0)
    note = (table["note"] + " " + table["reason"]).str.strip()
    table = table.assign(survives=share_verdicts(table), survives_p=larger, note=note)
    for prefix in (*SIDES.values(), "survives_"):
        word = table["survives" if prefix == "survives_" else f"{prefix}verdict"]
        tested = ~word.isin((verdicts.NOT_TESTABLE, verdicts.NOT_RUN))
        p = table[f"{prefix}p"].astype(float).where(tested)
        table[f"{prefix}q"] = p.groupby(table["label"].str.startswith("news")).transform(
            verdicts.q_values
        )
    return table.assign(profile=profile, rules=verdicts.RULES)[COLUMNS]


def share_verdicts(table: pd.DataFrame) -> pd.Series:
    """The verdict that both readouts with little training share, in a table like "claims"."""
    word, other = table["compare_verdict"], table["none_verdict"]
    not_run = word.eq(verdicts.NOT_RUN) | other.eq(verdicts.NOT_RUN)
    return word.where(word == other, verdicts.DISAGREE).mask(not_run, verdicts.NOT_RUN)


def judge_figure(
    figure: str, scores: pd.DataFrame, failures: Failures | None = None
) -> pd.DataFrame:
    """Judge the findings about one figure, in fewer columns than `judge_claims`.

    published, ours, compare and none are the effects, and low and high our interval.
    """
    sources = {claim.source: scores for claim in load_claims() if claim.figure == figure}
    rows = judge_claims(sources, failures=failures, label=figure)
    rows = rows[(rows["label"] == figure) & (rows["published_verdict"] != verdicts.NUMBER)]
    rows = rows.fillna({"decided_by": rows["published_decided_by"]})
    names = {"published_effect": "published", "effect": "ours"}
    names |= {"compare_effect": "compare", "none_effect": "none"}
    shown = ["finding", "decided_by", "published", "ours", "low", "high", "holding", "verdict"]
    shown += ["compare", "compare_verdict", "none", "none_verdict", "survives"]
    return rows.rename(columns=names)[shown]


def judge_chapter4(figure: str, bench: Bench) -> pd.DataFrame:
    """`judge_figure` for a boxplot of Chapter 4, with the checks; this may train what they need."""
    scores = chapter4.run_readouts(figure, bench)
    return judge_figure(figure, scores, checks.find_failures({figure: scores}, bench))


def _refuse(reason: str = "") -> dict[str, Any]:
    return {"verdict": verdicts.NOT_RUN, "reason": reason, "vacuous": ""}


def _refuse_unmade(claim: Claim) -> dict[str, Any]:
    return _refuse(f"No records: make {claim.source} first.")


def _judge_ours(
    claim: Claim,
    scores: Scores,
    collect: Callable[..., Evidence],
    readout: str,
    failures: Failures,
) -> dict[str, Any]:
    """The columns of our verdict by a readout, or what is missing for it."""
    models, given = _list_models(claim), scores.get(claim.source)
    if given is None:
        return _refuse_unmade(claim)
    wanted, weights = claim.named(models), {}
    if isinstance(given, Evidence):
        present = {*given.means.index}
    else:
        shown = _select_scores(given, claim.source, claim.metric, readout)
        weights = claim.weights([*shown["task"].unique()])
        present = {*shown["model"], *shown["task"]}
        wanted |= {*claim.tasks, *weights}
    if missing := sorted(wanted - present):
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return _refuse(f"No records of {missing[0]}{more}.")
    asked = claim.source, claim.metric, tuple(weights.items()), readout
    evidence = given if isinstance(given, Evidence) else collect(*asked)
    judgement = claim.judge_scores(evidence, models)
    vacuous = judgement.verdict == verdicts.HOLDS and _is_vacuous(claim, evidence, models)
    if published := _judge_published(claim):
        judgement = verdicts.compare_with_published(judgement, published.effect)
    subjects = ("", claim.source, claim.id)  # a check may be about all findings
    failed = {check: why for (check, about), why in failures.items() if about in subjects}
    if reasons := [failed[check] for check in claim.needed if check in failed]:
        reason = "; ".join(reasons)
        judgement = replace(judgement, verdict=verdicts.NOT_TESTABLE, reason=reason)
    return asdict(judgement) | {"vacuous": "yes" if vacuous else ""}


def _is_vacuous(claim: Claim, evidence: Evidence, models: Sequence[str]) -> bool:
    """Whether the untrained base passes in the place of a claim's students.

    That says something if the claim compares students with models that were not distilled. If the
    base is one of these, it cannot beat itself.
    """
    class_of, places = dict(zip(evidence.means.index, evidence.classes, strict=True)), {}
    for sides in claim.opponents(models):
        taught = [{class_of[name] in STUDENT_CLASSES for name in side} for side in sides]
        if taught not in ([{True}, {False}], [{False}, {True}]):
            return False
        students = sides[taught.index({True})]
        places |= {name: BASE + _split_round(claim.source, name)[1] for name in students}
    if not places or not {*places.values()} <= {*class_of}:
        return False
    untrained = claim.judge_scores(evidence.replaced(places), models)
    return untrained.verdict == verdicts.HOLDS


@functools.cache
def _judge_published(claim: Claim) -> Judgement | None:
    """The verdict on the published numbers; None for a claim that is about our runs alone."""
    if isinstance(claim, Alike):
        return None
    source, models = claim.source, _list_models(claim)
    scores = _load_published_scores(source, claim.metric)
    score = scores["value"] if claim.metric == "F1" else effects.chance_corrected
    runs = scores.assign(score=score, seed=0)
    runs = runs.pivot(index=["model", "seed"], columns="task", values="score")
    weights, noise = claim.weights(list(runs)), None
    if claim.metric == "F1":
        runs, noise = runs.dropna(subset=claim.tasks or None), measure_twin_noise()
        scored = {*runs.index.get_level_values("model")}  # two students have no private F1
        models = [name for name in models if name in scored]
    elif claim.metric == "accuracy":
        compared = claim.named(models)
        # A pair of near re-runs is no yardstick for itself.
        about = any(figure == source and compared == {*pair} for figure, *pair in RERUNS)
        noise = measure_published_noise(source, weights, without=source if about else "")
    evidence = intervals.from_runs(
        runs, weights=weights, noise=noise, student_of=lambda name: _split_round(source, name)[0]
    )
    return claim.judge_scores(evidence, models)


# ---- comparisons of single models ---------------------------------------------------------------


def compare_pairs(
    pairs: Sequence[tuple[str, str] | Comparison],
    scores: pd.DataFrame,
    figure: str,
    tasks: Sequence[str] | None = None,
    metric: str = "accuracy",
) -> pd.DataFrame:
    """`verdicts.compare` by every readout, a column, with the noise that findings are judged with.

    Models are named as in the figure, or by identity. In Figure 5.3 the round is part of a name.
    Only `tasks` count, by default all.
    """
    rows = scores if tasks is None else scores[scores["task"].isin(tasks)]
    weights = dict.fromkeys(rows["task"].unique(), 1 / rows["task"].nunique())
    tables = {}
    for readout in rows["readout"].unique():
        evidence = _collect_evidence(rows, figure, metric, weights, readout)
        tables[readout] = verdicts.compare(pairs, evidence)
    return pd.concat(tables, names=["readout", None]).reset_index("readout")


def compare_neighbours(figure: str) -> pd.DataFrame:
    """Compare each model of a published ranking with the next, best first; in Figure 5.3 by round.

    Columns: model, ahead_of, gap (of mean chance-corrected accuracy), within_noise (whether two
    published runs of one model may differ by as much), arithmetic.
    """
    scores = _load_published_scores(figure, "accuracy").assign(score=effects.chance_corrected)
    means = scores.groupby("model", sort=False)["score"].mean()
    rounds = [_split_round(figure, name)[1] for name in means.index]
    ranked = [effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)]
    table = pd.concat(ranked, ignore_index=True)
    table["within_noise"] = table["gap"] <= measure_published_noise(figure).least_difference
    table["arithmetic"] = [*map(verdicts.arithmetic, means[table["better"]], means[table["worse"]])]
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


# ---- scores -------------------------------------------------------------------------------------


def collect_scores(bench: Bench) -> dict[str, pd.DataFrame]:
    """Our scores of every figure for `judge_claims`, by each readout whose runs are in the store.

    Raises `NotComputed` if no figure is complete.
    """
    reading, scores = bench.reading(), {}
    runs = {label: functools.partial(chapter4.run_figures, label) for label in theirs.CHAPTER_4}
    for figure, run in (runs | {"fig5_3": final_students.run_classifications}).items():
        frames = []
        for readout in READOUTS if bench.classifications else ():
            with contextlib.suppress(NotComputed):
                frames.append(run(reading.with_readout(readout)))
        if frames:
            scores[figure] = pd.concat(frames, ignore_index=True)
    with contextlib.suppress(NotComputed):
        if bench.retrievals:
            scores |= dict.fromkeys(RETRIEVAL, final_students.run_retrievals(reading, top=None))
    if not scores:
        name = bench.profile.name
        raise NotComputed(f"no figure of {name} has all of its runs; first run ./run_all.sh {name}")
    return scores


def _collect_evidence(
    scores: pd.DataFrame, source: str, metric: str, weights: Mapping[str, float], readout: str
) -> Evidence:
    """Evidence on a figure's models by one readout; models of one class share their seed noise."""
    shown = _select_scores(scores, source, metric, readout)
    in_chapter4 = source in theirs.CHAPTER_4
    identities = theirs.printed(source) if in_chapter4 else final_students.load_models()

    def split(model: str) -> str:
        return _split_round(source, model)[0]

    return intervals.from_examples(
        intervals.task_scores(shown),
        weights=weights,
        given=[name for name in shown["model"].unique() if split(name) in GIVEN],
        class_of=lambda name: parse(identities.get(split(name), split(name))).seed_class,
        student_of=split,
        processor_sd=PROCESSOR_SD if (metric, readout) == ("accuracy", "thesis") else 0.0,
    )


def _select_scores(scores: pd.DataFrame, source: str, metric: str, readout: str) -> pd.DataFrame:
    """The scores of one metric and readout, with the model names that the figure prints."""
    scores = scores[scores["metric"] == metric]
    if source in RETRIEVAL:
        return scores
    scores = scores[scores["readout"] == readout]
    if source == "fig5_3":
        return scores.assign(model=scores["model"] + ";" + scores["round"])
    names = {identity: name for name, identity in theirs.printed(source).items()}
    return scores.assign(model=scores["model"].replace(names))


def _list_models(claim: Claim) -> list[str]:
    return _load_published_scores(claim.source, claim.metric)["model"].unique().tolist()


@functools.cache
def _load_published_scores(figure: str, metric: str) -> pd.DataFrame:
    """Columns model, task, value and, where scores have one, chance."""
    scores = theirs.load(figure).rename(columns={"accuracy": "value", "score": "value"})
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric]
        chance = theirs.load_chances("test", metric)
        scores = scores.assign(chance=scores["task"].map(chance))
    return scores


@functools.cache
def measure_twin_noise() -> SeedNoise:
    """How noisy the F1 of a published student of the news paper is, a mean of both sides' F1.

        sd^2 = mean over pairs of gap^2 / 2

    A pair is a student of the cosine loss that was trained with two schedules.
    """
    table = theirs.load(theirs.NEWS).pivot(index="model", columns="task", values="value")
    twins = table[table.index.str.endswith(";cosine;plateau")]
    gaps = (table.loc[twins.index.str.removesuffix(";plateau")].to_numpy() - twins).mean(axis=1)
    return SeedNoise(float(np.sqrt(np.square(gaps).mean() / 2)), len(gaps))


def _split_round(source: str, model: str) -> tuple[str, str]:
    """Split a name of Figure 5.3, such as "only-MSE;cut;all", into the model and the rest."""
    name, separator, rest = model.partition(";") if source == "fig5_3" else (model, "", "")
    return name, separator + rest
