"""The thesis' findings as checks, and one engine that runs them on published numbers and on ours alike.

    claims.published()                      every finding, recomputed from the published per-task numbers
    claims.check({"fig4_3": records}, ...)  the ledger: the same checks on our records beside it
    claims.neighbours("fig4_8")             which neighbours of a published ranking are closer than a re-run

A finding is about mean normalised accuracy (or MAP, MRR) and stands in `params/claims.yaml`; its kind
(`lib.statistics.claim_kinds`) turns it into differences of means. What each difference is held against:

* the noise of one more seed. Ours: t(.975, df) sqrt(2) sd of the reference students (`statistics.noise`). Published:
  the thesis ran everything once, but Figures 4.10 and 4.11 each hold a pair of runs that is all but a repetition
  (`published_noise.rerun_distance`). Both belong to a difference of two single runs; averages have less, as variances
  add (`Comparison.norm`).
* the choice of tasks (and the seeds, where a model has several): an interval by bootstrap, and a sign-flip test.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.config import paths, profiles
from lib.evaluation.metrics import normalized_accuracy
from lib.statistics import published_noise
from lib.statistics.claim_kinds import KINDS, Claim, Comparison, EasierTask, resolve
from lib.statistics.noise import NoiseBand, noise_band

HOLDS, FAILS, UNCLEAR, NOT_RUN = "holds", "does not hold", "not distinguishable", "not run"
RANKINGS = ("fig4_2", "fig4_3", "fig4_5", "fig4_7", "fig4_8", "fig4_9", "fig4_10", "fig4_11", "fig4_12", "fig5_3")
_SCORES = ("fig5_5", "fig5_6")  # retrieval: rows per metric


class Scores(NamedTuple):
    """Scores by model: (seeds, tasks) arrays; band: the noise of one run's mean, None if unknown."""

    runs: dict[str, np.ndarray]
    band: NoiseBand | None

    @property
    def means(self) -> pd.Series:
        return pd.Series({name: values.mean() for name, values in self.runs.items()})


@functools.cache
def load() -> list[Claim]:
    """Every finding of `params/claims.yaml`, in the order of the thesis.

    Raises `lib.config.profiles.ParameterError`, one line naming the claim, for an unknown kind, key, label or model.
    """
    path = paths.PARAMS / "claims.yaml"
    return [parse(name, fields, f"{path.name}: {name}") for name, fields in profiles.read_yaml(path).items()]


def parse(name: str, fields: Mapping[str, Any], where: str) -> Claim:
    """One claim, checked against its kind's schema and against the models of its figure."""
    kind = (fields or {}).get("kind")
    if kind not in KINDS:
        raise profiles.ParameterError(f"{where}: kind: unknown kind {kind!r}; known: {', '.join(KINDS)}")
    claim = profiles.validated(KINDS[kind], {"id": name, **fields}, where)
    try:
        theirs.load(claim.label)
        known = _models(claim)
        for group in claim.groups():
            resolve(group, known)
        if claim.tasks:
            resolve(claim.tasks, theirs.load(claim.checked_on)["task"].unique().tolist())
    except ValueError as error:
        raise profiles.ParameterError(f"{where}: {error} ({claim.checked_on})") from None
    return claim


def published() -> pd.DataFrame:
    """Every finding recomputed from the published per-task numbers.

    Columns: id, section, label, finding, effect (of the comparison that decides), low, high (95 % bootstrap interval
    over tasks), needed (the published re-run distance, scaled to the comparison; empty for MAP and MRR, of which the
    thesis has no two runs), exceeds (whether the effect does), verdict ("holds", "does not hold", with "within noise"
    or "noise unknown"), p_tasks, decided_by, arithmetic, note.
    """
    rows = []
    for claim in load():
        found = _evaluate(
            claim,
            _published_scores(claim),
            published_noise.rerun_distance(claim.tasks) if claim.metric == "accuracy" else None,
        )
        exceeds = None if np.isnan(found["needed"]) else bool(abs(found["effect"]) > found["needed"])
        noise = {True: "", False: " within noise", None: ", noise unknown"}[exceeds]
        verdict = (HOLDS if found["effect"] > 0 else FAILS) + noise
        rows.append({**_head(claim), **found, "exceeds": exceeds, "verdict": verdict, "note": claim.note})
    columns = [
        *_head(load()[0]),
        "effect",
        "low",
        "high",
        "needed",
        "exceeds",
        "verdict",
        "p_tasks",
        "decided_by",
        "arithmetic",
        "note",
    ]
    return pd.DataFrame(rows)[columns]


def check(
    records: Mapping[str, pd.DataFrame], noise: Mapping[str, NoiseBand] | None = None, *, profile: str = ""
) -> pd.DataFrame:
    """The claims ledger: every finding on the published numbers and on our records.

    records: label -> tidy records (model, task, seed, value). Chapter 4: models by identity or as printed in that
        figure. Chapter 5: models as printed, with metric and round; fig5_3 takes the rounds, fig5_5 and fig5_6 MAP and
        MRR. Other models (references, further baselines) are left out, so that normalisation is the thesis'.
    noise: label -> noise band of mean accuracy; without one it is measured on the models of the records that have
        several seeds. profile: its name, for the ledger.

    Columns: those of `published()` with `published_` before effect, low, high, needed, exceeds, verdict, p_tasks and
    decided_by; then effect, low, high, needed, verdict, p_tasks (sign-flip permutation test over tasks), p_seeds (t
    test of the effect against the pooled seed noise), seeds (of the models compared), decided_by, profile, note.
    The verdict is by the seed noise: "holds" or "does not hold" if the effect or its opposite exceeds `needed`, else
    "not distinguishable"; where no model has two seeds, by the interval, which then must exclude zero. "not run" where
    a model has no records.
    """
    kept = (*_head(load()[0]), "arithmetic", "note")
    ledger = published().rename(columns=lambda name: name if name in kept else f"published_{name}")
    rows = [_ours(claim, records.get(claim.checked_on), noise or {}) for claim in load()]
    for column in ("effect", "low", "high", "needed", "verdict", "p_tasks", "p_seeds", "seeds", "decided_by"):
        ledger[column] = [row.get(column) for row in rows]
    ledger["profile"] = profile
    ledger["note"] = [
        " ".join(filter(None, (claim.note, row.get("note")))) for claim, row in zip(load(), rows, strict=True)
    ]
    return ledger[[name for name in ledger if name not in ("profile", "note")] + ["profile", "note"]]


def neighbours(label: str) -> pd.DataFrame:
    """A published ranking, neighbour by neighbour, best first.

    Columns: model, ahead_of, gap (of mean normalised accuracy), within_noise (below the published re-run distance),
    arithmetic. In Figure 5.3 neighbours are those of one round.
    """
    frame = theirs.load(label)
    means = frame.groupby("model", sort=False)["normalized"].mean()
    means = means.rename_axis("model").reset_index(name="mean")
    means["round"] = means["model"].str.rpartition(";")[2] if label == "fig5_3" else ""
    distance = published_noise.rerun_distance()
    rows = []
    for _, group in means.groupby("round", sort=False):
        ranked = group.sort_values("mean", ascending=False, kind="stable")
        for (better, high), (worse, low) in zip(
            ranked[["model", "mean"]].values[:-1], ranked[["model", "mean"]].values[1:], strict=True
        ):
            within = bool(high - low < distance)
            rows.append(
                {
                    "model": better,
                    "ahead_of": worse,
                    "gap": high - low,
                    "within_noise": within,
                    "arithmetic": published_noise.arithmetic(high, low, distance),
                }
            )
    return pd.DataFrame(rows)


def _evaluate(claim: Claim, scores: Scores, distance: float | None) -> dict[str, Any]:
    """The comparison that decides - the one that holds least - with its interval, test and arithmetic."""
    means = scores.means
    known = _models(claim)
    comparisons = claim.comparisons(means, known)
    effects = [_effect(comparison, means) / max(comparison.norm, 1e-12) for comparison in comparisons]
    decisive = comparisons[int(np.argmin(effects))]
    needed = np.nan if distance is None else distance * decisive.norm
    low, high = published_noise.interval(scores.runs, decisive.weights)
    sides = [sum(weight * means[name] for name, weight in side.items()) for side in (decisive.plus, decisive.minus)]
    counts = sorted({len(scores.runs[name]) for name in decisive.weights})
    return {
        "effect": sides[0] - sides[1],
        "low": low,
        "high": high,
        "needed": needed,
        "p_tasks": published_noise.sign_flip(
            sum(weight * scores.runs[name].mean(0) for name, weight in decisive.weights.items())
        ),
        "p_seeds": published_noise.seed_test(sides[0] - sides[1], decisive, scores.band),
        "seeds": f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}-{counts[-1]}",
        "decided_by": f"{decisive.left} against {decisive.right}",
        "arithmetic": published_noise.arithmetic(*sides, needed),
    }


def _ours(claim: Claim, records: pd.DataFrame | None, noise: Mapping[str, NoiseBand]) -> dict[str, Any]:
    if records is None:
        return {"verdict": NOT_RUN}
    frame = _our_frame(claim, records)
    needed = {name for group in claim.groups() for name in resolve(group, _models(claim))}
    missing = sorted(needed - set(frame["model"]))
    tasks = {claim.easier, claim.harder} if isinstance(claim, EasierTask) else set(claim.tasks)
    missing += sorted(tasks - set(frame["task"]))
    if missing or frame.empty:
        return {
            "verdict": NOT_RUN,
            "note": f"No records of {missing[0]}{f' and {len(missing) - 1} more' if missing[1:] else ''}."
            if missing
            else "",
        }
    band = noise.get(claim.checked_on) if claim.metric == "accuracy" and not claim.tasks else None
    scores = _scores(claim, frame, band)
    found = _evaluate(claim, scores, scores.band and scores.band.least_difference)
    if np.isnan(found["needed"]):
        holds, fails = found["low"] > 0, found["high"] < 0
    else:
        holds, fails = found["effect"] > found["needed"], found["effect"] < -found["needed"]
    return {**found, "verdict": HOLDS if holds else FAILS if fails else UNCLEAR}


def _published_scores(claim: Claim) -> Scores:
    return _scores(claim, _published_frame(claim.checked_on, claim.metric), None)


def _models(claim: Claim) -> list[str]:
    """The models of the claim's figure, as printed."""
    return _published_frame(claim.checked_on, claim.metric)["model"].unique().tolist()


@functools.cache
def _published_frame(label: str, metric: str) -> pd.DataFrame:
    """model (as printed), task, seed and value of a label's published scores."""
    frame = theirs.load(label)
    if label in _SCORES:
        frame = frame[frame["metric"] == metric].rename(columns={"score": "value"})
    elif label in RANKINGS:
        frame = frame.rename(columns={"accuracy": "value"})
    else:
        raise ValueError(
            f"{label} has no scores per model and task; expected one of {', '.join((*RANKINGS, *_SCORES))}"
        )
    return frame.assign(seed=0)[["model", "task", "seed", "value"]]


def _our_frame(claim: Claim, records: pd.DataFrame) -> pd.DataFrame:
    """Our records in the form of `_published_frame`; models that the figure does not show are left out."""
    label = claim.checked_on
    if "metric" in records:
        records = records[records["metric"] == claim.metric]
    if label == "fig5_3" and "round" in records:
        records = records.assign(model=records["model"] + ";" + records["round"])
    shown = _models(claim)
    printed = {} if label in _SCORES else {identity: name for name, identity in theirs.identities(label).items()}
    names = [name if name in shown else printed.get(name) for name in records["model"]]
    frame = records.assign(model=names)[["model", "task", "seed", "value"]]
    return frame[frame["model"].notna()]


def _scores(claim: Claim, frame: pd.DataFrame, band: NoiseBand | None) -> Scores:
    """Normalised scores of the claim's tasks by model; for `EasierTask` raw scores by task, over models."""
    if isinstance(claim, EasierTask):
        raw = frame.groupby(["task", "model"])["value"].mean().unstack("model")
        return Scores({task: row.to_numpy()[None, :] for task, row in raw.iterrows()}, None)
    if claim.tasks:
        frame = frame[frame["task"].isin(claim.tasks)]
    frame = frame.rename(columns={"value": "accuracy"})
    best = frame.groupby(["task", "model"])["accuracy"].mean().groupby("task").max().to_dict()
    table = normalized_accuracy(frame, best=best).pivot(index=["model", "seed"], columns="task", values="normalized")
    if table.isna().any(axis=None):
        model, seed = table.index[table.isna().any(axis=1)][0]
        raise ValueError(
            f"{claim.checked_on}: {model!r}, seed {seed} lacks some of {', '.join(table.columns)}: pass complete runs"
        )
    if band is None and frame.groupby("model")["seed"].nunique().max() > 1:
        band = noise_band(frame, best=best)
    return Scores({model: group.to_numpy() for model, group in table.groupby(level="model")}, band)


def _effect(comparison: Comparison, means: pd.Series) -> float:
    return sum(weight * means[name] for name, weight in comparison.weights.items())


def _head(claim: Claim) -> dict[str, str]:
    return {"id": claim.id, "section": claim.section, "label": claim.label, "finding": claim.finding}
