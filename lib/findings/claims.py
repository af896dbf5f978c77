"""The thesis' findings as checks on published numbers and on ours: the ledger, and each chapter's part of it.

    claims.check(*claims.our_results(profile))       the ledger; `check({})` judges the published numbers alone
    claims.of_figure("fig4_3", scores, noise)        the ledger's rows of one figure, as its notebook shows them
    claims.neighbours("fig4_8")                      which neighbours of a published ranking are closer than a re-run

A finding is about mean normalised accuracy (or MAP, MRR) and stands in `params/claims.yaml`; its kind
(`lib.findings.claim_kinds`) turns it into differences of means, and `lib.statistics.verdicts` judges them. What counts
between two single runs: ours, t(.975, df) sqrt(2) sd of the reference students; published, where everything ran once,
`rerun_distance`.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.config import paths, profiles
from lib.config.profiles import Profile
from lib.distillation import variants
from lib.experiments import keys
from lib.findings import chapter4, final_students
from lib.findings.claim_kinds import KINDS, Claim, EasierTask, resolve
from lib.published import figure_models
from lib.statistics import effects, intervals, verdicts
from lib.statistics.intervals import SeedNoise
from lib.statistics.verdicts import Judgement
from lib.store.records import store
from lib.tasks import classification_names

RANKINGS = theirs.BOXPLOTS
RETRIEVAL = ("fig5_5", "fig5_6")  # rows per metric
# Section 4.5.3: `no-weighting` sums the losses, λ = 0.5 halves that sum, which AdamW hardly notices.
RERUNS = (("fig4_10", "no-weighting", "None;λ=0.5"), ("fig4_11", "no-weighting", "None;λ=0.5"))
Scores = Mapping[str, pd.DataFrame]  # figure -> its scores
Noises = Mapping[str, SeedNoise | None]  # figure -> its seed noise, None where it is not known
Runs = dict[str, np.ndarray]  # model -> (seeds, tasks)
_PUBLISHED = ("effect", "low", "high", "needed", "exceeds", "verdict", "p_tasks", "decided_by")
_OURS = ("effect", "low", "high", "needed", "verdict", "p_tasks", "p_seeds", "seeds", "decided_by")


@functools.cache
def load() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the order of the thesis.

    Raises `lib.config.profiles.ParameterError`, one line naming the claim, for an unknown kind, key, figure or model.
    """
    return [parse(*entry) for entry in profiles.entries("claims.yaml")]


def parse(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """One claim, checked against its kind's schema and against the models of its figure."""
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


def check(scores: Scores, noise: Noises | None = None, *, profile: str = "") -> pd.DataFrame:
    """The claims ledger: every finding on the published numbers and on our scores.

    scores: figure -> columns model, task, value, and seed if there are several. Chapter 4: models by identity or as
        printed in that figure. Chapter 5: models as printed, with metric and round; fig5_3 takes the rounds, fig5_5 and
        fig5_6 MAP and MRR. Models that the figure does not print are left out: normalisation is the thesis'.
    noise: figure -> seed noise of mean accuracy; without one it is measured on the models that have several seeds.
    profile: its name, for the ledger.

    Columns: id, section, label (the figure), finding; with "published_" before them effect, low, high, needed (empty
    for MAP and MRR, of which the thesis has no two runs), exceeds, verdict (`Judgement.as_stated`), p_tasks,
    decided_by; arithmetic (of the published numbers); ours: effect, low, high, needed, verdict ("not run" where a model
    has no scores), p_tasks, p_seeds, seeds, decided_by (all as in `Judgement`); profile, note.
    """
    return _ledger(load(), scores, noise or {}, profile)


def of_figure(figure: str, scores: pd.DataFrame, noise: SeedNoise | None = None) -> pd.DataFrame:
    """The ledger's rows of one figure in few columns: finding, decided by, published, ours (effects), needed, verdict.

    scores, noise: as one entry of `check`'s.
    """
    claims = [claim for claim in load() if claim.figure == figure]
    sources = {claim.checked_on for claim in claims}
    rows = _ledger(claims, dict.fromkeys(sources, scores), dict.fromkeys(sources, noise))
    decided = rows["decided_by"].fillna(rows["published_decided_by"])
    short = rows.assign(decided_by=decided, published=rows["published_effect"], ours=rows["effect"])
    return short[["finding", "decided_by", "published", "ours", "needed", "verdict"]]


def of_chapter_4(figure: str, records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """`of_figure` for a boxplot figure of Chapter 4, from the records that it was just drawn from."""
    return of_figure(figure, chapter4.of_figure(records, figure, profile), chapter4.band(records, figure, profile))


def our_results(profile: Profile) -> tuple[Scores, Noises]:
    """Our results for `check`: figure -> scores, and figure -> seed noise.

    Figures that were made on this machine are read from the store, with every seed; nothing is trained. A figure of
    which only the CSV is there (it came with the repository, or what the store holds is out of date) gives its means
    over seeds and its band. A figure without a CSV gives nothing.
    """
    scores, noise = {}, {}
    for figure in dict.fromkeys(claim.checked_on for claim in load()):
        csv = paths.figures(profile) / f"{figure}.csv"
        if csv.is_file():
            drawn_here = (paths.provenance(profile) / f"{figure}.json").is_file()
            scores[figure], noise[figure] = (drawn_here and _stored(figure, profile)) or _drawn(figure, csv, profile)
    return scores, {figure: measured for figure, measured in noise.items() if measured}


@functools.cache
def rerun_distance(tasks: tuple[str, ...] = ()) -> float:
    """How far two published runs of (almost) one configuration lie apart.

    The mean over Figures 4.10 and 4.11 of |no-weighting - None;λ=0.5|: .0067 and .0047 of mean normalised accuracy.
    For one task, where means over six say nothing: the mean of the single-task distances. Two pairs are few; a
    difference below this distance means nothing, one above it may still be chance.
    """
    scores = [theirs.load(figure).pivot(index="model", columns="task", values="normalized") for figure, *_ in RERUNS]
    gaps = pd.DataFrame([table.loc[a] - table.loc[b] for table, (_, a, b) in zip(scores, RERUNS, strict=True)])
    return float(gaps.abs().to_numpy().mean() if len(tasks) == 1 else gaps.mean(axis=1).abs().mean())


def neighbours(figure: str, data: pd.DataFrame | None = None, noise: SeedNoise | None = None) -> pd.DataFrame:
    """A published ranking, neighbour by neighbour, best first.

    Columns: figure, model, ahead_of, gap (of mean normalised accuracy), within_noise (not beyond the published re-run
    distance), arithmetic. In Figure 5.3 neighbours are those of one round. With our figure (data: its CSV, noise: its
    seed noise) only its models, and the columns ours (the same difference here) and ours_differ (it exceeds the noise).
    """
    means = theirs.load(figure).groupby("model", sort=False)["normalized"].mean()
    if data is not None:
        means = means[means.index.isin(data["model"])]
    rounds = means.index.str.rpartition(";").get_level_values(2) if figure == "fig5_3" else [""] * len(means)
    table = pd.concat([effects.neighbours(group) for _, group in means.groupby(rounds, sort=False)], ignore_index=True)
    distance = rerun_distance()
    table["within_noise"] = [not verdicts.exceeds(gap, distance) for gap in table["gap"]]
    pairs = list(zip(table["better"], table["worse"], strict=True))
    table["arithmetic"] = [verdicts.arithmetic(means[better], means[worse], distance) for better, worse in pairs]
    if data is not None and noise is not None:
        here = data.groupby("model")["normalized"].mean()
        table["ours"] = [here[better] - here[worse] for better, worse in pairs]
        table["ours_differ"] = [verdicts.exceeds(gap, noise.least_difference) for gap in table["ours"]]
    table.insert(0, "figure", figure)
    return table.rename(columns={"better": "model", "worse": "ahead_of"})


def _ledger(claims: Iterable[Claim], scores: Scores, noise: Noises, profile: str = "") -> pd.DataFrame:
    rows = []
    for claim in claims:
        published, (ours, why_not) = _judged_published(claim), _ours(claim, scores.get(claim.checked_on), noise)
        row = {"id": claim.id, "section": claim.section, "label": claim.figure, "finding": claim.finding}
        row |= {f"published_{name}": getattr(published, name) for name in _PUBLISHED}
        row |= {"published_verdict": published.as_stated, "arithmetic": published.arithmetic}
        row |= {name: getattr(ours, name, None) for name in _OURS}
        row |= {"verdict": ours.verdict if ours else verdicts.NOT_RUN}
        rows.append(row | {"profile": profile, "note": " ".join(filter(None, (claim.note, why_not)))})
    return pd.DataFrame(rows)


@functools.cache
def _judged_published(claim: Claim) -> Judgement:
    runs, _ = _runs(claim, _published_scores(claim.checked_on, claim.metric), None)
    distance = rerun_distance(claim.tasks) if claim.metric == "accuracy" else None
    return verdicts.judge(_comparisons(claim, runs), runs, least_difference=distance)


def _ours(claim: Claim, scores: pd.DataFrame | None, noise: Noises) -> tuple[Judgement | None, str]:
    """Our verdict, or None and what is missing for it."""
    if scores is None:
        return None, ""
    scores = _as_printed(claim, scores)
    compared = {name for side in claim.sides(_models(claim)) for name in side}
    tasks = {claim.easier, claim.harder} if isinstance(claim, EasierTask) else set(claim.tasks)
    missing = sorted(compared - set(scores["model"])) + sorted(tasks - set(scores["task"]))
    if missing or scores.empty:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return None, f"No records of {missing[0]}{more}." if missing else ""
    of_means = noise.get(claim.checked_on) if claim.metric == "accuracy" and not claim.tasks else None
    runs, measured = _runs(claim, scores, of_means)
    least = measured.least_difference if measured else None
    return verdicts.judge(_comparisons(claim, runs), runs, least_difference=least, noise=measured), ""


def _comparisons(claim: Claim, runs: Runs) -> list[effects.Comparison]:
    return claim.comparisons(pd.Series({name: values.mean() for name, values in runs.items()}), _models(claim))


def _models(claim: Claim) -> list[str]:
    """The models of the claim's figure, as printed."""
    return _published_scores(claim.checked_on, claim.metric)["model"].unique().tolist()


@functools.cache
def _published_scores(figure: str, metric: str) -> pd.DataFrame:
    """model (as printed), task, seed and value of a figure's published scores."""
    scores = theirs.load(figure)
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric].rename(columns={"score": "value"})
    elif figure in RANKINGS:
        scores = scores.rename(columns={"accuracy": "value"})
    else:
        allowed = ", ".join((*RANKINGS, *RETRIEVAL))
        raise ValueError(f"{figure} has no scores per model and task; expected one of {allowed}")
    return scores.assign(seed=0)[["model", "task", "seed", "value"]]


def _as_printed(claim: Claim, scores: pd.DataFrame) -> pd.DataFrame:
    """Our scores in the form of `_published_scores`; models that the figure does not show are left out."""
    figure = claim.checked_on
    if "metric" in scores:
        scores = scores[scores["metric"] == claim.metric]
    if "seed" not in scores:
        scores = scores.assign(seed=0)
    if figure == "fig5_3" and "round" in scores:
        scores = scores.assign(model=scores["model"] + ";" + scores["round"])
    identities = {} if figure in RETRIEVAL else figure_models.printed(figure)
    printed = {identity: name for name, identity in identities.items()} | {name: name for name in _models(claim)}
    scores = scores.assign(model=scores["model"].map(printed)).dropna(subset="model")
    return scores[["model", "task", "seed", "value"]]


def _runs(claim: Claim, scores: pd.DataFrame, noise: SeedNoise | None) -> tuple[Runs, SeedNoise | None]:
    """Model -> (seeds, tasks) normalised scores of the claim's tasks, and their seed noise, measured if not given.

    For `EasierTask` raw scores by task, over models.
    """
    if isinstance(claim, EasierTask):
        raw = scores.groupby(["task", "model"])["value"].mean().unstack("model")
        return {task: row.to_numpy()[None, :] for task, row in raw.iterrows()}, None
    if claim.tasks:
        scores = scores[scores["task"].isin(claim.tasks)]
    try:
        table = effects.normalized_runs(scores)
    except ValueError as error:
        raise ValueError(f"{claim.checked_on}: {error}") from None
    repeated = table.index.get_level_values("model").duplicated()
    if noise is None and repeated.any():
        noise = intervals.seed_noise(table)
        if noise.sd < 1e-9:  # a CSV's mean, once for each of its seeds: what they varied by is not known
            noise, table = None, table[~repeated]
    return {model: group.to_numpy() for model, group in table.groupby(level="model")}, noise


def _stored(figure: str, profile: Profile) -> tuple[pd.DataFrame, SeedNoise | None] | None:
    """A figure's scores with all seeds and its noise, if the store holds every one of them."""
    if figure.startswith("fig4_"):
        models = {*chapter4.models(figure, profile).values(), *chapter4.references(figure)}
        seeds, trained, splits = chapter4.seeds(profile), profile, [("validation", None)]
    elif figure == "fig5_3":
        models, seeds = final_students.MODELS.values(), final_students.seeds(profile)
        trained = final_students.final_profile(profile)
        splits = [("test", limit) for limit in profile.final.rounds.values()]
    else:
        return None
    if not store().has(keys.tasks(profile)):
        return None  # nothing was evaluated: no reason to read the tasks
    tasks = classification_names(profile)
    pairs = [(model, seed) for model in models for seed in seeds.get(model, profile.seeds)]
    with keys.data_at_rest():
        for (model, seed), task, split in itertools.product(pairs, tasks, splits):
            if not store().has(keys.record(variants.parse(model), seed, task, trained, *split)):
                return None
    if figure == "fig5_3":
        return final_students.classification(profile), None
    scores = chapter4.records(figure, profile=profile)
    return chapter4.of_figure(scores, figure, profile), chapter4.band(scores, figure, profile)


def _drawn(figure: str, csv: Path, profile: Profile) -> tuple[pd.DataFrame, SeedNoise | None]:
    """A figure's scores from its CSV, the mean of its seeds once for each, and the noise of the band that it states."""
    frame = pd.read_csv(csv, keep_default_na=False, na_values=[""]).assign(seed=0)
    if "band" not in frame or frame["band"].isna().all():
        return frame, None
    if figure.startswith("fig4_"):
        df = sum(len(chapter4.seeds(profile)[model]) - 1 for model in chapter4.references(figure))
    else:
        df = int((frame.groupby("model")["seeds"].max() - 1).sum())
    if df < 1:
        return frame, None
    repeated = frame.loc[frame.index.repeat(frame["seeds"])]
    seeds = repeated.groupby(level=0).cumcount()
    return repeated.assign(seed=seeds).reset_index(drop=True), SeedNoise(float(frame["band"].iloc[0]) / 2, df)
