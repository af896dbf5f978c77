"""Whether a student of one's own documents is any good: beside what is there without it, on other texts."""

import pandas as pd

from lib import experiments, tasks
from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import runs
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED

THAN = {HOLDS: "better than", REVERSED: "worse than", EQUIVALENT: "as good as", OPEN: "not distinguishable from"}
MODELS = {"Longformer": "base", "SBERT": "teacher, cut", "SBERT, mean of chunks": "teacher, chunks", "TF-IDF": "TF-IDF"}


def compare(student, variant: Variant, seed: int, profile: Profile) -> pd.DataFrame:
    """A row for each measure and each of base, teacher, mean of the teacher's chunks, TF-IDF and student.

    Measures: without labels, how well the halves of held-out documents find each other; on the test texts of a
    classification the accuracy, of a retrieval MAP and MRR. Columns: measure, examples (documents, test examples,
    queries), model, value, low, high, guessing (what that scores), against_base, against_low, against_high, than_base,
    than_student. Intervals (95 %) are about other texts, not about other seeds.
    """
    frames, names = [runs.halves(student, variant, profile)], [*MODELS, variant]
    if tasks.classification_names(profile):
        frames.append(experiments.run(names, profile=profile, seeds=[seed], split="test"))
    if tasks.retrieval_names(profile):
        frames.append(experiments.retrieve(names, profile=profile, seeds=[seed]))
    rows = [frame.assign(examples=frame.get("queries", frame["scores"].map(len)), seed=seed) for frame in frames]
    groups = pd.concat(rows, ignore_index=True).groupby(["task", "metric"], sort=False)
    return pd.concat([_measured(*group) for group in groups], ignore_index=True)


def told(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The table as people read it, and sentences on the student, the last row of each measure, with advice."""
    value = table.agg("{0[value]:.3f} [{0[low]:.3f}, {0[high]:.3f}]".format, axis=1)
    against = table.agg("{0[against_base]:+.3f} [{0[against_low]:+.3f}, {0[against_high]:+.3f}]".format, axis=1)
    against = against.mask(table["model"] == MODELS["Longformer"], "")
    lines = ["One seed: the intervals are about other texts, not about other seeds."]
    for measure, rows in table.groupby("measure", sort=False):
        better = rows[rows["than_student"] == THAN[HOLDS]].sort_values("value", ascending=False)
        lines.append(f"{measure}: the student is {rows['than_base'].iloc[-1]} the base, its start")
        if (rows["low"] <= rows["guessing"]).all():
            lines.append(f"{measure}: no model is above guessing ({rows['guessing'].iloc[0]:.2f})")
        elif len(better):
            names = " and ".join(better["model"] + better["value"].map(" ({:.3f})".format))
            lines.append(f"{measure}: better than the student: {names}; for these texts take {better['model'].iloc[0]}")
    if {*table.groupby("measure")["than_base"].last()} != {THAN[HOLDS]}:
        lines.append("Where it is no better: take the base, or try another loss, or fewer texts (training.documents)")
    return table[["measure", "examples", "model"]].assign(value=value, against_base=against), lines


def _measured(names: tuple[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure, with intervals."""
    tasks, models = task_scores(rows.assign(chance=0.0)), [*rows["model"]]
    table = verdicts.above_chance(tasks, models).rename(columns={"score": "value"})
    evidence = from_examples(tasks, given=models)
    against, ours = (verdicts.compare([(name, than) for name in models], evidence) for than in (models[0], models[-1]))
    table["than_base"], table["than_student"] = against["verdict"].map(THAN), ours["verdict"].map(THAN)
    table[["against_base", "against_low", "against_high"]] = against[["difference", "low", "high"]]
    for value, bounds in (("value", ["low", "high"]), ("against_base", ["against_low", "against_high"])):
        table = table.fillna(dict.fromkeys(bounds, table[value]))  # what has no variance has no interval
    table = table.replace({"model": MODELS | {models[-1]: f"student ({models[-1]})"}}).assign(measure=" ".join(names))
    table["examples"], table["guessing"] = rows["examples"].to_numpy(), rows["chance"].to_numpy()
    return table.assign(low=table["low"].clip(0), high=table["high"].clip(upper=1)).drop(columns="passed")
