"""What came out, as tables: what notebooks and pages show of the ledger."""

from pathlib import Path

import pandas as pd

from lib.statistics.verdicts import VERDICTS


def read_table(folder: Path, label: str) -> pd.DataFrame:
    """Read the saved numbers of a figure or table. Only empty cells are missing: None is a name."""
    return pd.read_csv(folder / f"{label}.csv", keep_default_na=False, na_values=[""])


def shorten_ledger(ledger: pd.DataFrame) -> pd.DataFrame:
    """Columns finding, published, ours (effects), low, high (of ours), verdict, survives."""
    short = ledger.rename(columns={"published_effect": "published", "effect": "ours"})
    short.attrs["label"] = "short_ledger"  # of its layout in `params/tables.yaml`
    return short[["finding", "published", "ours", "low", "high", "verdict", "survives"]]


def count_verdicts(ledgers: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Count the thesis' findings by verdict: as published, and for each name of a ledger."""
    columns: dict[str, pd.Series] = {}
    for name, ledger in ledgers.items():
        thesis = ledger[~ledger["label"].str.startswith("news")]
        columns.setdefault("published", thesis["published_verdict"])
        columns |= {f"{name} repeats": thesis["verdict"], f"{name} survives": thesis["survives"]}
    counts = pd.DataFrame({name: words.value_counts() for name, words in columns.items()})
    return counts.reindex(VERDICTS).fillna(0).astype(int).rename_axis("verdict").reset_index()
