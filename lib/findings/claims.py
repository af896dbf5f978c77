"""The thesis' findings as checks on published numbers and on ours: the ledger, and each chapter's part of it.

A finding stands in `params/claims.yaml`; its kind (`lib.findings.claim_kinds`) turns it into differences of scores, and
`lib.statistics.verdicts` judges them: chance-corrected accuracies of single test examples, with seeds and texts as
noise, or normalised accuracies, published or from a figure's CSV, with the seed's noise alone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.config import paths, profiles
from lib.config.profiles import Profile
from lib.distillation import variants
from lib.experiments import keys
from lib.findings import chapter4, final_students, testability
from lib.findings.claim_kinds import KINDS, Alike, Claim, EasierTask, Number, resolve
from lib.published import figure_models
from lib.statistics import effects, intervals, verdicts
from lib.statistics.intervals import Evidence, SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store.records import store
from lib.tasks import classification_names

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # rows per metric
# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves that sum, which AdamW hardly notices.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
# Encoders that nobody trained here: another seed gives the same one.
GIVEN = ("Longformer", "SBERT", "TF-IDF", "SBERT, mean of chunks")
Scores = Mapping[str, Any]  # figure -> its scores; of the news paper, which has F1 of pairs, `Evidence`
Checks = Mapping[tuple[str, str], str]  # (failed check, figure or "") -> what failed
Noises = Mapping[str, SeedNoise | None]  # figure -> its seed noise, None where it is not known
_NUMBERS = ("effect", "low", "high", "p", "q")
_COLUMNS = (
    *("id", "section", "label", "finding"),
    *(f"published_{name}" for name in (*_NUMBERS, "verdict", "decided_by", "reason")),
    *("arithmetic", *_NUMBERS, "verdict", "one_task_low", "one_task_high", "seeds", "decided_by", "our_arithmetic"),
    *("measure", "profile", "note"),
)


@functools.cache
def load() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the thesis' order; a `ParameterError` names the claim that is wrong."""
    return [parse(*entry) for entry in profiles.entries("claims.yaml")]


def parse(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """One claim, checked against the schema of its kind and the models of its figure; raises as `load`."""
    kind = fields.get("kind")
    if kind not in KINDS:
        raise profiles.ParameterError(f"{where}: kind: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    claim = profiles.validated(KINDS[kind], {"id": name, **fields}, where)
    try:
        theirs.load(claim.figure)
        claim.sides(_models(claim))
        if claim.tasks:
            resolve(claim.tasks, theirs.load(claim.checked_on)["task"].unique().tolist())
    except ValueError as error:
        raise profiles.ParameterError(f"{where}: {error} ({claim.checked_on})") from None
    return claim


def check(
    scores: Scores,
    noise: Noises | None = None,
    *,
    checks: Checks | None = None,
    numbers: Mapping[str, float] | None = None,
    profile: str = "",
) -> pd.DataFrame:
    """The claims ledger: every finding on the published numbers and on our scores.

    scores: figure -> columns model (identity, or as printed), task, value; seed, metric and round where there are
        several. Models that the figure does not print are left out. With the columns of `intervals.task_scores` too,
        they are judged by single test examples, and other models add to the seed noise.
    noise: figure -> seed noise of mean accuracy, for scores without examples; by default measured on their seeds.
    checks: `testability.results`; a claim is "not testable here" if a check that it needs failed, for it or for all.
    numbers: ours, by name, for claims of the kind `number`. q is taken within each of the two documents.

    A row per claim; label is its figure. "published_..." and arithmetic are of the published numbers, the others ours:
    `Judgement`'s, "not run" where a model has no scores; q, among all that were tested.
    """
    rows = []
    for claim in load():
        row: dict[str, Any] = claim.model_dump(include={"id", "section", "finding", "note"})
        row |= {"label": claim.figure, "profile": profile}
        if isinstance(claim, Number):
            ours = (numbers or {}).get(claim.number)
            row |= {"published_effect": claim.published, "published_verdict": verdicts.NUMBER, "effect": ours}
            row |= {"verdict": verdicts.NOT_RUN if ours is None else verdicts.NUMBER}
        else:
            published = _columns(_judged_published(claim))
            judged, measure, missing = _ours(claim, scores.get(claim.checked_on), noise or {})
            failed = {name: reason for (name, label), reason in (checks or {}).items() if label in ("", claim.figure)}
            judged = judged and verdicts.checked(judged, claim.needed, failed)
            row |= {f"published_{name}": value for name, value in published.items()} | _columns(judged)
            row |= {"arithmetic": published["arithmetic"], "our_arithmetic": row["arithmetic"], "measure": measure}
            row["note"] = " ".join(filter(None, (claim.note, missing, judged.reason if judged else "")))
        rows.append(row)
    table = pd.DataFrame(rows, columns=[*_COLUMNS])
    for prefix in ("published_", ""):
        names = [prefix + name for name in _NUMBERS]
        table[names] = table[names].astype(float)
        tested = table[f"{prefix}p"].where(table[f"{prefix}verdict"] != verdicts.NOT_TESTABLE)
        table[f"{prefix}q"] = tested.groupby(table["label"].str.startswith("news")).transform(verdicts.q_values)
    return table


def of_figure(
    figure: str, scores: pd.DataFrame, noise: SeedNoise | None = None, checks: Checks | None = None
) -> pd.DataFrame:
    """The ledger's rows of one figure, short; published and ours are effects. Arguments are as entries of `check`'s."""
    sources = {claim.checked_on for claim in load() if claim.figure == figure}
    rows = check(dict.fromkeys(sources, scores), dict.fromkeys(sources, noise), checks=checks)
    rows = rows[(rows["label"] == figure) & (rows["published_verdict"] != verdicts.NUMBER)]
    decided = rows["decided_by"].fillna(rows["published_decided_by"])
    short = rows.assign(decided_by=decided, published=rows["published_effect"], ours=rows["effect"])
    return short[["finding", "decided_by", "published", "ours", "low", "high", "verdict"]]


def of_chapter_4(figure: str, records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """`of_figure` for a boxplot of Chapter 4, from its records, with the checks that they allow."""
    wanted = {*chapter4.models(figure, profile).values(), *chapter4.references(figure)}
    scores = records[records["model"].isin(wanted)]
    checks = testability.results(testability.table({figure: scores}, profile, informing=False))
    return of_figure(figure, scores, chapter4.band(records, figure, profile), checks)


def our_results(profile: Profile) -> tuple[Scores, Noises]:
    """Our results for `check`: figure -> scores, and figure -> seed noise.

    Figures made on this machine are read from the store, with every seed; nothing is trained. One of which only the CSV
    is there (it came with the repository, or the store is out of date) gives its means over seeds and its band.
    """
    scores, noise = {}, {}
    for figure in dict.fromkeys(claim.checked_on for claim in load()):
        csv = paths.figures(profile) / f"{figure}.csv"
        if csv.is_file() and figure != theirs.NEWS:  # its evidence is `lib.news.results`'
            drawn_here = (paths.provenance(profile) / f"{figure}.json").is_file()
            scores[figure], noise[figure] = (drawn_here and _stored(figure, profile)) or _drawn(figure, csv, profile)
    return scores, {figure: measured for figure, measured in noise.items() if measured}


@functools.cache
def rerun_noise(tasks: tuple[str, ...] = (), *, without: str = "") -> SeedNoise:
    """How far a published run may be off: from the two pairs of runs of (almost) one configuration.

        sd^2 = mean over pairs of d^2 / 2,  d: the difference of their mean normalised accuracies, .0067 and .0047

    With two degrees of freedom a difference counts from .0249. For one task: from the twelve differences of single
    tasks. without: a figure whose pair is left out, for claims about that pair itself.
    """
    pairs = [rerun for rerun in RERUNS if rerun[0] != without]
    tables = [theirs.load(figure).pivot(index="model", columns="task", values="normalized") for figure, *_ in pairs]
    gaps = pd.DataFrame([table.loc[a] - table.loc[b] for table, (_, a, b) in zip(tables, pairs, strict=True)])
    gaps = gaps.stack() if len(tasks) == 1 else gaps.mean(axis=1)
    return SeedNoise(float(np.sqrt((gaps**2).mean() / 2)), len(gaps))


@functools.cache
def twin_noise() -> SeedNoise:
    """How far a run of the news paper may be off: from students that it ran twice, with two schedules of the rate."""
    table = theirs.load(theirs.NEWS).pivot(index="model", columns="task", values="value").mean(axis=1)
    gaps = [table[name] - table[f"{name};plateau"] for name in table.index if f"{name};plateau" in table.index]
    return SeedNoise(float(np.sqrt(np.square(gaps).mean() / 2)), len(gaps))


def neighbours(figure: str) -> pd.DataFrame:
    """A published ranking, neighbour by neighbour, best first; in Figure 5.3 neighbours are those of one round.

    gap: of mean normalised accuracy. within_noise: two published runs may differ by as much.
    """
    means = theirs.load(figure).groupby("model", sort=False)["normalized"].mean()
    rounds = means.index.str.rpartition(";").get_level_values(2) if figure == "fig5_3" else [""] * len(means)
    table = pd.concat([effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)], ignore_index=True)
    table["within_noise"] = table["gap"] <= rerun_noise().least_difference
    pairs = zip(table["better"], table["worse"], strict=True)
    table["arithmetic"] = [verdicts.arithmetic(means[better], means[worse]) for better, worse in pairs]
    table.insert(0, "figure", figure)
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


def _columns(judged: Judgement | None) -> dict[str, Any]:
    if judged is None:
        return {"verdict": verdicts.NOT_RUN, "arithmetic": None}
    low, high = judged.without_a_task
    return asdict(judged) | {"one_task_low": low, "one_task_high": high}


@functools.cache
def _judged_published(claim: Claim) -> Judgement | None:
    if isinstance(claim, Alike):
        return None
    noise = twin_noise() if claim.metric == "F1" else None
    if claim.metric == "accuracy":
        compared = set().union(*claim.sides(_models(claim)))
        tested = [figure for figure, *pair in RERUNS if figure == claim.checked_on and compared == {*pair}]
        noise = rerun_noise(claim.tasks, without="".join(tested))
    return claim.judged(_of_runs(claim, _published_scores(claim.checked_on, claim.metric), noise), _models(claim))


def _ours(claim: Claim, scores: pd.DataFrame | None, noise: Noises) -> tuple[Judgement | None, str, str]:
    """Our verdict, the measure, and what is missing."""
    if scores is None:
        return None, "", ""
    models = _models(claim)
    compared = set().union(*claim.sides(models))
    if isinstance(scores, Evidence):
        missing = sorted(compared - {*scores.means.index})
        return (None, "", f"No records of {missing[0]}.") if missing else (claim.judged(scores, models), "F1", "")
    scores = _as_printed(claim, scores)
    if isinstance(claim, Alike):
        compared.update(claim.treated(compared).values())
    tasks = {claim.easier, claim.harder} if isinstance(claim, EasierTask) else set(claim.tasks)
    missing = sorted(compared - set(scores["model"])) + sorted(tasks - set(scores["task"]))
    if missing or scores.empty:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return None, "", f"No records of {missing[0]}{more}." if missing else ""
    if "scores" in scores:
        given = [name for name in scores["model"].unique() if name.partition(";")[0] in GIVEN]
        weights = claim.weights(list(scores["task"].unique()))
        evidence = intervals.from_examples(intervals.task_scores(scores), weights=weights, given=given)
        return claim.judged(evidence, models), "chance-corrected", ""
    of_means = noise.get(claim.checked_on) if claim.metric == "accuracy" and not claim.tasks else None
    return claim.judged(_of_runs(claim, scores, of_means), models), "normalised, seeds alone", ""


def _of_runs(claim: Claim, scores: pd.DataFrame, noise: SeedNoise | None) -> Evidence:
    weights = claim.weights(list(scores["task"].unique()))
    scores = scores[scores["task"].isin(list(weights))]
    if isinstance(claim, EasierTask) or claim.metric == "F1":  # of raw scores
        table = scores.pivot(index=["model", "seed"], columns="task", values="value").dropna()
    else:
        try:
            table = effects.normalized_runs(scores)
        except ValueError as error:
            raise ValueError(f"{claim.checked_on}: {error}") from None
    repeated = table.index.get_level_values("model").duplicated()
    if noise is None and repeated.any() and intervals.seed_noise(table).sd < 1e-9:
        table = table[~repeated]  # a CSV's mean, once for each of its seeds: what they varied by is not known
    return intervals.from_runs(table, weights=weights, noise=noise)


def _models(claim: Claim) -> list[str]:
    return _published_scores(claim.checked_on, claim.metric)["model"].unique().tolist()


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
    """Models that the figure does not show are left out, but for scores of single examples, where a reference student's
    seeds may be all that is known of seeds."""
    figure = claim.checked_on
    scores = scores.assign(seed=scores.get("seed", 0))
    if "metric" in scores:
        scores = scores[scores["metric"] == claim.metric]
    if figure == "fig5_3" and "round" in scores:
        scores = scores.assign(model=scores["model"] + ";" + scores["round"])
    identities = {} if figure in RETRIEVAL else figure_models.printed(figure)
    names = {identity: name for name, identity in identities.items()} | {name: name for name in _models(claim)}
    if isinstance(claim, Alike):
        names |= dict(zip(claim.treated(names).values(), claim.treated(names.values()).values(), strict=True))
    models = scores["model"].map(names)
    if "scores" in scores:
        models = models.fillna(scores["model"])
    columns = ["model", "task", "seed", "value", "scores", "groups", "chance"]
    return scores.assign(model=models).dropna(subset="model").filter(columns)


def _stored(figure: str, profile: Profile) -> tuple[pd.DataFrame, SeedNoise | None] | None:
    """From the store, if it holds every run."""
    if figure.startswith("fig4_"):
        models = {*chapter4.models(figure, profile).values(), *chapter4.references(figure)}
        seeds, trained, splits = chapter4.seeds(profile), profile, [("validation", None)]
    else:
        models, seeds = final_students.MODELS.values(), final_students.seeds(profile)
        trained = final_students.final_profile(profile)
        splits = [("test", limit) for limit in profile.final.rounds.values()]
    if not store().has(keys.tasks(profile)):
        return None  # nothing was evaluated: no reason to read the tasks
    tasks = classification_names(profile)
    pairs = [(variants.parse(model), seed) for model in models for seed in seeds.get(model, profile.seeds)]
    with keys.data_at_rest():
        runs = itertools.product(pairs, tasks, splits)
        if not all(store().has(keys.record(*pair, task, trained, *split)) for pair, task, split in runs):
            return None
    if figure in RETRIEVAL:
        return final_students.retrieval(profile, top=None), None
    if figure == "fig5_3":
        return pd.concat([final_students.classification(profile), final_students.cut(profile)]), None
    scores = chapter4.records(figure, profile=profile)
    return scores, chapter4.band(scores, figure, profile)


def _drawn(figure: str, csv: Path, profile: Profile) -> tuple[pd.DataFrame, SeedNoise | None]:
    """From the CSV: the mean of the seeds once for each, and the noise of the band."""
    frame = pd.read_csv(csv, keep_default_na=False, na_values=[""]).assign(seed=0)
    if "band" not in frame or frame["band"].isna().all():
        return frame, None
    if figure.startswith("fig4_"):
        df = sum(len(chapter4.seeds(profile)[model]) - 1 for model in chapter4.references(figure))
    else:
        df = int((frame.groupby("model")["seeds"].max() - 1).sum())
    if df < 1:
        return frame, None
    repeated = frame.assign(seed=frame["seeds"].map(range)).explode("seed", ignore_index=True).astype({"seed": int})
    return repeated, SeedNoise(float(frame["band"].iloc[0]) / 2, df)
