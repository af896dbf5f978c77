"""Compare the figures of two runs: how far means over tasks moved, and which verdicts differ.

    python benchmarks/two_runs.py fb587bd                   a commit against figures/mini here
    python benchmarks/two_runs.py fb587bd bd09eb6           two commits
    python benchmarks/two_runs.py /tmp/before figures/mini  two folders of figures

Exits with 1 if a mean moved by more than .005, or a verdict of either question differs. Ledgers of
different rules are not compared.
"""

import argparse
import io
import subprocess
import sys
from pathlib import Path

import pandas as pd

from lib.config import paths

FIGURES = "figures/mini"
LIMIT = 0.005


def read_run(source: str) -> dict[str, pd.DataFrame]:
    """The tables of a run by label; `source` is a folder or a git revision."""
    if (folder := Path(source)).is_dir():
        texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.csv")}
    else:
        names = run_git("ls-tree", "--name-only", source, f"{FIGURES}/").split()
        files = [name for name in names if name.endswith(".csv")]
        texts = {Path(name).stem: run_git("show", f"{source}:{name}") for name in files}
    if not texts:
        raise SystemExit(f"{source} has no figures")
    options = {"keep_default_na": False, "na_values": [""]}
    return {label: pd.read_csv(io.StringIO(text), **options) for label, text in texts.items()}


def run_git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=paths.ROOT, stdout=-1, text=True, check=True).stdout


def compare_tables(label: str, before: pd.DataFrame, now: pd.DataFrame) -> bool:
    """Print how far the means of a label moved; whether that is too far."""
    keys = [key for key in ("metric", "round", "model") if key in before]
    means = [table.groupby(keys)["value"].mean() for table in (before, now)]
    moved = (means[1] - means[0]).abs()
    print(f"{label}: a mean moved by {moved.max():.4f} at most, {moved.idxmax()}")
    return bool(moved.isna().any() or moved.max() > LIMIT)


def compare_verdicts(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The findings whose verdict is another one, or that one of the ledgers lacks."""
    columns = ["verdict", "survives", "effect", "p", "p_equivalent"]
    tables = [table.set_index("id").reindex(columns=columns) for table in (before, now)]
    both = tables[0].add_suffix(" before").join(tables[1].add_suffix(" now"), how="outer")
    changed = [both[f"{name} before"].ne(both[f"{name} now"]) for name in columns[:2]]
    return both[changed[0] | changed[1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("before", help="a commit or a folder of figures")
    parser.add_argument("now", nargs="?", default=str(paths.ROOT / FIGURES))
    options = parser.parse_args()
    before, now = read_run(options.before), read_run(options.now)
    missing = sorted({*before} - {*now})
    if missing:
        print("missing now:", *missing)
    failed = bool(missing)
    for label in sorted({*before} & {*now}):
        if {"model", "task", "value"} <= {*before[label]}:
            failed |= compare_tables(label, before[label], now[label])
    ledgers = [run["tab_claims"] for run in (before, now) if "tab_claims" in run]
    rules = {str({*ledger.get("rules", [0])}) for ledger in ledgers}
    if len(rules) == 2:
        print("the ledgers were judged by other rules:", *sorted(rules))
    elif len(ledgers) == 2:
        other = compare_verdicts(*ledgers)
        print(f"{len(other)} of {len(ledgers[1])} verdicts differ\n{other.to_string()}")
        failed |= bool(len(other))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
