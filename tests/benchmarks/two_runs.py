<<<<<<< HEAD
"""Compare the figures of two runs: how far means over tasks moved, and which verdicts differ.

    python tests/benchmarks/two_runs.py fb587bd                   a commit against figures/mini here
    python tests/benchmarks/two_runs.py fb587bd bd09eb6           two commits
    python tests/benchmarks/two_runs.py /tmp/before figures/mini  two folders of figures

Exits with 1 if a mean moved by more than .005, or a verdict differs that neither run calls near its
limit.
=======
"""Whether another run of mini gave the same: figures/mini of a commit against those on disk.

    python tests/benchmarks/two_runs.py fb587bd
    python tests/benchmarks/two_runs.py fb587bd bd09eb6    one commit against another

Prints how far accuracies and the news chapter's F1 moved, and every finding with another verdict.
Exits with 1 if a model's mean over tasks moved by more than .005, or a verdict changed that was not
near its limit (a p between .01 and .25 decided it).
>>>>>>> h-site
"""

import argparse
import io
import subprocess
import sys
<<<<<<< HEAD
from pathlib import Path
=======
>>>>>>> h-site

import pandas as pd

from lib.config import paths

<<<<<<< HEAD
FIGURES = "figures/mini"
LIMIT = 0.005


def read_run(source: str) -> dict[str, pd.DataFrame]:
    """The tables of a run by label; `source` is a folder or a git revision."""
    folder = Path(source)
    if folder.is_dir():
        texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.csv")}
    else:
        names = _run_git("ls-tree", "--name-only", source, f"{FIGURES}/").splitlines()
        texts = {
            Path(name).stem: _run_git("show", f"{source}:{name}")
            for name in names
            if name.endswith(".csv")
        }
    if not texts:
        raise SystemExit(f"{source} has no figures; expected a folder or a commit with {FIGURES}")
    options = {"keep_default_na": False, "na_values": [""]}
    return {label: pd.read_csv(io.StringIO(text), **options) for label, text in texts.items()}


def compare_means(before: pd.DataFrame, now: pd.DataFrame) -> pd.Series:
    """How far the mean over tasks moved, by model and, where there are several, metric or round."""
    keys = [name for name in ("metric", "round", "model") if name in before]
    means = [table.groupby(keys)["value"].mean() for table in (before, now)]
    return (means[1] - means[0]).abs()


def compare_verdicts(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The findings whose verdict is another one, or that one of the ledgers lacks."""
    columns = ["verdict", "effect", "p", "p_equivalent", "near_limit"]
    tables = [table.set_index("id").reindex(columns=columns) for table in (before, now)]
    both = tables[0].add_suffix(" before").join(tables[1].add_suffix(" now"), how="outer")
    return both[both["verdict before"] != both["verdict now"]]


def _run_git(*command: str) -> str:
    done = subprocess.run(["git", *command], cwd=paths.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout
=======
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
>>>>>>> h-site


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a commit or a folder of figures")
    parser.add_argument("now", nargs="?", default=str(paths.ROOT / FIGURES))
    options = parser.parse_args()
<<<<<<< HEAD
    before, now = read_run(options.before), read_run(options.now)
    failed = False
    for label in sorted(before):
        if label not in now:
            print(f"{label}: is missing now")
            failed = True
        elif {"model", "task", "value"} <= {*before[label]}:
            moved = compare_means(before[label], now[label])
            where = moved.idxmax()
            gone = int(moved.isna().sum())
            more = f"; {gone} rows are in one run alone" if gone else ""
            print(f"{label}: a mean over tasks moved by {moved.max():.4f} at most, {where}{more}")
            failed |= bool(moved.max() > LIMIT or gone)
    if "news_fig1" in before and "news_fig1" in now:
        keys = ["source", "model"]
        f1 = [run["news_fig1"].set_index(keys)["f1"] for run in (before, now)]
        moved = (f1[1] - f1[0]).abs()
        print(f"news_fig1: F1 moved by {moved.max():.2f} points at most, {moved.idxmax()}")
    ledgers = before.get("tab_claims"), now.get("tab_claims")
    if ledgers[0] is not None and ledgers[1] is not None:
        other = compare_verdicts(*ledgers)
        every = len({*ledgers[0]["id"], *ledgers[1]["id"]})
        print(f"{every - len(other)} of {every} verdicts are the same")
        if len(other):
            print(other.to_string())
        near = other[["near_limit before", "near_limit now"]].notna().any(axis=1)
        failed |= bool((~near).any())
    return int(failed)
=======
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
>>>>>>> h-site


if __name__ == "__main__":
    sys.exit(main())
