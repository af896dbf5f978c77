"""Whether a student of one's own documents is any good: beside what is there without it, on other texts."""

from functools import partial

import pandas as pd

from lib import experiments, tasks
from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import runs
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED

THAN = {
    HOLDS: "better than",
    REVERSED: "worse than",
    EQUIVALENT: "as good as",
    OPEN: "not distinguishable from",
}
MODELS = {
    "Longformer": "base",
    "SBERT": "teacher, cut",
    "SBERT, mean of chunks": "teacher, chunks",
    "TF-IDF": "TF-IDF",
}
LINES = (
    "base_student(profile).encode(texts)",
    "teacher.encode(texts)",
    "mean_of_chunks(teacher, texts)",
)
CODE = dict(
    zip(MODELS.values(), (*LINES, "tfidf(texts, texts)"), strict=True)
)  # docs/own_documents.md has the imports
FEW = 20  # examples; fewer say little
VARIES = 1e-9  # the width of an interval, at least: rounding is no variance


def compare(
    student, variant: Variant, seed: int, profile: Profile
) -> tuple[pd.DataFrame, list[str]]:
    """A row for each measure and each of base, teacher, mean of the teacher's chunks, TF-IDF and student; and a line
    for each task that could not be judged, which is the `ValueError` where none could.

    Measures: without labels, how well the halves of held-out documents find each other; on the test texts of a
    classification the accuracy, of a retrieval MAP and MRR. Columns: measure, examples (documents, test examples,
    queries), model, value, low, high, guessing (what that scores), against_base, against_low, against_high, than_base,
    than_student. Intervals (95 %) are about other texts, not about other seeds; NaN where nothing varies.
    """
    tables, failed, given = (
        [],
        [],
        {"models": [*MODELS, variant], "profile": profile, "seeds": [seed]},
    )
    judges = {"halves of documents": lambda tasks: runs.halves(student, variant, profile)}
    judges |= dict.fromkeys(
        tasks.classification_names(profile), partial(experiments.run, split="test", **given)
    )
    judges |= dict.fromkeys(tasks.retrieval_names(profile), partial(experiments.retrieve, **given))
    for task, judge in judges.items():
        try:
            tables += [
                _measured(*group)
                for group in judge(tasks=[task]).groupby(["task", "metric"], sort=False)
            ]
        except Exception as error:  # costs this task's rows, not the others'
            failed.append(
                " ".join(
                    f"{task} could not be judged: {str(error) or type(error).__name__}".split()
                )
            )
    if not tables:
        raise ValueError("; ".join(failed))
    return pd.concat(tables, ignore_index=True), failed


def told(table: pd.DataFrame, failed: list[str]) -> tuple[pd.DataFrame, list[str]]:
    """The table as people read it, and sentences on the student, the last row of each measure, with advice: of what is
    better than the base on a measure and worse on none, measures aside on which all guess, the best mean (the student,
    if the best is nowhere better than that); else the base."""
    value = table.agg("{0[value]:.3f} [{0[low]:.3f}, {0[high]:.3f}]".format, axis=1)
    against = table.agg(
        "{0[against_base]:+.3f} [{0[against_low]:+.3f}, {0[against_high]:+.3f}]".format, axis=1
    )
    value, against = (
        cells.str.replace(r" \[\+?nan, \+?nan\]", "", regex=True) for cells in (value, against)
    )
    against = against.mask(table["model"] == MODELS["Longformer"], "")
    guessing = (
        (table["low"].fillna(table["value"]) <= table["guessing"])
        .groupby(table["measure"])
        .transform("all")
    )
    lines = ["One seed: the intervals are about other texts, not about other seeds.", *failed]
    for measure, rows in table[guessing].groupby("measure", sort=False):
        lines.append(f"{measure}: no model is above guessing ({rows['guessing'].iloc[0]:.2f})")
    for measure, rows in table[~guessing].groupby("measure", sort=False):
        few = (
            f"; fewer than {FEW} examples ({n}) say little"
            if (n := rows["examples"].iloc[0]) < FEW
            else ""
        )
        lines.append(
            f"{measure}: the student is {rows['than_base'].iloc[-1]} the base, its start{few}"
        )
        if len(
            better := rows[rows["than_student"] == THAN[HOLDS]].sort_values(
                "value", ascending=False
            )
        ):
            names = " and ".join(better["model"] + better["value"].map(" ({:.3f})".format))
            lines.append(f"{measure}: better than the student: {names}")
    columns, student = (
        {"value": "mean", "than_base": set, "than_student": set},
        table["model"].iloc[-1],
    )
    models = table[~guessing].groupby("model").agg(columns).sort_values("value")
    ahead = [
        name
        for name, than in models["than_base"].items()
        if THAN[HOLDS] in than and THAN[REVERSED] not in than
    ]
    best = ahead[-1] if ahead else MODELS["Longformer"]
    best = (
        student if student in ahead and THAN[HOLDS] not in models.at[best, "than_student"] else best
    )
    others = ", or train with another loss, or fewer texts (training.documents)" * (best != student)
    lines.append(
        f"Over all measures: take {best}, {CODE.get(best, 'Student.load(out).encode(texts)')}{others}"
    )
    return table[["measure", "examples", "model"]].assign(value=value, against_base=against), lines


def _measured(names: tuple[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure, with intervals."""
    tasks, models = task_scores(rows.assign(chance=0.0, seed=0)), [*rows["model"]]
    table = verdicts.above_chance(tasks, models).rename(columns={"score": "value"})
    evidence = from_examples(tasks, given=models)
    against, ours = (
        verdicts.compare([(name, than) for name in models], evidence)
        for than in (models[0], models[-1])
    )
    for name, judged in (("than_base", against), ("than_student", ours)):
        table[name] = (
            judged["verdict"].where(judged["high"] - judged["low"] > VARIES, OPEN).map(THAN)
        )
    table[["against_base", "against_low", "against_high"]] = against[["difference", "low", "high"]]
    for least, *bounds in ((0, "low", "high"), (-1, "against_low", "against_high")):
        table.loc[~(table[bounds[1]] - table[bounds[0]] > VARIES), bounds] = None
        table[bounds] = table[bounds].clip(least, 1)
    table = table.replace({"model": MODELS | {models[-1]: f"student ({models[-1]})"}}).assign(
        measure=" ".join(names)
    )
    counts = rows.get("queries", rows["scores"].map(len)).to_numpy()
    return table.assign(examples=counts, guessing=rows["chance"].to_numpy()).drop(columns="passed")
