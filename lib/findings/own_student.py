"""Whether a student of one's own documents is any good: beside what is there without it, on other texts."""

import pandas as pd

from lib import experiments, tasks
from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import runs
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores
from lib.statistics.verdicts import EQUIVALENT, HOLDS, OPEN, REVERSED

THAN_BASE = {HOLDS: "better than", REVERSED: "worse than", EQUIVALENT: "as good as", OPEN: "not distinguishable from"}
MODELS = {"Longformer": "base", "SBERT": "teacher, cut", "SBERT, mean of chunks": "teacher, chunks", "TF-IDF": "TF-IDF"}


def compare(student, variant: Variant, seed: int, profile: Profile) -> pd.DataFrame:
    """A row for each measure and each of base, teacher, mean of the teacher's chunks, TF-IDF and student.

    Measures: without labels, how well the halves of held-out documents find each other; on the test texts of a
    classification the accuracy, of a retrieval MAP and MRR. Columns: measure, examples, model, value, low, high,
    against_base, against_low, against_high, than_base. Intervals (95 %) are about other texts, not about other seeds.
    """
    frames, names = [runs.halves(student, variant, profile)], [*MODELS, variant]
    if tasks.classification_names(profile):
        frames.append(experiments.run(names, profile=profile, seeds=[seed], split="test"))
    if tasks.retrieval_names(profile):
        frames.append(experiments.retrieve(names, profile=profile, seeds=[seed]))
    rows = pd.concat(frames, ignore_index=True).assign(chance=0.0, seed=seed)
    return pd.concat([_measured(*each) for each in rows.groupby(["task", "metric"], sort=False)], ignore_index=True)


def told(table: pd.DataFrame) -> str:
    """The table as text, then a sentence for each measure on the student, whose rows are the last ones."""
    rows = table.groupby("measure", sort=False).tail(1)
    lines = [f"{row.measure}: the student is {row.than_base} the base, its start" for row in rows.itertuples()]
    if THAN_BASE[REVERSED] in {*rows["than_base"]}:
        lines.append("Try another loss, or fewer documents: --set training.documents=...")
    value = table.agg("{0[value]:.3f} [{0[low]:.3f}, {0[high]:.3f}]".format, axis=1)
    against = table.agg("{0[against_base]:+.3f} [{0[against_low]:+.3f}, {0[against_high]:+.3f}]".format, axis=1)
    cells = table[["measure", "examples", "model"]].assign(value=value, against_base=against)
    return "\n".join([cells.to_string(index=False), *lines])


def _measured(names: tuple[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure, with intervals."""
    tasks, models = task_scores(rows), [*rows["model"]]
    table = verdicts.above_chance(tasks, models).head(len(models)).rename(columns={"score": "value"})
    against = verdicts.compare([(model, models[0]) for model in models], from_examples(tasks, given=models))
    table["than_base"] = against["verdict"].map(THAN_BASE)
    table[["against_base", "against_low", "against_high"]] = against[["difference", "low", "high"]]
    for value, bounds in (("value", ["low", "high"]), ("against_base", ["against_low", "against_high"])):
        table = table.fillna(dict.fromkeys(bounds, table[value]))  # what has no variance has no interval
    table = table.assign(low=table["low"].clip(0), high=table["high"].clip(upper=1)).replace({"model": MODELS})
    return table.assign(measure=" ".join(names), examples=len(rows["scores"].iloc[0])).drop(columns=["task", "passed"])
