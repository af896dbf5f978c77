"""Whether a student of one's own documents is any good: beside what is there without it, on other texts."""

import numpy as np
import pandas as pd
from scipy import stats

from lib import experiments, tasks
from lib.config.schema import Profile
from lib.distillation.variants import Variant
from lib.experiments import runs
from lib.statistics.intervals import from_examples, task_scores

WORSE = "worse than"
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
    lines += ["Try another loss, or fewer documents: --set training.documents=..."] * (WORSE in {*rows["than_base"]})
    value = table.agg("{0[value]:.3f} [{0[low]:.3f}, {0[high]:.3f}]".format, axis=1)
    against = table.agg("{0[against_base]:+.3f} [{0[against_low]:+.3f}, {0[against_high]:+.3f}]".format, axis=1)
    cells = table[["measure", "examples", "model"]].assign(value=value, against_base=against)
    return "\n".join([cells.to_string(index=False), *lines])


def _measured(names: tuple[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a measure, with intervals."""
    evidence = from_examples(task_scores(rows), given=[*rows["model"]])
    sums = np.eye(len(rows))[evidence.means.index.get_indexer(rows["model"])]
    table = rows[["model"]].replace(MODELS).assign(measure=" ".join(names), examples=len(rows["scores"].iloc[0]))
    for name, start, weights in (("value", "", sums), ("against_base", "against_", sums - sums[0])):
        errors, df = evidence.errors(weights)
        value, half = weights @ evidence.scores, np.nan_to_num(stats.t.ppf(0.975, df) * errors)
        table = table.assign(**{name: value, f"{start}low": value - half, f"{start}high": value + half})
    better, worse = table["against_low"] > 0, table["against_high"] < 0
    verdict = np.select([better, worse], ["better than", WORSE], "not distinguishable from")
    return table.assign(than_base=verdict, low=table["low"].clip(0), high=table["high"].clip(upper=1))
