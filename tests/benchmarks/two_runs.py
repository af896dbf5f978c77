"""Compare the figures of two runs: how far means over tasks and single accuracies moved, and which
verdicts differ.

    python tests/benchmarks/two_runs.py fb587bd                   a commit against figures/mini here
    python tests/benchmarks/two_runs.py fb587bd bd09eb6           two commits
    python tests/benchmarks/two_runs.py /tmp/before figures/mini  two folders of figures

Exits with 1 if a mean moved by more than .005, an accuracy by more than two test examples, or a
verdict of either question differs. Ledgers of different rules are not compared. --profile names the
profile of both runs, whose tasks say how many test examples there are.
"""

import argparse
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from lib.config import environment, paths

FIGURES = "figures/mini"
LIMIT = 0.005
EXAMPLES = 2


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


def compare_cells(before: pd.DataFrame, now: pd.DataFrame, sizes: dict[str, int]) -> pd.Series:
    """By how many test examples each accuracy moved, by model and task."""
    keys = [name for name in ("metric", "round", "model", "task") if name in before]
    values = [
        table[table["task"].isin(sizes)].groupby(keys)["value"].mean() for table in (before, now)
    ]
    moved = (values[1] - values[0]).abs()
    examples = [sizes[task] for task in moved.index.get_level_values("task")]
    return moved * np.array(examples, dtype=float)


def count_examples(profile: str) -> dict[str, dict[str, int]]:
    """Split -> task -> how many test examples a classification has."""
    environment.set_process_environment(offline=True)
    from lib.experiments.bench import Bench

    bench = Bench.load(profile)
    return {
        split: {task: len(bench.examples(task, split).tested) for task in bench.classifications}
        for split in ("validation", "test")
    }


def compare_verdicts(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The findings whose verdict is another one, or that one of the ledgers lacks."""
    columns = ["verdict", "survives", "effect", "p", "p_equivalent"]
    tables = [table.set_index("id").reindex(columns=columns) for table in (before, now)]
    both = tables[0].add_suffix(" before").join(tables[1].add_suffix(" now"), how="outer")
    changed = [both[f"{name} before"].ne(both[f"{name} now"]) for name in columns[:2]]
    return both[changed[0] | changed[1]]


def _run_git(*command: str) -> str:
    done = subprocess.run(["git", *command], cwd=paths.ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a commit or a folder of figures")
    parser.add_argument("now", nargs="?", default=str(paths.ROOT / FIGURES))
    parser.add_argument("--profile", default="mini", help="of both runs; default: mini")
    options = parser.parse_args()
    sizes = count_examples(options.profile)
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
            split = "test" if label.startswith(("fig5", "tab5")) else "validation"
            cells = compare_cells(before[label], now[label], sizes[split])
            if len(cells):
                print(f"   an accuracy by {cells.max():.1f} examples at most, {cells.idxmax()}")
                failed |= bool(cells.max() > EXAMPLES + 0.01)
    if "news_fig1" in before and "news_fig1" in now:
        keys = ["source", "model"]
        f1 = [run["news_fig1"].set_index(keys)["f1"] for run in (before, now)]
        moved = (f1[1] - f1[0]).abs()
        print(f"news_fig1: F1 moved by {moved.max():.2f} points at most, {moved.idxmax()}")
    ledgers = before.get("tab_claims"), now.get("tab_claims")
    rules = [str({*ledger.get("rules", [0])}) for ledger in ledgers if ledger is not None]
    if len({*rules}) == 2:
        print(f"the ledgers were judged by other rules, {rules[0]} and {rules[1]}")
    elif len(rules) == 2:
        other = compare_verdicts(*ledgers)
        every = len({*ledgers[0]["id"], *ledgers[1]["id"]})
        print(f"{every - len(other)} of {every} verdicts are the same")
        if len(other):
            print(other.to_string())
        failed |= bool(len(other))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
