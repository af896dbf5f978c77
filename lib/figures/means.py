"""Records as the rows of a figure: one mean over seeds for each."""

import pandas as pd


def seed_means(label: str, records: pd.DataFrame, keys: list[str], **more: tuple[str, str]) -> pd.DataFrame:
    """The keys, value (a mean over seeds), seeds (how many) and `more`; `ValueError` for a repeated record."""
    repeated = records.loc[records.duplicated([*keys, "seed"]), [*keys, "seed"]]
    if len(repeated):
        raise ValueError(f"{label}: two records for {repeated.iloc[0].to_dict()}: pass one split of one run")
    groups = records.groupby(keys, sort=False)
    return groups.agg(value=("value", "mean"), seeds=("seed", "nunique"), **more).reset_index()


def in_order(frame: pd.DataFrame, orders: dict[str, list]) -> pd.DataFrame:
    """Rows sorted by the columns that `orders` names, each in the order of its list."""
    return frame.sort_values([*orders], key=lambda column: column.map(orders[column.name].index), ignore_index=True)
