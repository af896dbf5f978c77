"""Whether our numbers can decide a finding: was the treatment given, and can we measure it?

A finding is "not testable here" if a check that it needs has failed. If you change a limit, raise
the version of the rules, `lib.statistics.verdicts.RULES`; docs/sizes.md has their reasons.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
from scipy import stats

from lib import published
from lib.chapters import chapter4, data_statistics, final_students, geometry
from lib.chapters.geometry import COLLAPSED
from lib.chapters.sensitivity import extrapolate_words, run_words
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.experiments.bench import Bench
from lib.ledger.kinds import RANKING, load_claims
from lib.statistics.intervals import task_scores
from lib.statistics.verdicts import above_chance

SHARE = 0.1  # the least share of the gradient that the contextual loss must have
CONFIDENCE = 0.99  # of the control's interval; strict, because it is a second look at the data
UPDATES = 50  # the least number of updates of a final student
GUESSED = 0.85  # a language model's loss is below this share of guessing words by frequency
ABOVE_LIMIT = 0.71  # the published share of documents above the structural teacher's limit
LENGTHS = 0.05  # the distance from that share that is allowed
# A Paragraph Vector may need at most this multiple of the corpus' words to reach SBERT's level. The
# curve has four points and spans a factor of eight; its line says little beyond as much again.
WORDS = 10
FINAL = "fig5_3"  # the figure of the final students
STUDENTS = (*published.PROJECTIONS, *published.WEIGHTINGS, "fig4_12", FINAL)
READOUT = "compare"  # needs little training: tells whether an embedding has anything to read
HAS_READ = "contextual_teacher_has_read"
# Check of each encoder alone.
_ENCODERS = {"SBERT": "structural_teacher_above_chance", "Longformer": "base_above_chance"}
_ENCODERS |= dict.fromkeys(CONTEXTUAL_TEACHERS, "contextual_teacher_above_chance")


class Check(NamedTuple):
    """A row of table "checks"; `label` is its figure or finding, empty if it is about all.

    `low` and `high` are an interval, or a range over models. A row without `passed` only informs.
    """

    check: str
    label: str
    what: str
    value: float
    low: float | None = None
    high: float | None = None
    needed: str = ""
    passed: bool | None = None


def run_checks(scores: Mapping[str, pd.DataFrame], bench: Bench) -> pd.DataFrame:
    """A row for each `Check` that `scores`, those of `claims.collect_scores`, allow.

    This trains control students, see `measure_students`.
    """
    corpus = data_statistics.count_corpus_tokens(bench.corpus, bench.base)
    rows = [*check_texts(bench.profile.structural_teacher.max_tokens, corpus)]
    rows += check_scores(scores)
    if any(HAS_READ in claim.needed for claim in load_claims() if claim.source in scores):
        rows += check_words(extrapolate_words(run_words(bench)))
    for label in STUDENTS:
        if label in scores:
            rows += check_students(label, measure_students(label, bench))
    return pd.DataFrame(rows, columns=Check._fields)


def describe_failures(checks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """What failed of a table of checks: {(check, label): in words}."""
    failures: dict[tuple[str, str], list[str]] = {}
    for row in checks[checks["passed"].eq(False)].itertuples():
        interval = "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]"
        words = f"{row.what} is {row.value:.2f}{interval}, needed {row.needed}"
        failures.setdefault((row.check, row.label), []).append(words)
    return {place: "; ".join(words) for place, words in failures.items()}


def measure_students(label: str, bench: Bench) -> pd.DataFrame:
    """What a figure's students were taught, a row for each by name; NaN where nothing applies.

    start, end and chance are the held-out CCA with the contextual teacher, the last one that of
    documents paired at random. control is the end of a student whose teacher's rows belong to other
    documents, for students of the contextual loss alone. Students of both losses have share (of the
    contextual loss in the gradient) and the cosines of the student without context to this one
    (context) and to its second seed (another_seed); a final student only if that one is final too.
    alike is the mean cosine of different documents.
    """
    if label == FINAL:
        models, bench = final_students.load_models(), final_students.prepare_bench(bench)
    else:
        models = chapter4.list_models(label, bench.profile)
    students = chapter4.select_students(models)
    taught = chapter4.select_students(models, contextual=True)
    both = {name: variant for name, variant in taught.items() if variant.structural}
    first = bench.profile.seeds[0]
    second = next(seed for seed in bench.profile.reference_seeds if seed != first)

    def embed(variant: Variant, seed: int = first) -> Any:
        return bench.model(variant, seed).embed(bench.held_out)[:]

    columns = ["start", "end", "chance", "control", "share", "context", "another_seed", "alike"]
    table = pd.DataFrame(index=[*students], columns=columns, dtype=float)
    if taught:  # a filter on variants may leave none
        histories = chapter4.collect_histories({label: models}, bench).groupby("model", sort=False)
        table["start"], table["end"] = histories["embedding"].first(), histories["embedding"].last()
        table["chance"] = histories["chance"].first()
        table["share"] = histories["share"].mean()[[*both]]
    for name, variant in both.items():
        alone = parse(str(variant.structural))
        if label != FINAL or alone in students.values():
            pairs = embed(variant), embed(alone, second)
            cosine = [geometry.cosines(rows, embed(alone)).mean() for rows in pairs]
            table.loc[name, ["context", "another_seed"]] = cosine
    if taught and not both:
        dealt = bench.changed("training", contextual_rows="dealt")
        controls = chapter4.collect_histories({label: models}, dealt).groupby("model")
        table["control"] = controls["embedding"].last()
    table["alike"] = [geometry.mean_cosine(embed(variant)) for variant in students.values()]
    return table


# ---- single checks ------------------------------------------------------------------------------


def check_texts(limit: int, corpus: pd.DataFrame) -> Iterator[Check]:
    """Whether as many documents are above the structural teacher's limit as published."""
    share = float((corpus["sbert_tokens"] > limit).mean())
    needed = f"{ABOVE_LIMIT - LENGTHS:.2f} to {ABOVE_LIMIT + LENGTHS:.2f}"
    passed, what = abs(share - ABOVE_LIMIT) <= LENGTHS, "share of documents above the limit"
    yield Check("texts_above_limit", "", what, share, needed=needed, passed=passed)


def check_scores(scores: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    """Whether teachers and base are above chance, and whether tasks and rounds can be learned.

    Retrieval is checked by MRR alone: MAP varies more from text to text, so a ranking that is
    random by MRR is random by MAP too. What the thesis' heads can learn decides nothing here.
    """
    encoders, by_heads = _find_encoders(scores, READOUT), " by the thesis' heads"
    parts = [("task_not_at_chance", "", "", encoders)]
    if FINAL in scores:
        comparing = scores[FINAL].query("readout == @READOUT")
        for name, frame in comparing.groupby("round", sort=False):
            parts.append(("round_not_at_chance", FINAL, f" in round {name}", frame))
    for label in ("fig5_5", "fig5_6"):
        if label in scores:
            parts.append((RANKING, label, " by MRR", scores[label].query("metric == 'MRR'")))
    parts.append(("task_not_at_chance", "", by_heads, _find_encoders(scores, "thesis")))
    if len(encoders):
        for row in above_chance(*_select(encoders, _ENCODERS)).itertuples():
            what = f"{row.model} on all tasks, chance-corrected"
            yield _above_zero(_ENCODERS[row.model], "", what, row.score, row.low, row.high)
    for check, label, part, frame in parts:
        models = published.CHAPTER_5 if label else _ENCODERS
        tasks, names = _select(frame, models) if len(frame) else ({}, [])
        for task, each in tasks.items():
            row = above_chance({task: each}, names, mean=True).iloc[0]
            what = f"{row['model']} on {task}{part}, chance-corrected"
            needed = ("", None) if part == by_heads else ("low above 0, below .97", row["passed"])
            yield Check(check, label, what, *row[["score", "low", "high"]], *needed)


def _above_zero(check: str, label: str, what: str, value: float, low: float, high: float) -> Check:
    return Check(check, label, what, value, low, high, "low above 0", bool(low > 0))


def _find_encoders(scores: Mapping[str, pd.DataFrame], readout: str) -> pd.DataFrame:
    """Records by a readout of the figure of Chapter 4 with SBERT and most `_ENCODERS`, if any."""
    frames = [frame for label, frame in scores.items() if label.startswith("fig4_")]
    frames = [frame[frame["readout"] == readout] for frame in frames]
    frames = [frame for frame in frames if frame["model"].eq("SBERT").any()]
    return max(
        frames, key=lambda frame: len({*_ENCODERS} & {*frame["model"]}), default=pd.DataFrame()
    )


def _select(frame: pd.DataFrame, models: Collection[str]) -> tuple[Any, list[str]]:
    """The scores by task of those `models` that have records, and their names."""
    names = [model for model in models if model in set(frame["model"])]
    return task_scores(frame[frame["model"].isin(names)]), names


def check_words(reach: pd.DataFrame) -> Iterator[Check]:
    """Whether a Paragraph Vector has read enough to be ranked against encoders.

    An encoder was pre-trained on other texts. If the Paragraph Vector is below SBERT only because
    the corpus is small, its rank tells us about the corpus. The readout by which it needs the
    fewest words decides.
    """
    row = reach.loc[reach["times"].idxmin()]
    what = f"words for SBERT's level, as a multiple of the corpus, by {row['readout']}"
    needed, passed = f"at most {WORDS}", bool(row["times"] <= WORDS)
    yield Check(HAS_READ, "", what, *row[["times", "low", "high"]], needed, passed)


def check_students(label: str, students: pd.DataFrame) -> Iterator[Check]:
    """What the contextual teacher contributes to a figure's students, and what they learn from it.

    Its loss must have enough of the gradient, in all students and in those of a finding. Alone it
    has all, and it falls with any teacher: such students must end above their controls in held-out
    CCA, and above documents paired at random. Intervals are Student's t over students, at 99%.
    """
    named = {label: {*students.index}}
    for claim in load_claims():
        if claim.source == label != FINAL and "treatment_given" in claim.needed:
            named[claim.id] = claim.named([*published.shown(label)])
    shares = students["share"].dropna()
    for about, names in named.items():
        values = shares[shares.index.isin(names)]
        if len(values) and (about == label or len(values) < len(shares)):
            what, value = (
                f"contextual share of the gradient, median of {len(values)}",
                values.median(),
            )
            interval, needed = (value, values.min(), values.max()), f"at least {SHARE}"
            yield Check("treatment_given", about, what, *interval, needed, bool(value >= SHARE))
    if len(shares):
        value, another = students[["context", "another_seed"]].median()
        ends = students["context"].min(), students["context"].max()
        what = "cosine with the student without context, median"
        needed, passed = f"below another seed's, {another:.3f}", bool(value < another)
        yield Check("students_differ", label, what, value, *ends, needed, passed)
    rises = (students["end"] - students["start"]).dropna()
    if len(rises):
        what = "rise of held-out CCA with the contextual teacher, median"
        yield Check("cca_rises", label, what, rises.median(), rises.min(), rises.max())
    alone = students[students["control"].notna()]
    others = {"control": "twins taught with other documents' rows"}
    others |= {"chance": "documents paired at random"}
    for column, words in others.items() if len(alone) else ():
        what = f"held-out CCA above that of {words}, mean of {len(alone)}"
        gain = alone["end"] - alone[column]
        half = stats.t.ppf((1 + CONFIDENCE) / 2, len(gain) - 1) * gain.sem()
        interval = gain.mean() - half, gain.mean() + half
        yield _above_zero("treatment_given", label, what, gain.mean(), *interval)
    if len(students):
        alike = students["alike"]
        what, worst = f"cosine of different documents, highest: {alike.idxmax()}", alike.max()
        needed, passed = f"below {COLLAPSED}", bool(worst < COLLAPSED)
        yield Check("not_collapsed", label, what, worst, alike.min(), worst, needed, passed)
