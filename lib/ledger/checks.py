"""Whether our numbers can decide a finding: was the treatment given, and can we measure it?

A finding is "not testable here" if a check that it needs has failed. If you change a limit, raise
the version of the rules, `lib.statistics.verdicts.RULES`.
"""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from lib import published
from lib.chapters import chapter4, data_statistics, final_students, sensitivity, words_read
from lib.chapters.contextual import collect_histories
from lib.chapters.geometry import (
    ALIKE,
    BY_FREQUENCY,
    COLLAPSED,
    LOSS,
    NEAR,
    cosines,
    mean_cosine,
    measure_base,
)
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.experiments.bench import Bench
from lib.ledger.kinds import RANKING, Claim
from lib.statistics.intervals import paired, task_scores
from lib.statistics.verdicts import MARGIN, above_chance, learnable
from lib.store import NotComputed

# The least share of the gradient that the contextual loss must have. With less, nine tenths of a
# step follow the other teacher.
SHARE = 0.1
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


# ---- what is checked ----------------------------------------------------------------------------


def collect_frames(
    scores: Mapping[str, pd.DataFrame],
    bench: Bench,
    claims: Sequence[Claim],
    *,
    informing: bool = False,
) -> dict[str, Any]:
    """What `run_checks` needs about `scores`, those of `claims.collect_scores`, by name.

    This trains control students, see `measure_students`. If `informing`, there are also lengths of
    all task texts, and the students of Figure A.4 if these are in the store.
    """
    final, students = final_students.prepare_bench(bench).profile.training, {}
    for label in (*published.PROJECTIONS, *published.WEIGHTINGS, "fig4_12", FINAL):
        if label in scores:
            students[label] = measure_students(label, bench)
    frames = {
        "scores": scores,
        "students": students,
        "limit": bench.profile.structural_teacher.max_tokens,
        "corpus": data_statistics.count_corpus_tokens(bench.corpus, bench.base),
        "updates": (bench.profile.training.updates, final.updates),
        "base": measure_base(bench),
        # The same layers before they learned to guess words.
        "layers": measure_base(bench.changed("student", language_model=None)),
    }
    if any(HAS_READ in claim.needed for claim in claims if claim.source in scores):
        frames["words"] = words_read.extrapolate_words(words_read.run_words(bench))
    if informing:
        frames["tasks"] = data_statistics.count_task_tokens(bench.tasks, bench.base)
        with contextlib.suppress(NotComputed):
            trained = sensitivity.run_lengths(bench.reading())
            frames["lengths"] = sensitivity.judge_lengths(trained, sensitivity.NO_HEAD)
    return frames


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
        return bench.embeddings(variant, seed)["validation"]

    columns = ["start", "end", "chance", "control", "share", "context", "another_seed", "alike"]
    table = pd.DataFrame(index=[*students], columns=columns, dtype=float)
    if taught:  # a filter on variants may leave none
        histories = collect_histories({label: models}, bench).groupby("model", sort=False)
        table["start"], table["end"] = histories["embedding"].first(), histories["embedding"].last()
        table["chance"] = histories["chance"].first()
        table["share"] = histories["share"].mean()[[*both]]
    for name, variant in both.items():
        alone = parse(str(variant.structural))
        if label != FINAL or alone in students.values():
            pairs = embed(variant), embed(alone, second)
            cosine = [cosines(rows, embed(alone)).mean() for rows in pairs]
            table.loc[name, ["context", "another_seed"]] = cosine
    if taught and not both:
        dealt = bench.changed("training", contextual_rows="dealt")
        controls = {name: dealt.model(variant, first) for name, variant in taught.items()}
        dealt.embed(controls.values(), dealt.held_out)
        ends = {name: control.history()["watched"][-1, 1] for name, control in controls.items()}
        table["control"] = pd.Series(ends)
    table["alike"] = [mean_cosine(embed(variant)) for variant in students.values()]
    return table


# ---- checks -------------------------------------------------------------------------------------


def run_checks(frames: Mapping[str, Any], claims: Sequence[Claim]) -> pd.DataFrame:
    """Check the frames of `collect_frames`; a row for each `Check`."""
    rows = [*_check_lengths(frames), *_check_updates(*frames["updates"])]
    rows += _check_base(frames["base"], frames["layers"])
    rows += _check_scores(frames["scores"])
    rows += _check_words(frames["words"]) if "words" in frames else ()
    rows += _check_training(frames["lengths"]) if "lengths" in frames else ()
    for label, students in frames["students"].items():
        rows += _check_students(label, students, claims)
    return pd.DataFrame(rows, columns=Check._fields)


def describe_failures(checks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(check, label) of each check that failed -> what failed, in words."""
    failures: dict[tuple[str, str], list[str]] = {}
    for row in checks[checks["passed"].eq(False)].itertuples():
        ends = "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]"
        words = f"{row.what} is {row.value:.2f}{ends}, needed {row.needed}"
        failures.setdefault((row.check, row.label), []).append(words)
    return {place: "; ".join(words) for place, words in failures.items()}


def find_failures(
    scores: Mapping[str, pd.DataFrame], bench: Bench, claims: Sequence[Claim]
) -> dict[tuple[str, str], str]:
    """`describe_failures` of the checks that these scores allow."""
    return describe_failures(run_checks(collect_frames(scores, bench, claims), claims))


def _check_lengths(frames: Mapping[str, Any]) -> Iterator[Check]:
    """Whether the share of documents above the structural teacher's limit is the published one."""
    name, limit = "texts_above_limit", frames["limit"]
    share = float((frames["corpus"]["sbert_tokens"] > limit).mean())
    needed = f"{ABOVE_LIMIT - LENGTHS:.2f} to {ABOVE_LIMIT + LENGTHS:.2f}"
    passed = abs(share - ABOVE_LIMIT) <= LENGTHS
    yield Check(name, "", "share of documents above the limit", share, needed=needed, passed=passed)
    for task, texts in frames["tasks"].groupby("task", sort=False) if "tasks" in frames else ():
        share = (texts["sbert_tokens"] > limit).mean()
        yield Check(name, "", f"share of {task}'s texts above the limit", share)


def _check_updates(first: int, final: int) -> Iterator[Check]:
    """Whether a final student makes more updates than one of Chapter 4, and enough."""
    yield Check("updates", "", "updates of a student of Chapter 4", first)
    needed, what = max(UPDATES, first + 1), "updates of a final student"
    yield Check("updates", "", what, final, needed=f"{needed}", passed=final >= needed)


def _check_base(measured: Mapping[str, float], layers: Mapping[str, float]) -> Iterator[Check]:
    """Whether the base is a language model whose layers no longer know how to compare texts.

    A raw language model embeds all texts alike, and unlike the teacher. The limits are the values
    of the same `layers` before they learned to guess words.
    """
    rows = [
        (f"{ALIKE}, of the base", measured[ALIKE], "above", layers[ALIKE]),
        (f"{NEAR}, of the base", measured[NEAR], "below", layers[NEAR]),
    ]
    learned = LOSS in measured  # else in this profile the base is a slice of the teacher
    if learned:
        share = measured[LOSS] / measured[BY_FREQUENCY]
        rows.insert(0, (f"{LOSS}, share of the {BY_FREQUENCY}", share, "below", GUESSED))
    for what, value, side, limit in rows:
        passed = value > limit if side == "above" else value < limit
        needed = (f"{side} {limit:.2f}", passed) if learned else ("", None)
        yield Check("base_is_language_model", "", what, value, None, None, *needed)


def _check_scores(scores: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    """Whether teachers and base are above chance, and whether tasks and rounds can be learned.

    Rounds may have few examples. Retrieval is checked by MRR alone: MAP varies more from text to
    text, so a ranking that is random by MRR is random by MAP too. What the thesis' heads can learn
    is the ledger's first question; here it decides nothing.
    """
    encoders, by_heads = _find_encoders(scores, READOUT), " by the thesis' heads"
    parts = [("task_not_at_chance", "", "", encoders)]
    if FINAL in scores:
        comparing = scores[FINAL][scores[FINAL]["readout"] == READOUT]
        for name, frame in comparing.groupby("round", sort=False):
            parts.append(("round_not_at_chance", FINAL, f" in round {name}", frame))
    for label in ("fig5_5", "fig5_6"):
        if label in scores:
            frame = scores[label][scores[label]["metric"] == "MRR"]
            parts.append((RANKING, label, " by MRR", frame))
    parts.append(("task_not_at_chance", "", by_heads, _find_encoders(scores, "thesis")))
    if len(encoders):
        for row in above_chance(*_select_scores(encoders, _ENCODERS)).itertuples():
            what = f"{row.model} on all tasks, chance-corrected"
            yield _above_zero(_ENCODERS[row.model], "", what, row.score, row.low, row.high)
    for check, label, part, frame in parts:
        models = final_students.PUBLISHED if label else _ENCODERS
        for row in learnable(*_select_scores(frame, models)).itertuples() if len(frame) else ():
            what = f"{row.model} on {row.task}{part}, chance-corrected"
            needed, passed = "low above 0, below .97", row.passed
            if part == by_heads:
                needed, passed = "", None
            yield Check(check, label, what, row.score, row.low, row.high, needed, passed)


def _above_zero(check: str, label: str, what: str, value: float, low: float, high: float) -> Check:
    return Check(check, label, what, value, low, high, "low above 0", low > 0)


def _find_encoders(scores: Mapping[str, pd.DataFrame], readout: str) -> pd.DataFrame:
    """Records by a readout of the figure of Chapter 4 with SBERT and most `_ENCODERS`, if any."""
    frames = [frame for label, frame in scores.items() if label.startswith("fig4_")]
    frames = [frame[frame["readout"] == readout] for frame in frames]
    frames = [frame for frame in frames if frame["model"].eq("SBERT").any()]
    shown = [len({*_ENCODERS} & {*frame["model"]}) for frame in frames]
    return frames[shown.index(max(shown))] if frames else pd.DataFrame()


def _select_scores(frame: pd.DataFrame, models: Collection[str]) -> tuple[Any, list[str]]:
    """The scores by task of those `models` that have records, and their names."""
    names = [model for model in models if model in set(frame["model"])]
    return task_scores(frame[frame["model"].isin(names)]), names


def _check_words(reach: pd.DataFrame) -> Iterator[Check]:
    """Whether a Paragraph Vector has read enough to be ranked against encoders.

    An encoder was pre-trained on other texts. If the Paragraph Vector is below SBERT only because
    the corpus is small, its rank tells us about the corpus. The readout by which it needs the
    fewest words decides.
    """
    row = reach.loc[reach["times"].idxmin()]
    what = f"words for SBERT's level, as a multiple of the corpus, by {row['readout']}"
    needed, passed = f"at most {WORDS}", bool(row["times"] <= WORDS)
    yield Check(HAS_READ, "", what, *row[["times", "low", "high"]], needed, passed)


def _check_training(judged: pd.DataFrame) -> Iterator[Check]:
    """Whether students score above the base, and whether longer training would change them.

    Both are measured without a head, because a head may learn more than the student did.
    """
    chosen = judged["right"].eq("base ×0") & judged["left"].str.endswith(" ×1")
    for row in judged[chosen].itertuples():
        what = f"{row.left[:-3]} minus base, no head"
        yield _above_zero("base_below_students", "", what, row.difference, row.low, row.high)
    doubled = judged[judged["left"].str.endswith(" ×2") & judged["right"].str.endswith(" ×1")]
    if len(doubled):
        row = doubled.loc[doubled["difference"].abs().idxmax()]
        what = f"largest change from twice the updates, no head: {row['left'][:-3]}"
        needed, passed = f"value within ±{MARGIN}", abs(row["difference"]) <= MARGIN
        interval = row[["difference", "low", "high"]]
        yield Check("students_converged", "", what, *interval, needed, passed)


def _check_students(label: str, students: pd.DataFrame, claims: Sequence[Claim]) -> Iterator[Check]:
    """What the contextual teacher contributes to a figure's students, and what they learn from it.

    The contextual loss alone has the whole gradient, and it falls with any teacher. So its students
    must end above their controls in held-out CCA, and above documents paired at random. Intervals
    are Student's t over students, at 99%; a single student has none.
    """
    shares = students["share"].dropna()
    if len(shares):
        yield from _check_shares(label, shares, claims)
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
        interval = paired(alone["end"], alone[column], CONFIDENCE)
        yield _above_zero("treatment_given", label, what, *interval)
    if len(students):
        alike = students["alike"]
        what, worst = f"cosine of different documents, highest: {alike.idxmax()}", alike.max()
        needed, passed = f"below {COLLAPSED}", bool(worst < COLLAPSED)
        yield Check("not_collapsed", label, what, worst, alike.min(), worst, needed, passed)


def _check_shares(label: str, shares: pd.Series, claims: Sequence[Claim]) -> Iterator[Check]:
    """Whether the contextual loss has enough gradient, in all students and in a finding's own."""
    named = {label: {*shares.index}}
    for claim in claims:
        if claim.source == label != FINAL and "treatment_given" in claim.needed:
            sides = claim.sides(list(published.shown(label)))
            named[claim.id] = {name for side in sides for name in side}
    for about, names in named.items():
        values = shares[shares.index.isin(names)]
        if about == label or 0 < len(values) < len(shares):
            value = values.median()
            what = f"contextual share of the gradient, median of {len(values)}"
            interval, needed = (value, values.min(), values.max()), f"at least {SHARE}"
            yield Check("treatment_given", about, what, *interval, needed, bool(value >= SHARE))
