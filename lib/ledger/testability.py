"""Whether our numbers can speak to a finding: was the treatment given, and can the measure see it?

A finding that needs a failed check is "not testable here". A change of a limit is a new version of
the rules, see `lib.statistics.verdicts.RULES`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lib.chapters import base, chapter4, data_statistics, final_students, sensitivity
from lib.chapters.contextual import COLLAPSED, mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.experiments.bench import Bench
from lib.ledger.claim_kinds import RANKING, Claim
from lib.published import figure_models
from lib.statistics.effects import Comparison
from lib.statistics.intervals import TaskScores, from_runs, paired, task_scores
from lib.statistics.verdicts import MARGIN, Judgement, above_chance, judge, learnable

# Share of the gradient. With less from the contextual teacher, nine tenths of a step go where the
# other teacher points.
SHARE = 0.1
# Heads of a model in the check of heads, at least: the luck of one moves a mean over tasks by .01.
HEADS = 10
CONFIDENCE = 0.99  # of the control's interval, because sixteen pairs were its second look
UPDATES = 50  # of the final students, at least
GUESSED = 0.85  # of the loss of guessing words by their frequency; a language model is below
ABOVE_LIMIT = 0.71  # the published share of documents above the structural teacher's limit
LENGTHS = 0.05  # distance from that share
FINAL = "fig5_3"  # the figure of the final students
_ENCODERS = ("SBERT", "Longformer", *CONTEXTUAL_TEACHERS)


class Check(NamedTuple):
    """One check.

    Attributes
    ----------
    check, label
        Its name, and the figure or finding that it is about, empty for all.
    what, value, low, high
        What was measured, and its 95% interval or range over models.
    needed
        The limit in words.
    passed
        None where the row only informs.
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
    """What can be checked on these scores, a row for each `Check`.

    Heads are trained, and students whose teacher's rows belong to other documents.

    Parameters
    ----------
    scores
        Figure -> records, as of `claims.collect_scores`.
    informing
        Add rows for which all texts of all tasks are read, and the students of Figure A.4.
    """
    drawn = {label: frame for label, frame in scores.items() if label.startswith("fig4_")}
    rows = [*_check_lengths(bench, informing), *_check_updates(bench), *_check_base(bench)]
    if judged := [frame for frame in drawn.values() if "SBERT" in {*frame["model"]}]:
        rows += _check_encoders(
            max(judged, key=lambda frame: len({*_ENCODERS} & {*frame["model"]}))
        )
    rows += _check_final_scores(scores)
    if informing and "fig4_3" in drawn:
        rows += _check_training(bench)
    if "fig4_2" in drawn:
        models = drawn["fig4_2"]["model"].unique()
        rows += _check_heads({model: [model] for model in models}, "", bench)
    if "fig4_5" in drawn:
        rows += _check_heads(_group_by_size(drawn["fig4_5"]["model"].unique()), "fig4_5", bench)
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


def _check_lengths(bench: Bench, informing: bool) -> Iterator[Check]:
    limit = bench.profile.structural_teacher.max_tokens
    lengths = data_statistics.count_corpus_tokens(bench)["sbert_tokens"]
    share = float((lengths > limit).mean())
    yield Check(
        "texts_above_limit",
        "",
        "share of documents above the limit",
        share,
        needed=f"{ABOVE_LIMIT - LENGTHS:.2f} to {ABOVE_LIMIT + LENGTHS:.2f}",
        passed=abs(share - ABOVE_LIMIT) <= LENGTHS,
    )
    if informing:
        counted = data_statistics.count_task_tokens(bench)
        for task, texts in counted.groupby("task", sort=False):
            share = float((texts["sbert_tokens"] > limit).mean())
            what = f"share of {task}'s texts above the limit"
            yield Check("texts_above_limit", "", what, share)


def _check_updates(bench: Bench) -> Iterator[Check]:
    trained = bench.profile.training, final_students.prepare_bench(bench).profile.training
    first, final = (section.updates for section in trained)
    yield Check("updates", "", "updates of a student of Chapter 4", first)
    needed = max(UPDATES, first + 1)
    what = "updates of a final student"
    yield Check("updates", "", what, final, needed=f"{needed}", passed=final >= needed)


def _check_base(bench: Bench) -> Iterator[Check]:
    """Whether the base is a language model, and has lost what its layers knew of comparing texts.

    A raw language model finds all texts alike, and its embeddings are not those of the teacher.
    Limits are what the layers gave before they learned to guess words.
    """
    measured = base.measure_base(bench)
    if base.LOSS not in measured:  # a slice of the teacher, as the profile wants it
        for name in (base.ALIKE, base.NEAR):
            yield Check("base_is_language_model", "", f"{name}, of the base", measured[name])
        return
    layers = base.measure_base(bench.changed("student", language_model=None))
    share = measured[base.LOSS] / measured[base.BY_FREQUENCY]
    alike, near = layers[base.ALIKE], layers[base.NEAR]
    rows = (
        (f"{base.LOSS}, share of the {base.BY_FREQUENCY}", share, "below", GUESSED),
        (f"{base.ALIKE}, of the base", measured[base.ALIKE], "above", alike),
        (f"{base.NEAR}, of the base", measured[base.NEAR], "below", near),
    )
    for what, value, side, limit in rows:
        passed = value > limit if side == "above" else value < limit
        needed = f"{side} {limit:.2f}"
        yield Check("base_is_language_model", "", what, value, needed=needed, passed=passed)


def _check_training(bench: Bench) -> Iterator[Check]:
    """Whether students have left the base, and whether longer training would change them.

    Both are asked without a head, because a head may learn more than a student did.
    """
    records = sensitivity.run_lengths(bench)
    judged = sensitivity.judge_lengths(records, sensitivity.NO_HEAD)
    chosen = judged["right"].eq("base ×0") & judged["left"].str.endswith(" ×1")
    for row in judged[chosen].itertuples():
        what, interval = f"{row.left[:-3]} minus base, no head", (row.difference, row.low, row.high)
        passed = row.low > 0
        yield Check("base_below_students", "", what, *interval, needed="low above 0", passed=passed)
    doubled = judged[judged["left"].str.endswith(" ×2") & judged["right"].str.endswith(" ×1")]
    if len(doubled):
        row = doubled.loc[doubled["difference"].abs().idxmax()]
        what = f"what twice the updates change, no head, most of all: {row['left'][:-3]}"
        interval, needed = (row["difference"], row["low"], row["high"]), f"value within ±{MARGIN}"
        passed = abs(row["difference"]) <= MARGIN
        yield Check("students_converged", "", what, *interval, needed=needed, passed=passed)


def _check_encoders(frame: pd.DataFrame) -> Iterator[Check]:
    """Whether teachers and base are above chance, and tasks can be learned from them."""
    tasks, encoders = _select_scores(frame, _ENCODERS)
    for row in above_chance(tasks, encoders).itertuples():
        check = "structural_teacher_above_chance"
        if row.model == "Longformer":
            check = "base_above_chance"
        elif row.model in CONTEXTUAL_TEACHERS:
            check = "contextual_teacher_above_chance"
        what = f"{row.model} on all tasks, chance-corrected"
        interval = row.score, row.low, row.high
        yield Check(check, "", what, *interval, needed="low above 0", passed=row.low > 0)
    yield from _check_learnable("task_not_at_chance", "", "", frame, _ENCODERS)


def _check_final_scores(scores: Mapping[str, pd.DataFrame]) -> Iterator[Check]:
    """Whether every round of Chapter 5, where heads may have too few examples, can be learned.

    The same of retrieval, by MRR: a ranking that is random by MRR is random by MAP too, which
    scatters more from text to text.
    """
    compared = final_students.PUBLISHED
    if FINAL in scores:
        for name, frame in scores[FINAL].groupby("round", sort=False):
            part = f" in round {name}"
            yield from _check_learnable("round_not_at_chance", FINAL, part, frame, compared)
    for label in ("fig5_5", "fig5_6"):
        if label in scores:
            frame = scores[label][scores[label]["metric"] == "MRR"]
            yield from _check_learnable(RANKING, label, " by MRR", frame, compared)


def _select_scores(
    frame: pd.DataFrame, models: Iterable[str]
) -> tuple[dict[str, TaskScores], list[str]]:
    """The scores of those models that the records have, by task, and their names."""
    names = [model for model in models if model in set(frame["model"])]
    return task_scores(frame[frame["model"].isin(names)]), names


def _check_learnable(
    check: str, label: str, part: str, frame: pd.DataFrame, models: Iterable[str]
) -> Iterator[Check]:
    for row in learnable(*_select_scores(frame, models)).itertuples():
        what = f"{row.model} on {row.task}{part}, chance-corrected"
        interval, needed = (row.score, row.low, row.high), "low above 0, below .97"
        yield Check(check, label, what, *interval, needed=needed, passed=row.passed)


def _group_by_size(models: Iterable[str]) -> dict[str, list[str]]:
    """The smallest and the largest single Paragraph Vectors.

    Findings compare these two; other sizes lie between.
    """
    groups: dict[str, list[str]] = {}
    for model in models:
        parts = (parse(model).contextual or "").split(";")
        if len(parts) == 4 and parts[1] in ("100", "1024"):
            groups.setdefault(f"single models of {parts[1]} dimensions", []).append(model)
    return groups


def _check_heads(groups: Mapping[str, Sequence[str]], label: str, bench: Bench) -> list[Check]:
    """Whether heads have converged: do scores move when the same heads train twice as long?

    They have if a move of MARGIN can be excluded for each group's mean score on these texts. Where
    groups are single models, heads are the sample; if ten leave it open, twice as many decide.
    Otherwise models are the sample, with the profile's heads, because findings are about groups.

    groups: name -> models.
    """
    settings = bench.profile.heads
    if not groups or settings.classifier != "head":
        return []
    single = all(len(models) == 1 for models in groups.values())
    check = None
    for repeats in (HEADS, 2 * HEADS) if single else (settings.repeats,):
        worst, move = _find_largest_move(groups, single, repeats, bench)
        what = f"what twice the epochs change in a chance-corrected accuracy, most of all: {worst}"
        passed = move.low > -MARGIN and move.high < MARGIN
        interval, needed = (move.effect, move.low, move.high), f"within ±{MARGIN}"
        check = Check("heads_converged", label, what, *interval, needed=needed, passed=passed)
        if passed or abs(move.effect) >= MARGIN:
            break
    return [check] if check else []


def _find_largest_move(
    groups: Mapping[str, Sequence[str]], single: bool, repeats: int, bench: Bench
) -> tuple[str, Judgement]:
    """The group that twice the epochs may have moved most, and by how much."""
    group_of = {model: name for name, models in groups.items() for model in models}
    models = list(group_of)
    longer, usual = (_score_heads(models, factor, repeats, bench) for factor in (2, 1))
    moved = longer - usual
    moved = moved.rename_axis(columns="seed").stack() if single else moved.mean(axis=1)
    runs = moved.unstack("task").reset_index()
    runs = runs.assign(seed=runs.get("seed", runs["model"]), model=runs["model"].map(group_of))
    evidence = from_runs(runs.set_index(["model", "seed"]))
    judged = {name: judge([[Comparison({name: 1.0}, {}, name, "")]], evidence) for name in groups}
    return max(judged.items(), key=lambda item: max(-item[1].low, item[1].high))


def _score_heads(models: list[str], factor: int, repeats: int, bench: Bench) -> pd.DataFrame:
    """(model, task) x head: chance-corrected accuracy of heads trained `factor` times as long."""
    settings = bench.profile.heads
    changed = bench.changed(
        "heads",
        repeats=repeats,
        epochs=factor * settings.epochs,
        narrow_epochs=factor * settings.narrow_epochs,
    )
    records = changed.run(models, seeds=bench.profile.seeds[:1]).set_index(["model", "task"])
    values = [np.reshape(folds, (repeats, -1)).mean(1) for folds in records["by_head"]]
    return pd.DataFrame(np.stack(values), records.index).div(1 - records["chance"], axis=0)


def _check_students(label: str, bench: Bench, claims: Iterable[Claim] = ()) -> Iterator[Check]:
    """What a contextual teacher gave to a figure's students, and what they made of it.

    Students of the contextual loss alone are compared with controls, see `_check_control`. A final
    student is compared with the student that is the same without context, where there is one.
    """
    if label == FINAL:
        students = chapter4.select_students(final_students.load_models())
        bench, split = final_students.prepare_bench(bench), "test"
    else:
        students, split = chapter4.select_students(chapter4.list_models(label, bench)), "validation"
    first = bench.profile.seeds[0]
    second = next(seed for seed in bench.profile.reference_seeds if seed != first)
    shares: dict[str, float] = {}
    spreads: dict[str, float] = {}
    rises: list[float] = []
    alike: list[tuple[float, float]] = []  # cosine with the one without context; of its two seeds
    for name, variant in students.items():
        arrays = bench.embeddings(variant, first, split=split)
        spreads[name] = mean_cosine(arrays["validation"])
        if variant.contextual:
            rises.append(arrays["watched"][-1, 1] - arrays["watched"][0, 1])
        if variant.contextual and variant.structural:
            shares[name] = float(arrays["watched"][:, 3].mean())
            alone = Variant("student", structural=variant.structural)
            if label != FINAL or alone in students.values():
                without = bench.embeddings(alone, first, split=split)["validation"]
                again = bench.embeddings(alone, second, split=split)["validation"]
                own = cosines(arrays["validation"], without).mean()
                alike.append((own, cosines(again, without).mean()))
    if shares:
        yield from _check_shares(label, shares, claims)
        value, another = np.median(alike, axis=0).tolist()
        yield Check(
            "students_differ",
            label,
            "cosine with the student without context, median",
            value,
            min(alike)[0],
            max(alike)[0],
            needed=f"below another seed's, {another:.3f}",
            passed=value < another,
        )
    if rises:
        what = "rise of held-out CCA with the contextual teacher, median"
        yield Check("cca_rises", label, what, float(np.median(rises)), min(rises), max(rises))
        if not shares:
            yield from _check_control(label, students.values(), bench)
    if spreads:  # a filter on variants may leave no student
        worst = max(spreads, key=spreads.__getitem__)
        yield Check(
            "not_collapsed",
            label,
            f"cosine of different documents, highest: {worst}",
            spreads[worst],
            min(spreads.values()),
            spreads[worst],
            needed=f"below {COLLAPSED}",
            passed=spreads[worst] < COLLAPSED,
        )


def _check_shares(
    label: str, shares: Mapping[str, float], claims: Iterable[Claim]
) -> Iterator[Check]:
    """Whether the contextual loss has its share of the gradient.

    In the figure's students, and in those that a finding about some of them names.
    """
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
            passed = value >= SHARE
            yield Check("treatment_given", about, what, *interval, needed=needed, passed=passed)


def _check_control(label: str, students: Iterable[Variant], bench: Bench) -> Iterator[Check]:
    """Whether students of the contextual loss alone learn from their teacher.

    The whole gradient is the contextual loss', and this loss falls with any teacher. So each
    student has a control, trained with the teacher's rows of other documents. In held-out CCA the
    students have to end above their controls, and above documents paired at random. Intervals are
    Student's t over students, at 99%; one student has none.
    """
    chosen = [variant for variant in students if variant.contextual]
    seed = bench.profile.seeds[0]
    dealt = bench.changed("training", contextual_rows="dealt")
    dealt.embed([(variant, seed) for variant in chosen], split=None)
    ends, controls, chance = [], [], []
    for variant in chosen:
        student = bench.embeddings(variant, seed)
        control = dealt.embeddings(variant, seed, split=None)
        teacher = bench.contextual_rows(variant, "validation")[:]
        ends.append(student["watched"][-1, 1])
        controls.append(control["watched"][-1, 1])
        chance.append(chance_cca(student["validation"], teacher))
    compared = {
        "twins taught with other documents' rows": controls,
        "documents paired at random": chance,
    }
    for name, others in compared.items():
        mean, low, high = paired(ends, others, CONFIDENCE)
        what = f"held-out CCA above that of {name}, mean of {len(chosen)}"
        interval, needed = (mean, low, high), "low above 0"
        yield Check("treatment_given", label, what, *interval, needed=needed, passed=low > 0)
