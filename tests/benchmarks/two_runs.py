"""Whether another run of mini gave the same: figures/mini of a commit against those on disk.

    python tests/benchmarks/two_runs.py fb587bd
    python tests/benchmarks/two_runs.py fb587bd bd09eb6    one commit against another

Prints how far accuracies and the news chapter's F1 moved, and every finding with another verdict.
Exits with 1 if a model's mean over tasks moved by more than .005, or a verdict changed that was not
near its limit (a p between .01 and .25 decided it).
"""

import argparse
import io
import subprocess
import sys

import pandas as pd

from lib.config import paths

FIGURES = "fig4_2 fig4_3 fig4_5 fig4_7 fig4_8 fig4_9 fig4_10 fig4_11 fig5_3".split()
LIMIT = 0.005  # of a mean over tasks: what another processor moved at most
NEAR = (0.01, 0.25)


def read_table(label: str, commit: str | None) -> pd.DataFrame:
    """A CSV of figures/mini, as a commit has it or, without one, as it is on disk."""
    name = f"figures/mini/{label}.csv"
    if commit is None:
        content = (paths.ROOT / name).read_bytes()
    else:
        command = ["git", "show", f"{commit}:{name}"]
        content = subprocess.run(command, cwd=paths.ROOT, check=True, capture_output=True).stdout
    return pd.read_csv(io.BytesIO(content), keep_default_na=False, na_values=[""])


def compare_accuracies(before: pd.DataFrame, now: pd.DataFrame) -> tuple[float, float]:
    """How far an accuracy moved on average, and a model's mean over tasks at most."""
    keys = ["model", "task"]
    values = [frame.set_index(keys)["value"].dropna() for frame in (before, now)]
    if set(values[0].index) != set(values[1].index):
        return float("nan"), float("inf")  # other models or tasks
    moved = values[1] - values[0]
    return moved.abs().mean(), moved.groupby("model").mean().abs().max()


def is_near(row: pd.Series) -> bool:
    """Whether a verdict was near its limit: as its ledger says, else by the p that may decide."""
    if "near_limit" in row:
        return row["near_limit"] == "near"
    return any(NEAR[0] <= row[name] <= NEAR[1] for name in ("p", "p_equivalent"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("other", nargs="?", help="instead of what is on disk")
    options = parser.parse_args()
    largest = 0.0
    for label in FIGURES:
        mean, most = compare_accuracies(
            read_table(label, options.commit), read_table(label, options.other)
        )
        print(f"{label}: an accuracy moved by {mean:.4f}, a model's mean by {most:.4f} at most")
        largest = max(largest, most)
    keys = ["source", "model"]
    news = [
        read_table("news_fig1", commit).set_index(keys)["f1"]
        for commit in (options.commit, options.other)
    ]
    moved = (news[1] - news[0]).abs()
    moved = moved[moved > 0]
    if len(moved):
        print(
            f"news_fig1: {len(moved)} models moved, by {moved.median():.1f} points of F1 in the "
            f"median, {moved.max():.1f} at most"
        )
    before = read_table("tab_claims", options.commit).set_index("id")
    now = read_table("tab_claims", options.other).set_index("id").reindex(before.index)
    changed = before.index[before["verdict"] != now["verdict"]]
    print(f"{len(before) - len(changed)} of {len(before)} verdicts are the same")
    columns = ["verdict", "p", "p_equivalent"]
    turned = before.loc[changed, columns].join(now[columns].add_suffix(" now"))
    turned["near its limit"] = [is_near(row) for _, row in before.loc[changed].iterrows()]
    if len(turned):
        print(turned.to_string())
    same = round(largest, 3) <= LIMIT and turned["near its limit"].all()
    print(
        "the same to .005, and in every verdict that was not near its limit"
        if same
        else "not the same"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
