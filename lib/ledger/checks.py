"""Whether our numbers can decide a finding: was the treatment given, and can we measure it?

A finding is "not testable here" if a check that it needs has failed. If you change a limit, raise
the version of the rules, `lib.statistics.verdicts.RULES`; docs/sizes.md has their reasons.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from lib import published
from lib.chapters import chapter4, final_students
from lib.chapters.sensitivity import extrapolate_words, run_words
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.evaluation.metrics import cosines, mean_cosine
from lib.experiments.bench import Bench
from lib.ledger.kinds import RANKING, load_claims
from lib.statistics.intervals import task_scores
from lib.statistics.verdicts import CEILING, mean_score

SHARE = 0.1  # the least share of the gradient that the contextual loss must have
CONFIDENCE = 0.99  # of the control's interval; strict, because it is a second look at the data
# The published share of documents above the structural teacher's limit, and the allowed distance.
ABOVE_LIMIT, LENGTHS = 0.71, 0.05
# A Paragraph Vector may need at most this multiple of the corpus' words to reach SBERT's level.
WORDS = 10
FINAL = "fig5_3"  # the figure of the final students
STUDENTS = (*published.PROJECTIONS, *published.WEIGHTINGS, "fig4_12", FINAL)
HAS_READ = "contextual_teacher_has_read"
# Check of each encoder alone.
_ENCODERS = {"SBERT": "structural_teacher_above_chance", "Longformer": "base_above_chance"}
_ENCODERS |= dict.fromkeys(CONTEXTUAL_TEACHERS, "contextual_teacher_above_chance")


class Check(NamedTuple):
    """A row of table "checks". A row without `passed` only informs."""

    check: str
    label: str  # a figure or a finding, empty if it is about all
    what: str
    value: float
    low: float | None = None  # of an interval, or of a range over models
    high: float | None = None
    needed: str = ""
    passed: bool | None = None

    @property
    def words(self) -> str:
        """What was found and needed."""
        interval = "" if pd.isna(self.low) else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.what} is {self.value:.2f}{interval}, needed {self.needed}"


def run_checks(scores: Mapping[str, pd.DataFrame], bench: Bench) -> pd.DataFrame:
    """A row for each `Check` that the scores of figures allow. This trains control students."""
    parts = [bench.teacher.lengths(texts)[:] for texts in (bench.train, bench.held_out)]
    rows = [check_lengths(np.concatenate(parts), bench.profile.structural_teacher.max_tokens)]
    rows += check_scores(scores)
    if any(HAS_READ in claim.needed for claim in load_claims() if claim.source in scores):
        rows.append(check_words(extrapolate_words(run_words(bench))))
    for label in filter(scores.__contains__, STUDENTS):
        rows += check_students(label, measure_students(label, bench))
    return pd.DataFrame(rows, columns=Check._fields)


def measure_students(label: str, bench: Bench) -> pd.DataFrame:
    """What a figure's students were taught, a row for each by name; NaN where nothing applies.

    start and end are the first and last held-out CCA with the contextual teacher; for chance and
    share see `collect_histories`. control is the end of a student of the contextual loss alone that
    got the rows of other documents. For students of both losses, the student without context is
    compared, by mean cosine, with this one (context) and with its own second seed (another_seed);
    in Chapter 5 only if it is final too. alike is the mean cosine of different documents.
    """
    if label == FINAL:
        models, bench = final_students.load_models(), final_students.prepare_bench(bench)
    else:
        models = chapter4.list_models(label, bench.profile)
    students = chapter4.select_students(models)
    taught = chapter4.select_students(models, contextual=True)
    first = bench.profile.seeds[0]
    second = next(seed for seed in bench.profile.reference_seeds if seed != first)

    def embed(variant: Variant, seed: int = first) -> Any:
        return bench.model(variant, seed).embed(bench.held_out)[:]

    bench.prepare([bench.model(each, first) for each in students.values()], bench.held_out)
    columns = ["start", "end", "chance", "control", "share", "context", "another_seed", "alike"]
    table = pd.DataFrame(index=[*students], columns=columns, dtype=float)
    table["alike"] = [mean_cosine(embed(variant)) for variant in students.values()]
    if not taught:  # a filter on variants may leave none
        return table
    watched = chapter4.collect_histories({label: models}, bench).groupby("model", sort=False)
    table["start"], table["end"] = watched["embedding"].first(), watched["embedding"].last()
    table["chance"] = watched["chance"].first()
    both = {name: variant for name, variant in taught.items() if variant.structural}
    if not both:
        dealt = bench.changed("training", contextual_rows="dealt")
        controls = chapter4.collect_histories({label: models}, dealt).groupby("model")
        return table.assign(control=controls["embedding"].last())
    table["share"] = watched["share"].mean()[[*both]]
    for name, variant in both.items():
        alone = parse(str(variant.structural))
        if label != FINAL or alone in students.values():
            without = embed(alone)
            table.loc[name, "context"] = cosines(embed(variant), without).mean()
            table.loc[name, "another_seed"] = cosines(embed(alone, second), without).mean()
    return table


def check_lengths(lengths: np.ndarray, limit: int) -> Check:
    """Whether the share of documents longer than the structural teacher's limit is as published."""
    share, what = float((lengths > limit).mean()), "share of documents above the limit"
    needed = f"{ABOVE_LIMIT - LENGTHS:.2f} to {ABOVE_LIMIT + LENGTHS:.2f}"
    passed = abs(share - ABOVE_LIMIT) <= LENGTHS
    return Check("texts_above_limit", "", what, share, needed=needed, passed=passed)


def check_scores(scores: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    """Whether teachers and base are above chance, and whether tasks and rounds can be learned.

    Heads that compare decide, because they need little training; what the thesis' heads can learn
    is only reported. Retrieval is checked by MRR alone: MAP varies more from text to text, so
    a ranking that is random by MRR is random by MAP too.
    """
    figures = [frame for label, frame in scores.items() if label.startswith("fig4_")]
    if figures := [frame for frame in figures if frame["model"].eq("SBERT").any()]:
        most = max(figures, key=lambda frame: len({*_ENCODERS} & {*frame["model"]}))
        comparing, trained = (most[most["readout"] == name] for name in ("compare", "thesis"))
        for name, check in _ENCODERS.items():
            alone = comparing[comparing["model"] == name]
            yield from _check_level(check, "", "all tasks", alone, ceiling=np.inf)
        for task, own in comparing.groupby("task", sort=False):
            yield from _check_level("task_not_at_chance", "", f"{task}", own)
        for task, own in trained.groupby("task", sort=False):
            for row in _check_level("task_not_at_chance", "", f"{task} by the thesis' heads", own):
                yield row._replace(needed="", passed=None)
    if FINAL in scores:
        final = scores[FINAL][scores[FINAL]["readout"] == "compare"]
        for (name, task), own in final.groupby(["round", "task"], sort=False):
            yield from _check_level("round_not_at_chance", FINAL, f"{task} in round {name}", own)
    for label in filter(scores.__contains__, ("fig5_5", "fig5_6")):
        by_mrr = scores[label].query("metric == 'MRR' and readout == 'none'")
        for task, own in by_mrr.groupby("task", sort=False):
            yield from _check_level(RANKING, label, f"{task} by MRR", own)


def _check_level(
    check: str, label: str, where: str, scores: pd.DataFrame, *, ceiling: float = CEILING
) -> Iterator[Check]:
    """Whether the mean of encoders or Chapter 5's models is above chance and below the ceiling."""
    models = published.CHAPTER_5 if label else _ENCODERS
    shown = scores[scores["model"].isin([*models])]
    if names := [name for name in models if name in {*shown["model"]}]:
        score, low, high = mean_score(task_scores(shown), names)
        who = names[0] if len(names) == 1 else f"mean of {len(names)} models"
        what, passed = f"{who} on {where}, chance-corrected", bool(low > 0 and score < ceiling)
        needed = "low above 0, below .97" if ceiling == CEILING else "low above 0"
        yield Check(check, label, what, score, low, high, needed, passed)


def check_words(reach: pd.DataFrame) -> Check:
    """Whether a Paragraph Vector has read enough to be ranked against encoders.

    If only the small corpus keeps it below SBERT, which was trained on other texts, its rank tells
    us about the corpus. The readout by which it needs the fewest words decides.
    """
    row = reach.loc[reach["times"].idxmin()]
    what = f"words for SBERT's level, as a multiple of the corpus, by {row['readout']}"
    outcome = f"at most {WORDS}", bool(row["times"] <= WORDS)
    return Check(HAS_READ, "", what, *row[["times", "low", "high"]], *outcome)


def check_students(label: str, students: pd.DataFrame) -> Iterator[Check]:
    """What the contextual teacher contributes to a figure's students, and what they learn from it.

    Its loss must have enough of the gradient, in all students and in those of a finding. Alone it
    has all, and falls whatever the teacher. So students of it alone must end with a held-out CCA
    above their controls' and above that of random pairs. Intervals are t over students, at 99%.
    """
    if students.empty:
        return
    named = {label: {*students.index}}
    for claim in load_claims():
        if claim.source == label != FINAL and "treatment_given" in claim.needed:
            named[claim.id] = claim.named([*published.shown(label)])
    shares = students["share"].dropna()
    for about, names in named.items():
        own = shares[shares.index.isin(names)]
        if len(own) and (about == label or len(own) < len(shares)):
            what = f"contextual share of the gradient, median of {len(own)}"
            values = own.median(), own.min(), own.max()
            outcome = f"at least {SHARE}", bool(own.median() >= SHARE)
            yield Check("treatment_given", about, what, *values, *outcome)
    if len(shares):
        own, another = students["context"], students["another_seed"].median()
        what = "cosine with the student without context, median"
        outcome = f"below another seed's, {another:.3f}", bool(own.median() < another)
        yield Check("students_differ", label, what, own.median(), own.min(), own.max(), *outcome)
    rises = (students["end"] - students["start"]).dropna()
    if len(rises):
        what = "rise of held-out CCA with the contextual teacher, median"
        yield Check("cca_rises", label, what, rises.median(), rises.min(), rises.max())
    alone = students[students["control"].notna()]
    others = {"control": "twins taught with other documents' rows"}
    others |= {"chance": "documents paired at random"}
    for column, words in others.items() if len(alone) else ():
        what, gain = f"held-out CCA above that of {words}, mean of", alone["end"] - alone[column]
        low, high = stats.t.interval(CONFIDENCE, len(gain) - 1, gain.mean(), gain.sem())
        values = f"{what} {len(gain)}", gain.mean(), low, high
        yield Check("treatment_given", label, *values, "low above 0", bool(low > 0))
    alike, limit = students["alike"], f"below {chapter4.COLLAPSED}"
    what, most = f"cosine of different documents, highest: {alike.idxmax()}", alike.max()
    passed = bool(most < chapter4.COLLAPSED)
    yield Check("not_collapsed", label, what, most, alike.min(), most, limit, passed)
