"""The tables that a profile's notebooks have saved, and the numbers that pages take from them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib.chapters.final_students import list_students
from lib.distillation.variants import MM_MSE
from lib.statistics.effects import chance_corrected

UNKNOWN = float("nan")


class Tables:
    """The tables that a profile's notebooks have saved, read when a page asks for one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, label: str) -> pd.DataFrame:
        """The numbers behind a figure or table; an empty frame if it was not made."""
        file = self.folder / f"{label}.csv"
        if not file.is_file():
            return pd.DataFrame()
        return pd.read_csv(file, keep_default_na=False, na_values=[""])

    def ledger(self) -> pd.DataFrame:
        """The claims ledger: a row for each finding, indexed by its id."""
        return self.read("tab_claims").set_index("id")

    def claim(self, name: str) -> Mapping[str, Any]:
        """A finding's row of the ledger."""
        return self.ledger().loc[name]

    def check(self, name: str, label: str) -> float:
        """The value that a check of the ledger has measured; NaN if it was not made."""
        rows = self.read("tab_checks")
        if not rows.empty:
            rows = rows[(rows["check"] == name) & (rows["label"] == label)]
        return UNKNOWN if rows.empty else rows["value"].iloc[0]

    def heads(self, column: str) -> pd.Series:
        """Model -> mean score by one setting of heads or readout, a column of `tab_heads`."""
        rows = self.read("tab_heads")
        if rows.empty or column not in rows:
            return pd.Series(dtype=float)
        return rows.set_index("model")[column].dropna()

    def accuracy(self, name: str) -> pd.Series:
        """Model -> mean accuracy over tasks in one round of Chapter 5, not chance-corrected."""
        rows = self.read("tab5_7")
        if rows.empty:
            return pd.Series(dtype=float)
        rows = rows[(rows["task"] == "mean") & (rows["round"] == name)]
        return rows.set_index("model")["value"].dropna()

    def guessing(self) -> float:
        """Accuracy of guessing, mean over the tasks of Chapter 5; NaN if that was not run."""
        rows = self.read("fig5_3")
        return UNKNOWN if rows.empty else rows.groupby("task")["chance"].first().mean()

    def scores(self) -> pd.Series:
        """Model and round of Chapter 5, such as "only-MSE;all" -> mean score, chance-corrected."""
        rows = self.read("fig5_3")
        if rows.empty:
            return pd.Series(dtype=float)
        return rows.assign(score=chance_corrected(rows)).groupby("model")["score"].mean()

    def leads(self, name: str, rival: str) -> list[float]:
        """Chance-corrected leads of the final students over a rival in one round, ascending."""
        scores = self.scores()
        if scores.empty:
            return [UNKNOWN]
        own = [scores.get(f"{student};{name}", UNKNOWN) for student in list_students()]
        return sorted(np.subtract(own, scores.get(f"{rival};{name}", UNKNOWN)))

    def leads_by_task(self, rival: str) -> pd.Series:
        """Task -> chance-corrected lead over a rival, mean over final students and rounds."""
        rows = self.read("fig5_3")
        if rows.empty:
            return pd.Series(dtype=float)
        name, scores = rows["model"].str.partition(";")[0], chance_corrected(rows)
        means = scores.groupby([rows["task"], name]).mean().unstack()
        return (means.reindex(columns=[*list_students()]).mean(axis=1) - means[rival]).dropna()

    def retrieval(self) -> pd.Series:
        """Model -> MAP, the mean over both retrieval tasks."""
        rows = self.read("fig5_5")
        if rows.empty:
            return pd.Series(dtype=float)
        return rows[rows["metric"] == "MAP"].groupby("model")["value"].mean()

    def lengths(self) -> pd.DataFrame:
        """Accuracy without a head, by updates (rows) and model (columns) of Figure A.4."""
        rows = self.read("figA_4")
        if "no head" not in rows:
            return pd.DataFrame({"MSE": [UNKNOWN], "cosine": [UNKNOWN]})
        scores = rows.pivot_table("no head", "updates", "model")
        named = scores.columns.drop("base", errors="ignore").union(["MSE", "cosine"])
        return scores.reindex(columns=named).dropna()


def find_lead(scores: pd.Series, model: str = MM_MSE, rival: str = "cosine") -> float:
    """The score of one model minus that of another; NaN if either is missing."""
    return scores.get(model, UNKNOWN) - scores.get(rival, UNKNOWN)
