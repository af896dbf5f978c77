"""Whether a task can tell models apart at all: where scores stand between chance and the ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lib.statistics import verdicts
from lib.statistics.effects import Comparison
from lib.statistics.intervals import TaskScores, from_examples

CEILING = 0.97  # of the way from chance to 1; what is left is label noise on most tasks


def above_chance(tasks: Mapping[str, TaskScores], models: Sequence[str]) -> pd.DataFrame:
    """Every model on every task against guessing, and (task "all") on their mean.

    Columns model, task, score (chance-corrected), low, high (95 % interval over test texts), passed: the interval lies
    above chance and the score below the ceiling. Seeds are left aside: the models here are taken as they are.
    """
    rows = []
    for task, names in [*((name, [name]) for name in tasks), ("all", list(tasks))]:
        evidence = from_examples(
            tasks, weights=dict.fromkeys(names, 1 / len(names)), given=list(tasks[names[0]].scores)
        )
        for model in models:
            judged = verdicts.judge([[Comparison({model: 1.0}, {}, model, "chance")]], evidence)
            passed = judged.verdict == verdicts.HOLDS and judged.effect < CEILING
            rows.append((model, task, judged.effect, judged.low, judged.high, passed))
    return pd.DataFrame(rows, columns=["model", "task", "score", "low", "high", "passed"])
