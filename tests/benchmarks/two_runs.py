"""What another run changed, on another processor for instance: figures/mini of a commit against those on disk.

    python tests/benchmarks/two_runs.py fb587bd
    python tests/benchmarks/two_runs.py fb587bd bd09eb6    of one commit against another's

Prints how far accuracies and the news chapter's F1 moved, and every finding whose verdict is another one, with p and
p_equivalent before and now, and whether the ledger on disk calls it near its limit.
"""

import argparse

import pandas as pd

from lib.config import paths
from tests.retell import committed

FIGURES = (
    "fig4_2",
    "fig4_3",
    "fig4_5",
    "fig4_7",
    "fig4_8",
    "fig4_9",
    "fig4_10",
    "fig4_11",
    "fig5_3",
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("other", nargs="?", help="instead of what is on disk")
    options = parser.parse_args()

    def after(name: str) -> pd.DataFrame:
        there = paths.ROOT / f"figures/mini/{name}.csv"
        return (
            committed(f"figures/mini/{name}", options.other)
            if options.other
            else pd.read_csv(there)
        )

    for label in FIGURES:
        now = after(label).set_index(["model", "task"])["value"]
        moved = (
            now
            - committed(f"figures/mini/{label}", options.commit).set_index(["model", "task"])[
                "value"
            ]
        )
        means = moved.groupby("model").mean().abs()
        print(
            f"{label}: an accuracy moved by {moved.abs().mean():.4f}, a model's mean at most by {means.max():.4f}"
        )
    news, keys = "figures/mini/news_fig1", ["source", "model"]
    moved = (
        after("news_fig1").set_index(keys)["f1"]
        - committed(news, options.commit).set_index(keys)["f1"]
    ).abs()
    moved = moved[moved > 0]
    points = f"{moved.median():.1f} points of F1 in the median, {moved.max():.1f} at most"
    print(f"news_fig1: {len(moved)} models moved, {points}")
    before = committed("figures/mini/tab_claims", options.commit).set_index("id")
    now = after("tab_claims").set_index("id").reindex(before.index)
    other = before.index[before["verdict"] != now["verdict"]]
    print(f"{len(before) - len(other)} of {len(before)} verdicts are the same")
    columns = ["verdict", "p", "p_equivalent"]
    now = now.reindex(columns=[*columns, "near_limit"]).add_suffix(" now")
    print(before.loc[other, columns].join(now).to_string())


if __name__ == "__main__":
    main()
