"""The ledger: the thesis' findings, judged on the published numbers and on ours by each readout.

A finding *repeats* if it holds by the readout "thesis". It *survives* if it holds by the two that
need little training, heads that compare and no head. Our noise comes from seeds, test texts (or
events) and processors, that of published scores from near re-runs and numbers of test examples.
"""

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import published as theirs
from lib.chapters import chapter4, final_students
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.figures.scores import GIVEN
from lib.ledger import checks
from lib.ledger.kinds import Alike, Claim, Number, load_claims
from lib.statistics import effects, intervals, verdicts
from lib.statistics.verdicts import DISAGREE, NOT_RUN, NOT_TESTABLE, NUMBER, OPEN, SMALLER
from lib.store import NotComputed

RETRIEVAL = ("fig5_5", "fig5_6")  # whose tables have a row for each metric
# Figure -> its scores, or for the news paper the evidence that notebook 08 makes of them.
Scores = Mapping[str, pd.DataFrame | intervals.Evidence]
# Readout of our scores -> the prefix of its columns in table "claims".
PREFIXES = {"thesis": "", "compare": "compare_", "none": "none_"}
_JUDGED = "effect low high p p_equivalent q verdict holding decided_by".split()
COLUMNS = [
    *"id section label finding quote read_off".split(),
    *(f"published_{name}" for name in [*_JUDGED, "reason"]),
    *(prefix + name for prefix in PREFIXES.values() for name in [*_JUDGED, "seed_share"]),
    *"survives survives_p survives_q seeds checks rules profile note".split(),
]
SHOWN = "finding decided_by published_effect effect low high holding verdict".split()
SHOWN += "compare_effect compare_verdict none_effect none_verdict survives".split()


def judge_claims(
    scores: Scores,
    *,
    checked: pd.DataFrame | None = None,
    numbers: Mapping[str, float] | None = None,
    label: str = "",
    profile: str = "",
) -> pd.DataFrame:
    """Table "claims", a row for each finding of the figures that begin with `label`.

    `scores` are records as of `Bench.run`, by one or more readouts, with models named by identity
    or as printed. F1 has no readouts: all have the same columns. Retrieval has two, see
    `ranking.TOPS`. A claim is "not testable here" if a check that it needs has failed in `checked`.
    `numbers` are ours, for kind `number`. q is over the thesis or the news paper. survives is the
    verdict that the readouts with little training share, survives_p their larger p, 1 if their
    effects differ in sign.
    """
    collect = functools.cache(functools.partial(collect_evidence, scores))
    checked = pd.DataFrame(columns=checks.Check._fields) if checked is None else checked
    numbers, facts, rows = numbers or {}, [], []
    for claim in [claim for claim in load_claims() if claim.figure.startswith(label)]:
        told = claim.model_dump(include={"id", "section", "finding", "quote", "read_off", "note"})
        facts.append(told | {"label": claim.figure, "checks": ", ".join(claim.needed)})
        sides = {"published_": _judge_published(claim)}
        for readout, prefix in PREFIXES.items():
            if isinstance(claim, Number) and claim.number in numbers:
                sides[prefix] = {"effect": numbers[claim.number], "verdict": NUMBER}
            else:
                sides[prefix] = _judge_ours(claim, scores, collect, readout, checked)
        sides["survives_"] = _share_verdict(sides["compare_"], sides["none_"])
        news = claim.figure.startswith("news")
        rows += [{"id": claim.id, "news": news, "side": side} | sides[side] for side in sides]
    columns = ["id", "news", "side", *_JUDGED, "reason", "seeds", "seed_share"]
    long = pd.DataFrame(rows, columns=columns)
    p = long["p"].astype(float).mask(long["verdict"].isin([NOT_TESTABLE, NOT_RUN]))
    long["q"] = p.groupby([long["news"], long["side"]]).transform(verdicts.q_values)
    wide = long.drop(columns="news").set_index(["id", "side"]).unstack("side")
    wide.columns = [side + name for name, side in wide.columns]
    wide = wide.rename(columns={"survives_verdict": "survives"})
    table = pd.DataFrame(facts).merge(wide, on="id")
    table["note"] = (table["note"] + " " + table["reason"].fillna("")).str.strip()
    return table.assign(profile=profile, rules=verdicts.RULES)[COLUMNS]


def judge_chapter4(figure: str, bench: Bench) -> pd.DataFrame:
    """`judge_claims` for a boxplot of Chapter 4, with checks; this may train what they need."""
    scores = {figure: chapter4.run_readouts(figure, bench)}
    ledger = judge_claims(scores, checked=checks.run_checks(scores, bench), label=figure)
    return ledger.loc[ledger["label"] == figure, SHOWN]


def _share_verdict(compare: Mapping[str, Any], none: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict and the p of both readouts with little training together."""
    words = compare["verdict"], none["verdict"]
    verdict = words[0] if words[0] == words[1] else DISAGREE
    if NOT_RUN in words:
        verdict = NOT_RUN
    both = pd.DataFrame([compare, none]).reindex(columns=["effect", "p"]).astype(float)
    apart = both["effect"].prod(skipna=False) <= 0
    return {"verdict": verdict, "p": 1.0 if apart else both["p"].max(skipna=False)}


def _judge_ours(
    claim: Claim, scores: Scores, collect: Any, readout: str, checked: pd.DataFrame
) -> dict[str, Any]:
    """The columns of our verdict by a readout, or what is missing for it."""
    if claim.source not in scores or isinstance(claim, Number):
        return {"verdict": NOT_RUN, "reason": f"No records: make {claim.source} first."}
    given = scores[claim.source]
    models = [*_load_published_scores(claim.source, claim.metric)["model"].unique()]
    wanted, weights = claim.named(models), {}
    if isinstance(given, intervals.Evidence):
        present = {*given.means.index}
    else:
        shown = _select_scores(given, claim.source, claim.metric, readout)
        weights = claim.weights([*shown["task"].unique()])
        present = {*shown["model"], *shown["task"]}
        wanted |= {*claim.tasks, *weights}
    if missing := sorted(wanted - present):
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return {"verdict": NOT_RUN, "reason": f"No records of {missing[0]}{more}."}
    evidence = collect(claim.source, claim.metric, readout, tuple(weights.items()))
    judgement = claim.judge_scores(evidence, models)
    smaller = judgement.high < _judge_published(claim).get("effect", np.nan)
    if smaller and judgement.verdict == OPEN and claim.kind != "spread":  # noise shrinks spreads
        judgement = replace(judgement, verdict=SMALLER)
    about = checked["label"].isin(["", claim.source, claim.id])  # a check may be about all findings
    failed = checked[about & checked["check"].isin(claim.needed) & checked["passed"].eq(False)]
    if len(failed):
        reason = "; ".join(checks.Check(*row).words for row in failed.itertuples(index=False))
        judgement = replace(judgement, verdict=NOT_TESTABLE, reason=reason)
    return asdict(judgement)


@functools.cache
def _judge_published(claim: Claim) -> Mapping[str, Any]:
    """The columns of the verdict on the published numbers; `Alike` is about our runs alone."""
    if isinstance(claim, Alike):
        return {"verdict": NOT_RUN, "reason": ""}
    if isinstance(claim, Number):
        return {"effect": claim.published, "verdict": NUMBER}
    source, scores = claim.source, _load_published_scores(claim.source, claim.metric)
    models = [*scores["model"].unique()]
    guessing = {"chance": 0.0} if claim.metric == "F1" else {}  # F1 is not corrected for it
    runs = effects.corrected_runs(scores.assign(seed=0, **guessing))
    weights, noise = claim.weights(list(runs)), None
    if claim.metric == "F1":
        runs, noise = runs.dropna(subset=claim.tasks or None), measure_twin_noise()
        scored = {*runs.index.get_level_values("model")}  # two students have no private F1
        models = [name for name in models if name in scored]
    elif claim.metric == "accuracy":
        # A pair of near re-runs is no yardstick for itself.
        about = source in theirs.WEIGHTINGS and claim.named(models) == {*chapter4.RERUN}
        noise = chapter4.measure_published_noise(source, weights, without=source if about else "")
    student_of = functools.partial(_find_student, source)
    evidence = intervals.from_runs(runs, weights=weights, noise=noise, student_of=student_of)
    return asdict(claim.judge_scores(evidence, models))


def collect_scores(bench: Bench) -> dict[str, pd.DataFrame]:
    """Our scores of the figures whose runs are all in the store; `NotComputed` if none is."""
    figures, scores = [*theirs.BOXPLOTS] if bench.classifications else [], {}
    if any(task.kind == "retrieval" for task in bench.tasks.values()):
        figures += RETRIEVAL
    for figure in figures:
        with contextlib.suppress(NotComputed):
            known = RETRIEVAL[0] in scores and figure in RETRIEVAL  # both have the same records
            scores[figure] = scores[RETRIEVAL[0]] if known else run_figure(figure, bench.reading())
    if not scores:
        name = bench.profile.name
        raise NotComputed(f"no figure of {name} has all of its runs; first run ./run_all.sh {name}")
    return scores


def run_figure(figure: str, bench: Bench) -> pd.DataFrame:
    """Records of all models of a figure, by all readouts."""
    if figure in RETRIEVAL:
        return final_students.run_retrievals(bench)
    if figure in theirs.CHAPTER_4:
        return chapter4.run_readouts(figure, bench)
    return final_students.run_readouts(bench)


def collect_evidence(
    scores: Scores, source: str, metric: str, readout: str, weights: tuple[tuple[str, float], ...]
) -> intervals.Evidence:
    """Evidence on a figure's models by one readout; models of one class share their seed noise."""
    given = scores[source]
    if isinstance(given, intervals.Evidence):
        return given
    shown = _select_scores(given, source, metric, readout)
    printed = theirs.printed(source) if source in theirs.CHAPTER_4 else final_students.load_models()
    student_of = functools.partial(_find_student, source)
    return intervals.from_examples(
        intervals.task_scores(shown),
        weights=dict(weights),
        given=[name for name in shown["model"].unique() if student_of(name) in GIVEN],
        class_of=lambda name: parse(printed.get(student_of(name), student_of(name))).seed_class,
        student_of=student_of,
        processor_sd=intervals.PROCESSOR_SD[readout if metric == "accuracy" else "retrieval"],
    )


def _select_scores(scores: pd.DataFrame, source: str, metric: str, readout: str) -> pd.DataFrame:
    """The scores of one metric and readout, with the model names that the figure prints."""
    if source in RETRIEVAL:  # has no heads: what survives is the whole ranking
        readout = "thesis" if readout == "thesis" else "none"
        scores = scores[scores["metric"] == metric]
    scores = scores[scores["readout"] == readout]
    if source == "fig5_3":
        return scores.assign(model=scores["model"] + ";" + scores["round"])
    names = {identity: name for name, identity in theirs.printed(source).items()}
    return scores.assign(model=scores["model"].replace(names))


@functools.cache
def _load_published_scores(figure: str, metric: str) -> pd.DataFrame:
    """Columns model, task, value and, where scores have one, chance."""
    scores = theirs.load(figure).rename(columns={"accuracy": "value", "score": "value"})
    if figure in RETRIEVAL:
        scores = scores[scores["metric"] == metric]
        scores = scores.assign(chance=scores["task"].map(theirs.load_chances("test", metric)))
    return scores


def measure_twin_noise() -> intervals.SeedNoise:
    """Noise of the news paper's F1, a mean of both sides, from twins of another schedule."""
    table = theirs.load(theirs.NEWS).pivot(index="model", columns="task", values="value")
    twins = table[table.index.str.endswith(";cosine;plateau")]
    gaps = (table.loc[twins.index.str.removesuffix(";plateau")].to_numpy() - twins).mean(axis=1)
    return intervals.SeedNoise.from_gaps(gaps)


def _find_student(source: str, model: str) -> str:
    """The student behind a name of Figure 5.3, such as "only-MSE;cut;all"."""
    return model.partition(";")[0] if source == "fig5_3" else model


def read_table(folder: Path, label: str) -> pd.DataFrame:
    """Read the saved numbers of a figure or table. Only empty cells are missing: None is a name."""
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def shorten_ledger(ledger: pd.DataFrame) -> pd.DataFrame:
    """Columns finding, published, ours (effects), low, high (of ours), verdict, survives."""
    short = ledger.rename(columns={"published_effect": "published", "effect": "ours"})
    short.attrs["label"] = "short_ledger"  # of its layout in `params/tables.yaml`
    return short[["finding", "published", "ours", "low", "high", "verdict", "survives"]]


def count_verdicts(ledgers: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Count the thesis' findings by verdict: as published, and for each name of a ledger."""
    columns: dict[str, pd.Series] = {}
    for name, ledger in ledgers.items():
        thesis = ledger[~ledger["label"].str.startswith("news")]
        columns.setdefault("published", thesis["published_verdict"])
        columns |= {f"{name} repeats": thesis["verdict"], f"{name} survives": thesis["survives"]}
    counts = pd.DataFrame({name: words.value_counts() for name, words in columns.items()})
    counts = counts.reindex(verdicts.VERDICTS).fillna(0).astype(int)
    return counts.rename_axis("verdict").reset_index()
