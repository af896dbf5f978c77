"""Whether our numbers can decide a finding: was the treatment given, and can we measure it?

A finding is "not testable here" if a check that it needs has failed. If you change a limit, raise
the version of the rules, `lib.statistics.verdicts.RULES`.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.chapters import base, chapter4, data_statistics, final_students, sensitivity, words_read
from lib.chapters.contextual import COLLAPSED, collect_histories, mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant
from lib.experiments.bench import Bench
from lib.ledger.claim_kinds import RANKING, Claim
from lib.published import figure_models
from lib.statistics.intervals import TaskScores, paired, task_scores
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
READOUT = "compare"  # needs little training: tells whether an embedding has anything to read
HAS_READ = "contextual_teacher_has_read"
_ENCODERS = ("SBERT", "Longformer", *CONTEXTUAL_TEACHERS)


class Check(NamedTuple):
    """One row of table "checks".

    `label` is the figure or finding that the check is about, empty for all findings; `low` and
    `high` are an interval, or a range over models; `passed` is None if the row only informs.
    """

    check: str
    label: str
    what: str
    value: float
    low: float | None = None
    high: float | None = None
    needed: str = ""
    passed: bool | None = None


def run_checks(
    scores: Mapping[str, pd.DataFrame],
    bench: Bench,
    claims: Sequence[Claim],
    *,
    informing: bool = False,
) -> pd.DataFrame:
    """Run the checks that these scores allow; a row for each `Check`.

    This trains control students, whose teacher's rows belong to other documents. `scores` are those
    of `claims.collect_scores`. If `informing`, rows are added for which all texts of all tasks are
    read, and those about the students of Figure A.4, if these are in the store.
    """
    limit = bench.profile.structural_teacher.max_tokens
    lengths = data_statistics.count_corpus_tokens(bench.corpus, bench.base)
    rows = [_check_lengths(lengths["sbert_tokens"] > limit)]
    if informing:
        lengths = data_statistics.count_task_tokens(bench.tasks, bench.base)
        above = (lengths["sbert_tokens"] > limit).groupby(lengths["task"], sort=False).mean()
        told = {f"share of {task}'s texts above the limit": share for task, share in above.items()}
        rows += [Check("texts_above_limit", "", what, share) for what, share in told.items()]
    first = bench.profile.training.updates
    final = final_students.prepare_bench(bench).profile.training.updates
    rows.append(Check("updates", "", "updates of a student of Chapter 4", first))
    needed, what = max(UPDATES, first + 1), "updates of a final student"
    rows.append(Check("updates", "", what, final, needed=f"{needed}", passed=final >= needed))
    layers = bench.changed("student", language_model=None)
    rows += _check_base(base.measure_base(bench), base.measure_base(layers))
    rows += [*_check_encoders(_find_encoders(scores, READOUT)), *_check_final_scores(scores)]
    if informing and len(frame := _find_encoders(scores, "thesis")):
        # What the thesis' heads can learn is the ledger's first question; here it decides nothing.
        part = " by the thesis' heads"
        learned = _check_learnable("task_not_at_chance", "", part, frame, _ENCODERS)
        rows += [row._replace(needed="", passed=None) for row in learned]
    if any(HAS_READ in claim.needed for claim in claims if claim.source in scores):
        rows.append(_check_words(words_read.extrapolate_words(words_read.run_words(bench))))
    if informing and "fig4_3" in scores:
        with contextlib.suppress(NotComputed):
            lengths = sensitivity.run_lengths(bench.reading())
            rows += _check_training(sensitivity.judge_lengths(lengths, sensitivity.NO_HEAD))
    for label in (*figure_models.PROJECTIONS, *figure_models.WEIGHTINGS, "fig4_12", FINAL):
        if label in scores:
            rows += _check_students(label, bench, claims)
    return pd.DataFrame(rows, columns=Check._fields)


def describe_failures(checks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(check, label) of each check that failed -> what failed, in words."""
    failures: dict[tuple[str, str], list[str]] = {}
    for row in checks[checks["passed"].eq(False)].itertuples():
        ends = "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]"
        words = f"{row.what} is {row.value:.2f}{ends}, needed {row.needed}"
        failures.setdefault((row.check, row.label), []).append(words)
    return {place: "; ".join(words) for place, words in failures.items()}


def _check_lengths(above: pd.Series) -> Check:
    """Whether the share of documents above the structural teacher's limit is the published one."""
    share, ends = float(above.mean()), (ABOVE_LIMIT - LENGTHS, ABOVE_LIMIT + LENGTHS)
    what, needed = "share of documents above the limit", "{:.2f} to {:.2f}".format(*ends)
    passed = abs(share - ABOVE_LIMIT) <= LENGTHS
    return Check("texts_above_limit", "", what, share, needed=needed, passed=passed)


def _find_encoders(scores: Mapping[str, pd.DataFrame], readout: str) -> pd.DataFrame:
    """Records by a readout of the figure of Chapter 4 with SBERT and most `_ENCODERS`, if any."""
    most = pd.DataFrame({"model": []})
    for label, frame in scores.items():
        if label.startswith("fig4_"):
            frame = frame[frame["readout"] == readout]
            shown, best = ({*_ENCODERS} & {*each["model"]} for each in (frame, most))
            most = frame if "SBERT" in shown and len(shown) > len(best) else most
    return most


def _check_words(reach: pd.DataFrame) -> Check:
    """Whether a Paragraph Vector has read enough to be ranked against encoders.

    An encoder was pre-trained on other texts. If the Paragraph Vector is below SBERT only because
    the corpus is small, its rank tells us about the corpus. The readout by which it needs the
    fewest words decides.
    """
    row = reach.loc[reach["times"].idxmin()]
    what = f"words for SBERT's level, as a multiple of the corpus, by {row['readout']}"
    needed, passed = f"at most {WORDS}", bool(row["times"] <= WORDS)
    return Check(HAS_READ, "", what, *row[["times", "low", "high"]], needed, passed)


def _check_base(measured: Mapping[str, float], layers: Mapping[str, float]) -> Iterator[Check]:
    """Whether the base is a language model whose layers no longer know how to compare texts.

    A raw language model embeds all texts alike, and unlike the teacher. The limits are the values
    of the same `layers` before they learned to guess words.
    """
    if base.LOSS not in measured:  # in this profile the base is a slice of the teacher
        for name in (base.ALIKE, base.NEAR):
            yield Check("base_is_language_model", "", f"{name}, of the base", measured[name])
        return
    share = measured[base.LOSS] / measured[base.BY_FREQUENCY]
    rows = [(f"{base.LOSS}, share of the {base.BY_FREQUENCY}", share, "below", GUESSED)]
    for name, side in ((base.ALIKE, "above"), (base.NEAR, "below")):
        rows.append((f"{name}, of the base", measured[name], side, layers[name]))
    for what, value, side, limit in rows:
        passed = value > limit if side == "above" else value < limit
        needed = f"{side} {limit:.2f}"
        yield Check("base_is_language_model", "", what, value, needed=needed, passed=passed)


def _check_training(judged: pd.DataFrame) -> Iterator[Check]:
    """Whether students score above the base, and whether longer training would change them.

    Both are measured without a head, because a head may learn more than the student did.
    """
    chosen = judged["right"].eq("base ×0") & judged["left"].str.endswith(" ×1")
    for row in judged[chosen].itertuples():
        what, interval = f"{row.left[:-3]} minus base, no head", (row.difference, row.low, row.high)
        yield Check("base_below_students", "", what, *interval, "low above 0", row.low > 0)
    doubled = judged[judged["left"].str.endswith(" ×2") & judged["right"].str.endswith(" ×1")]
    if len(doubled):
        row = doubled.loc[doubled["difference"].abs().idxmax()]
        what = f"largest change from twice the updates, no head: {row['left'][:-3]}"
        needed, passed = f"value within ±{MARGIN}", abs(row["difference"]) <= MARGIN
        interval = row[["difference", "low", "high"]]
        yield Check("students_converged", "", what, *interval, needed, passed)


def _check_encoders(frame: pd.DataFrame) -> Iterator[Check]:
    """Whether teachers and base are above chance, and whether tasks can be learned from them."""
    if frame.empty:
        return
    for row in above_chance(*_select_scores(frame, _ENCODERS)).itertuples():
        check = "structural_teacher_above_chance"
        if row.model == "Longformer":
            check = "base_above_chance"
        elif row.model in CONTEXTUAL_TEACHERS:
            check = "contextual_teacher_above_chance"
        what = f"{row.model} on all tasks, chance-corrected"
        yield Check(check, "", what, row.score, row.low, row.high, "low above 0", row.low > 0)
    yield from _check_learnable("task_not_at_chance", "", "", frame, _ENCODERS)


def _check_final_scores(scores: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    """Whether every round of Chapter 5 can be learned, because some have few examples.

    Retrieval is checked by MRR alone. MAP varies more from text to text, so a ranking that is
    random by MRR is random by MAP too.
    """
    compared = final_students.PUBLISHED
    if FINAL in scores:
        comparing = scores[FINAL][scores[FINAL]["readout"] == READOUT]
        for name, frame in comparing.groupby("round", sort=False):
            part = f" in round {name}"
            yield from _check_learnable("round_not_at_chance", FINAL, part, frame, compared)
    for label in ("fig5_5", "fig5_6"):
        if label in scores:
            frame = scores[label][scores[label]["metric"] == "MRR"]
            yield from _check_learnable(RANKING, label, " by MRR", frame, compared)


def _select_scores(
    frame: pd.DataFrame, models: Iterable[str]
) -> tuple[dict[str, TaskScores], list[str]]:
    """The scores by task of those `models` that have records, and their names."""
    names = [model for model in models if model in set(frame["model"])]
    return task_scores(frame[frame["model"].isin(names)]), names


def _check_learnable(
    check: str, label: str, part: str, frame: pd.DataFrame, models: Iterable[str]
) -> Iterator[Check]:
    for row in learnable(*_select_scores(frame, models)).itertuples():
        what = f"{row.model} on {row.task}{part}, chance-corrected"
        needed = "low above 0, below .97"
        yield Check(check, label, what, row.score, row.low, row.high, needed, row.passed)


def _check_students(label: str, bench: Bench, claims: Iterable[Claim] = ()) -> Iterator[Check]:
    """What the contextual teacher contributes to a figure's students, and what they learn from it.

    Students of the contextual loss alone are compared with controls, see `_check_control`. A final
    student is compared with the same student without the contextual loss, if there is one.
    """
    if label == FINAL:
        models, bench = final_students.load_models(), final_students.prepare_bench(bench)
    else:
        models = chapter4.list_models(label, bench.profile)
    students = chapter4.select_students(models)
    contextual = [variant for variant in students.values() if variant.contextual]
    both = [name for name, each in students.items() if each.contextual and each.structural]
    first = bench.profile.seeds[0]
    second = next(seed for seed in bench.profile.reference_seeds if seed != first)

    def embed(variant: Variant, seed: int = first) -> np.ndarray:
        return bench.embeddings(variant, seed)["validation"]

    if contextual:  # a filter on variants may leave none
        histories = collect_histories({label: models}, bench).groupby("model", sort=False)
        rises = histories["embedding"].last() - histories["embedding"].first()
    if both:
        yield from _check_shares(label, histories["share"].mean()[both].to_dict(), claims)
        alike = []  # cosines: with and without context; two seeds without
        for variant in map(students.get, both):
            alone = Variant("student", structural=variant.structural)
            if label != FINAL or alone in students.values():
                pairs = embed(variant), embed(alone, second)
                alike.append([cosines(rows, embed(alone)).mean() for rows in pairs])
        value, another = np.median(alike, axis=0)
        lowest, highest = np.min(alike, axis=0)[0], np.max(alike, axis=0)[0]
        what = "cosine with the student without context, median"
        needed, passed = f"below another seed's, {another:.3f}", bool(value < another)
        yield Check("students_differ", label, what, value, lowest, highest, needed, passed)
    if contextual:
        what = "rise of held-out CCA with the contextual teacher, median"
        yield Check("cca_rises", label, what, rises.median(), rises.min(), rises.max())
    if contextual and not both:
        dealt = bench.changed("training", contextual_rows="dealt")
        controls = [dealt.model(variant, first) for variant in contextual]
        dealt.embed(controls, dealt.held_out)
        others = [control.history()["watched"][-1, 1] for control in controls]
        ends = histories["embedding"].last()
        yield from _check_control(label, ends, others, histories["chance"].first())
    if students:
        spreads = {name: mean_cosine(embed(variant)) for name, variant in students.items()}
        worst = max(spreads, key=spreads.__getitem__)
        what = f"cosine of different documents, highest: {worst}"
        ends = min(spreads.values()), spreads[worst]
        needed, passed = f"below {COLLAPSED}", spreads[worst] < COLLAPSED
        yield Check("not_collapsed", label, what, spreads[worst], *ends, needed, passed)


def _check_shares(
    label: str, shares: Mapping[str, float], claims: Iterable[Claim]
) -> Iterator[Check]:
    """Whether the contextual loss has enough gradient, in all students and in a finding's own."""
    named = {label: list(shares)}
    for claim in claims:
        if claim.source == label != FINAL and "treatment_given" in claim.needed:
            sides = claim.sides(list(figure_models.shown(label)))
            named[claim.id] = [name for side in sides for name in side]
    for about, names in named.items():
        values = [share for name, share in shares.items() if name in names]
        if about == label or 0 < len(values) < len(shares):
            value = float(np.median(values))
            what = f"contextual share of the gradient, median of {len(values)}"
            interval, needed = (value, min(values), max(values)), f"at least {SHARE}"
            yield Check("treatment_given", about, what, *interval, needed, value >= SHARE)


def _check_control(
    label: str, ends: Sequence[float], controls: Sequence[float], chance: Sequence[float]
) -> Iterator[Check]:
    """Whether students of the contextual loss alone learn from their teacher.

    The contextual loss has their whole gradient, and it falls with any teacher. So each student has
    a control, trained with the teacher's rows of other documents. In held-out CCA, the students
    must end above their controls, and above documents paired at random. Intervals are Student's t
    over students, at 99%; a single student has none.
    """
    twins, pairs = "twins taught with other documents' rows", "documents paired at random"
    for name, others in ((twins, controls), (pairs, chance)):
        mean, low, high = paired(ends, others, CONFIDENCE)
        what = f"held-out CCA above that of {name}, mean of {len(ends)}"
        yield Check("treatment_given", label, what, mean, low, high, "low above 0", low > 0)
