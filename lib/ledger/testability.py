"""Whether our numbers can speak to a finding at all: was the treatment given, and can the measure see it?

A finding that needs a failed check is "not testable here". Which limits were set before figures had been seen and which
later: params/mini_sizes.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

from lib import experiments
from lib.chapters import chapter4, data_statistics, final_students
from lib.chapters.contextual import COLLAPSED, mean_cosine
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import Profile
from lib.distillation.held_out_cca import chance_cca
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.experiments import embeddings, keys, runs
from lib.experiments.student_training import contextual_rows
from lib.ledger.claim_kinds import RANKING, Claim
from lib.published import figure_models
from lib.statistics.effects import Comparison
from lib.statistics.intervals import TaskScores, from_runs, paired, task_scores
from lib.statistics.verdicts import MARGIN, above_chance, judge, learnable

SHARE = 0.1  # of the gradient: with less from the contextual teacher, nine tenths of a step go where the other points
HEADS = 10  # a model in the check of heads, at least: the luck of a single one moves a mean over tasks by .01
CONFIDENCE = 0.99  # of the control's interval, as sixteen pairs were its second look
UPDATES = 50  # of the final students, at least
LENGTHS = 0.05  # distance from the published 71 % of documents above the structural teacher's limit
FINAL = "fig5_3"  # the figure of the final students
_ENCODERS = ("SBERT", "Longformer", *CONTEXTUAL_TEACHERS)


def table(
    scores: Mapping[str, pd.DataFrame],
    profile: Profile,
    findings: Sequence[Claim],
    *,
    informing: bool = False,
) -> pd.DataFrame:
    """What could be checked in `claims.our_results`, a row each; trained are heads and `_control`'s twins. label: the
    figure or finding that a check is about, empty for all. low, high: 95 % interval, or the range over models. passed:
    None where a row only informs. informing: also rows for which all texts of all tasks are read."""
    drawn = {label: frame for label, frame in scores.items() if label.startswith("fig4_")}
    rows = [*_lengths(profile, informing), *_updates(profile)]
    if judged := [frame for frame in drawn.values() if "SBERT" in {*frame["model"]}]:
        rows += _above_chance(max(judged, key=lambda frame: len({*_ENCODERS} & {*frame["model"]})))
    rows += _final(scores)
    if "fig4_2" in drawn:
        rows += _heads({model: [model] for model in drawn["fig4_2"]["model"].unique()}, "", profile)
    if "fig4_5" in drawn:
        rows += _heads(_by_size(drawn["fig4_5"]["model"].unique()), "fig4_5", profile)
    with keys.data_at_rest():
        for label in (*figure_models.PROJECTIONS, *figure_models.WEIGHTINGS, "fig4_12", FINAL):
            rows += _students(label, profile, findings) if label in scores else ()
    return pd.DataFrame(
        rows, columns=["check", "label", "what", "value", "low", "high", "needed", "passed"]
    )


def results(checked: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(check, label) of each that failed -> what failed, in words."""
    failed = checked[checked["passed"].eq(False)]
    rows = [
        (row, "" if pd.isna(row.low) else f" [{row.low:.2f}, {row.high:.2f}]")
        for row in failed.itertuples()
    ]
    words = [f"{row.what} is {row.value:.2f}{ends}, needed {row.needed}" for row, ends in rows]
    return failed.assign(words=words).groupby(["check", "label"])["words"].agg("; ".join).to_dict()


def _lengths(profile: Profile, informing: bool) -> Iterator[tuple]:
    limit = profile.structural_teacher.max_tokens
    share = float((data_statistics.corpus_lengths(profile)["sbert_tokens"] > limit).mean())
    needed, passed = f"{0.71 - LENGTHS:.2f} to {0.71 + LENGTHS:.2f}", abs(share - 0.71) <= LENGTHS
    yield (
        "texts_above_limit",
        "",
        "share of documents above the limit",
        share,
        None,
        None,
        needed,
        passed,
    )
    for task, texts in (
        data_statistics.task_lengths(profile).groupby("task", sort=False) if informing else ()
    ):
        above = float((texts["sbert_tokens"] > limit).mean())
        yield (
            "texts_above_limit",
            "",
            f"share of {task}'s texts above the limit",
            above,
            None,
            None,
            "",
            None,
        )


def _updates(profile: Profile) -> Iterator[tuple]:
    final = final_students.final_profile(profile).training
    counts = [s.documents // (s.batch_size * s.accumulation) for s in (profile.training, final)]
    yield "updates", "", "updates of a student of Chapter 4", counts[0], None, None, "", None
    needed = max(UPDATES, counts[0] + 1)
    yield (
        "updates",
        "",
        "updates of a final student",
        counts[1],
        None,
        None,
        f"{needed}",
        counts[1] >= needed,
    )


def _above_chance(frame: pd.DataFrame) -> Iterator[tuple]:
    tasks, encoders = _scores(frame, _ENCODERS)
    for row in above_chance(tasks, encoders).itertuples():
        name = "contextual" if row.model in CONTEXTUAL_TEACHERS else "structural"
        check = "base" if row.model == "Longformer" else f"{name}_teacher"
        what = f"{row.model} on all tasks, chance-corrected"
        yield (
            f"{check}_above_chance",
            "",
            what,
            row.score,
            row.low,
            row.high,
            "low above 0",
            row.low > 0,
        )
    yield from _learnable("task_not_at_chance", "", "", frame, _ENCODERS)


def _final(scores: Mapping[str, pd.DataFrame]) -> Iterator[tuple]:
    """The same of every round of Chapter 5, where heads may have too few examples, and of retrieval."""
    for label, part in {"fig5_3": "round", "fig5_5": "metric", "fig5_6": "metric"}.items():
        words = "in round" if part == "round" else "by"
        for name, frame in scores[label].groupby(part, sort=False) if label in scores else ():
            if (
                name != "MAP"
            ):  # a ranking that is random by MRR is random by MAP, which scatters more from text to text
                check = "round_not_at_chance" if part == "round" else RANKING
                yield from _learnable(
                    check, label, f" {words} {name}", frame, final_students.PUBLISHED
                )


def _scores(frame: pd.DataFrame, models: Iterable[str]) -> tuple[dict[str, TaskScores], list[str]]:
    """By task, and which of the models they are of."""
    names = [model for model in models if model in set(frame["model"])]
    return task_scores(frame[frame["model"].isin(names)]), names


def _learnable(
    check: str, label: str, part: str, frame: pd.DataFrame, models: Iterable[str]
) -> Iterator[tuple]:
    for row in learnable(*_scores(frame, models)).itertuples():
        what = f"{row.model} on {row.task}{part}, chance-corrected"
        yield check, label, what, row.score, row.low, row.high, "low above 0, below .97", row.passed


def _by_size(models: Iterable[str]) -> dict[str, list[str]]:
    """The smallest and the largest single Paragraph Vectors: findings compare them, and other sizes lie between."""
    groups: dict[str, list[str]] = {}
    for model in models:
        parts = (parse(model).contextual or "").split(";")
        if len(parts) == 4 and parts[1] in ("100", "1024"):
            groups.setdefault(f"single models of {parts[1]} dimensions", []).append(model)
    return groups


def _heads(groups: Mapping[str, Sequence[str]], label: str, profile: Profile) -> list[tuple]:
    """How far the groups' mean scores on these texts move when the same heads train twice as long. They have converged
    if a move of MARGIN can be excluded for each group. Where groups are single models, heads are the sample; if ten
    leave it open, twice as many decide. Otherwise models are, with the profile's heads: findings are of such groups."""
    settings, single = profile.heads, all(len(models) == 1 for models in groups.values())
    group_of = {model: name for name, models in groups.items() for model in models}

    def by_head(factor: int, repeats: int) -> pd.DataFrame:
        longer = {
            "epochs": factor * settings.epochs,
            "narrow_epochs": factor * settings.narrow_epochs,
        }
        own = profile.changed("heads", repeats=repeats, **longer)
        records = experiments.run(group_of, profile=own, seeds=profile.seeds[:1]).set_index(
            ["model", "task"]
        )
        values = np.stack(
            [np.reshape(folds, (repeats, -1)).mean(1) for folds in records["by_head"]]
        )
        return pd.DataFrame(values, records.index).div(1 - records["chance"], axis=0)

    rows: list[tuple] = []
    tried = (HEADS, 2 * HEADS) if single else (settings.repeats,)
    for repeats in tried if groups and settings.classifier == "head" else ():
        moved = by_head(2, repeats) - by_head(1, repeats)
        moved = moved.rename_axis(columns="seed").stack() if single else moved.mean(axis=1)
        runs = moved.unstack("task").reset_index()
        runs = runs.assign(seed=runs.get("seed", runs["model"]), model=runs["model"].map(group_of))
        evidence = from_runs(runs.set_index(["model", "seed"]))
        judged = {
            name: judge([[Comparison({name: 1.0}, {}, name, "")]], evidence) for name in groups
        }
        worst, move = max(judged.items(), key=lambda item: max(-item[1].low, item[1].high))
        what = f"what twice the epochs change in a chance-corrected accuracy, most of all: {worst}"
        passed = -MARGIN < move.low and move.high < MARGIN
        rows = [
            (
                "heads_converged",
                label,
                what,
                move.effect,
                move.low,
                move.high,
                f"within ±{MARGIN}",
                passed,
            )
        ]
        if passed or abs(move.effect) >= MARGIN:
            break
    return rows


def _students(label: str, profile: Profile, findings: Iterable[Claim] = ()) -> Iterator[tuple]:
    """What a figure's students were given by a contextual teacher, and what it made of them; of those of the
    contextual loss alone see `_control`. A final student is compared with its twin without context."""
    shares, rises, alike, spreads, split = {}, [], [], {}, "validation"
    students = chapter4.students(
        final_students.MODELS if label == FINAL else chapter4.models(label, profile)
    )
    if label == FINAL:
        profile, split = final_students.final_profile(profile), "test"
    seeds = [
        profile.seeds[0],
        next(seed for seed in profile.reference_seeds if seed != profile.seeds[0]),
    ]
    for name, variant in students.items():
        arrays = embeddings.of(variant, profile.seeds[0], profile, split)
        spreads[name] = mean_cosine(arrays["validation"])
        if variant.contextual:
            rises.append(arrays["watched"][-1, 1] - arrays["watched"][0, 1])
        if variant.contextual and variant.structural:
            shares[name] = float(arrays["watched"][:, 3].mean())
            alone = Variant("student", structural=variant.structural)
            if label != FINAL or alone in students.values():
                without, again = (
                    embeddings.of(alone, seed, profile, split)["validation"] for seed in seeds
                )
                alike.append(
                    [cosines(rows, without).mean() for rows in (arrays["validation"], again)]
                )
    if shares:
        asked = [
            claim
            for claim in findings
            if claim.source == label != FINAL and "treatment_given" in claim.needed
        ]
        sides = {claim.id: sum(claim.sides([*figure_models.shown(label)]), []) for claim in asked}
        for about, named in {label: [*shares], **sides}.items():
            own = [share for name, share in shares.items() if name in named]
            if about == label or 0 < len(own) < len(shares):  # a finding about some of them
                what, value = (
                    f"contextual share of the gradient, median of {len(own)}",
                    float(np.median(own)),
                )
                yield (
                    "treatment_given",
                    about,
                    what,
                    value,
                    min(own),
                    max(own),
                    f"at least {SHARE}",
                    value >= SHARE,
                )
        what, (value, another) = (
            "cosine with the student without context, median",
            np.median(alike, axis=0).tolist(),
        )
        low, high = min(alike)[0], max(alike)[0]
        yield (
            "students_differ",
            label,
            what,
            value,
            low,
            high,
            f"below another seed's, {another:.3f}",
            value < another,
        )
    if rises:
        what, value = (
            "rise of held-out CCA with the contextual teacher, median",
            float(np.median(rises)),
        )
        yield "cca_rises", label, what, value, min(rises), max(rises), "", None
        if not shares:
            yield from _control(label, students.values(), profile)
    if spreads:  # a filter on variants may leave no student
        worst = max(spreads, key=spreads.__getitem__)
        what, value = f"cosine of different documents, highest: {worst}", spreads[worst]
        yield (
            "not_collapsed",
            label,
            what,
            value,
            min(spreads.values()),
            value,
            f"below {COLLAPSED}",
            value < COLLAPSED,
        )


def _control(label: str, students: Iterable[Variant], profile: Profile) -> Iterator[tuple]:
    """Whether students of the contextual loss alone learn from their teacher. All the gradient is its, and their loss
    falls with any teacher. So each is trained once more with the teacher's rows dealt to other documents, and in
    held-out CCA they have to end above these twins, and above documents paired at random. Intervals are Student's t
    over students, at 99 % (see mini_sizes.md); one student has none."""
    chosen, seed = [variant for variant in students if variant.contextual], profile.seeds[0]
    dealt = profile.changed("training", contextual_rows="dealt")
    runs.embed([(variant, seed) for variant in chosen], dealt, None, split=None)
    ends, twins, chance = [], [], []
    for variant in chosen:
        own, other = (
            embeddings.of(variant, seed, profile),
            embeddings.of(variant, seed, dealt, split=None),
        )
        teacher = contextual_rows(variant, "validation", profile)[:]
        ends.append(own["watched"][-1, 1])
        twins.append(other["watched"][-1, 1])
        chance.append(chance_cca(own["validation"], teacher))
    for others, name in (
        (twins, "twins taught with other documents' rows"),
        (chance, "documents paired at random"),
    ):
        mean, low, high = paired(ends, others, CONFIDENCE)
        what = f"held-out CCA above that of {name}, mean of {len(chosen)}"
        yield "treatment_given", label, what, mean, low, high, "low above 0", low > 0
