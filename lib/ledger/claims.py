"""The ledger: the thesis' findings, judged on the published numbers and on ours by each readout.

The kind of a finding in `params/claims.yaml` turns it into differences of chance-corrected scores,
or of F1 in the news chapter, for `lib.statistics.verdicts`. By the readout "thesis", its protocol,
a finding may *repeat*; by the two that need little training, heads that compare and no head, it may
*survive*. Our noise comes from seeds, test texts (events, for news) and processors, that of
published scores from near re-runs and the number of test examples.
"""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.chapters.published_noise import RERUNS, measure_published_noise
from lib.distillation.variants import STUDENT_CLASSES, parse
from lib.experiments.bench import Bench
from lib.figures.scores import GIVEN
from lib.ledger import checks
from lib.ledger.kinds import Alike, Claim, Number, load_claims
from lib.statistics import effects, intervals, verdicts
from lib.statistics.effects import Comparison
from lib.statistics.intervals import PROCESSOR_SD, Evidence, SeedNoise
from lib.statistics.verdicts import HOLDS, MARGIN, NOT_RUN, NOT_TESTABLE, NUMBER
from lib.store import NotComputed

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # whose tables have a row for each metric
BASE = "Longformer"  # untrained, so it is the same with every seed
# Figure -> its scores, or for the news paper the evidence that notebook 08 makes of them.
Scores = Mapping[str, pd.DataFrame | Evidence]
Failures = Mapping[tuple[str, str], str]  # as of `checks.describe_failures`
# Readout of our scores -> the prefix of its columns in table "claims".
PREFIXES = {"thesis": "", "compare": "compare_", "none": "none_"}
_JUDGED = "effect low high p p_equivalent q verdict holding decided_by arithmetic".split()
_OURS = [*_JUDGED, "seed_share", "vacuous"]
COLUMNS = [
    *"id section label finding quote read_off".split(),
    *(f"published_{name}" for name in [*_JUDGED, "reason"]),
    *(prefix + name for prefix in PREFIXES.values() for name in _OURS),
    *"survives survives_p survives_q one_task_low one_task_high".split(),
    *"seeds checks rules profile note".split(),
]
SHOWN = "finding decided_by published_effect effect low high holding verdict".split()
SHOWN += "compare_effect compare_verdict none_effect none_verdict survives".split()


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

    Columns of the published numbers begin with "published_", ours with one of `PREFIXES`: those of
    `Judgement`, vacuous (whether the untrained base passes in the student's place), and q over all
    findings of the thesis or of the news paper. survives is the verdict that the two readouts with
    little training share, survives_p the larger p of the two, 1 if their effects have different
    signs. Without scores of a model, the verdict is "not run".
    """
    collect = functools.cache(functools.partial(_collect_evidence, scores))
    rows, kept = [], {"id", "section", "finding", "quote", "read_off", "note"}
    for claim in load_claims():
        row = claim.model_dump(include=kept) | {"label": claim.figure}
        row["checks"] = ", ".join(claim.needed)
        sides = {"published_": _judge_published(claim)}
        for readout, prefix in PREFIXES.items():
            if not isinstance(claim, Number):
                sides[prefix] = _judge_ours(claim, scores, collect, readout, failures or {})
            elif numbers and claim.number in numbers:
                sides[prefix] = {"effect": numbers[claim.number], "verdict": NUMBER}
            else:
                sides[prefix] = _refuse(f": make {claim.source} first")
        for prefix, judged in sides.items():
            row |= {prefix + name: value for name, value in judged.items()}
        rows.append(row)
    table = pd.DataFrame(rows).reindex(columns=[*COLUMNS, "reason"])
    table = table[table["label"].str.startswith(label)].reset_index(drop=True)
    apart = table["compare_effect"] * table["none_effect"] <= 0
    larger = table[["compare_p", "none_p"]].max(axis=1, skipna=False).mask(apart, 1.0)
    note = (table["note"] + " " + table["reason"].fillna("")).str.strip()
    table = table.assign(survives=share_verdicts(table), survives_p=larger, note=note)
    news = table["label"].str.startswith("news")
    for prefix in ("published_", *PREFIXES.values(), "survives_"):
        word = table["survives" if prefix == "survives_" else f"{prefix}verdict"]
        p = table[f"{prefix}p"].astype(float).where(~word.isin([NOT_TESTABLE, NOT_RUN]))
        table[f"{prefix}q"] = p.groupby(news).transform(verdicts.q_values)
    return table.assign(profile=profile, rules=verdicts.RULES)[COLUMNS]


def share_verdicts(table: pd.DataFrame) -> pd.Series:
    """The verdict that both readouts with little training share, in a table like "claims"."""
    word, other = table["compare_verdict"], table["none_verdict"]
    not_run = word.eq(NOT_RUN) | other.eq(NOT_RUN)
    return word.where(word == other, verdicts.DISAGREE).mask(not_run, NOT_RUN)


def judge_again(ledger: pd.DataFrame, *, margin: float = MARGIN, runs: float = 1) -> pd.DataFrame:
    """Judge a ledger of `judge_claims` with another margin, or `runs` times the runs.

        interval = effect +- half-width sqrt(1 - seed_share + seed_share / runs)

    Effects and intervals of differences of spreads stay the same, and the deciding comparison
    stands for the whole finding. The 90% intervals of ties assume normal errors. Columns: verdict,
    compare_verdict, none_verdict and survives.
    """
    alike = {claim.id for claim in load_claims() if isinstance(claim, Alike)}
    shift = np.where(ledger["id"].isin(alike), margin - MARGIN, 0.0)  # their effects contain it
    one_sided = stats.norm.ppf(1 - verdicts.ALPHA) / stats.norm.ppf(1 - verdicts.ALPHA / 2)
    published, again = ledger["published_effect"].astype(float), pd.DataFrame(index=ledger.index)
    for prefix in PREFIXES.values():
        names = [prefix + name for name in ("effect", "low", "high", "seed_share", "p_equivalent")]
        effect, low, high, share, p_equivalent = ledger[names].astype(float).to_numpy().T
        narrower = np.sqrt(1 - np.nan_to_num(share) * (1 - 1 / runs))
        below, above = (effect - low) * narrower, (high - effect) * narrower
        effect = effect + shift
        low, high, with_tie = effect - below, effect + above, ~np.isnan(p_equivalent)
        inside = (effect - one_sided * below > -margin) & (effect + one_sided * above < margin)
        smaller = (low <= 0) & (high >= 0) & (high < published)
        word = ledger[f"{prefix}verdict"]
        unmoved = word.isin([NOT_RUN, NOT_TESTABLE, NUMBER])
        cases = [unmoved, low > 0, high < 0, inside & with_tie, smaller & with_tie]
        words = [word, HOLDS, verdicts.REVERSED, verdicts.EQUIVALENT, verdicts.SMALLER]
        again[f"{prefix}verdict"] = np.select(cases, words, verdicts.OPEN)
    return again.assign(survives=share_verdicts(again))


def judge_figure(
    figure: str, scores: pd.DataFrame, failures: Failures | None = None
) -> pd.DataFrame:
    """Judge the findings about one figure; some columns of `judge_claims`."""
    sources = {claim.source: scores for claim in load_claims() if claim.figure == figure}
    rows = judge_claims(sources, failures=failures, label=figure)
    return rows.loc[(rows["label"] == figure) & (rows["verdict"] != NUMBER), SHOWN]


def judge_chapter4(figure: str, bench: Bench) -> pd.DataFrame:
    """`judge_figure` for a boxplot of Chapter 4, with the checks; this may train what they need."""
    scores = chapter4.run_readouts(figure, bench)
    failures = checks.describe_failures(checks.run_checks({figure: scores}, bench))
    return judge_figure(figure, scores, failures)


def _refuse(missing: str = "") -> dict[str, Any]:
    return {"verdict": NOT_RUN, "reason": f"No records{missing}." * bool(missing), "vacuous": ""}


def _judge_ours(
    claim: Claim, scores: Scores, collect: Any, readout: str, failures: Failures
) -> dict[str, Any]:
    """The columns of our verdict by a readout, or what is missing for it."""
    given, models = scores.get(claim.source), _list_models(claim)
    if given is None:
        return _refuse(f": make {claim.source} first")
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
        return _refuse(f" of {missing[0]}{more}")
    evidence = collect(claim.source, claim.metric, readout, tuple(weights.items()))
    judgement = claim.judge_scores(evidence, models)
    vacuous = judgement.verdict == HOLDS and _is_vacuous(claim, evidence, models)
    size = _judge_published(claim).get("effect", np.nan)
    judgement = verdicts.compare_with_published(judgement, size)
    subjects = ("", claim.source, claim.id)  # a check may be about all findings
    failed = {check: why for (check, about), why in failures.items() if about in subjects}
    if reasons := [failed[check] for check in claim.needed if check in failed]:
        judgement = replace(judgement, verdict=NOT_TESTABLE, reason="; ".join(reasons))
    return asdict(judgement) | {"vacuous": "yes" if vacuous else ""}


def _is_vacuous(claim: Claim, evidence: Evidence, models: Sequence[str]) -> bool:
    """Whether the untrained base passes in the place of a claim's students.

    That says something if the claim compares students with models that were not distilled. If the
    base is one of these, it cannot beat itself.
    """
    class_of, places = dict(zip(evidence.means.index, evidence.classes, strict=True)), {}
    for each in [comparison for unit in claim.units(models) for comparison in unit]:
        sides = [each.plus, each.minus]
        taught = [{class_of[name] in STUDENT_CLASSES for name in side} for side in sides]
        if taught not in ([{True}, {False}], [{False}, {True}]):
            return False
        for name in sides[taught.index({True})]:
            places[name] = BASE + _split_round(claim.source, name)[1]
    if not places or not {*places.values()} <= {*class_of}:
        return False
    untrained = claim.judge_scores(evidence.replaced(places), models)
    return untrained.verdict == HOLDS


@functools.cache
def _judge_published(claim: Claim) -> Mapping[str, Any]:
    """The columns of the verdict on the published numbers; `Alike` is about our runs alone."""
    if isinstance(claim, Alike):
        return _refuse()
    if isinstance(claim, Number):
        return {"effect": claim.published, "verdict": NUMBER}
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
    return asdict(claim.judge_scores(evidence, models))


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
    tasks = scores["task"].unique() if tasks is None else tasks
    weights, tables = tuple((task, 1 / len(tasks)) for task in tasks), {}
    for readout in scores["readout"].unique():
        evidence = _collect_evidence({figure: scores}, figure, metric, readout, weights)
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
    """Our scores, for `judge_claims`, of every figure whose runs are in the store by all readouts.

    Raises `NotComputed` if no figure is complete.
    """
    runs, scores = dict[str, Any](), {}
    if bench.classifications:
        for figure in theirs.CHAPTER_4:
            runs[figure] = functools.partial(chapter4.run_readouts, figure)
        runs["fig5_3"] = final_students.run_readouts
    if any(task.kind == "retrieval" for task in bench.tasks.values()):
        runs |= dict.fromkeys(RETRIEVAL, functools.partial(final_students.run_retrievals, top=None))
    for figure, run in runs.items():
        with contextlib.suppress(NotComputed):
            scores[figure] = run(bench.reading())
    if not scores:
        name = bench.profile.name
        raise NotComputed(f"no figure of {name} has all of its runs; first run ./run_all.sh {name}")
    return scores


def _collect_evidence(
    scores: Scores, source: str, metric: str, readout: str, weights: tuple[tuple[str, float], ...]
) -> Evidence:
    """Evidence on a figure's models by one readout; models of one class share their seed noise."""
    given = scores[source]
    if isinstance(given, Evidence):
        return given
    shown = _select_scores(given, source, metric, readout)
    printed = source in theirs.CHAPTER_4
    identities = theirs.printed(source) if printed else final_students.load_models()

    def split(model: str) -> str:
        return _split_round(source, model)[0]

    return intervals.from_examples(
        intervals.task_scores(shown),
        weights=dict(weights),
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
