"""Compare the figures of two runs: how far means over tasks and single accuracies moved, and which
verdicts differ.

    python benchmarks/two_runs.py fb587bd                   a commit against figures/mini here
    python benchmarks/two_runs.py fb587bd bd09eb6           two commits
    python benchmarks/two_runs.py /tmp/before figures/mini  two folders of figures

Exits with 1 if a mean moved by more than .005, an accuracy by more than two test examples, or a
verdict of either question differs. Ledgers of different rules are not compared.
"""

import argparse
import io
import subprocess
import sys
from pathlib import Path

import pandas as pd

from lib.config import environment, paths

FIGURES = "figures/mini"
LIMIT, EXAMPLES = 0.005, 2


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


def count_examples(profile: str) -> dict[str, dict[str, int]]:
    """Split -> task -> how many test examples a classification has."""
    environment.set_process_environment(offline=True)
    from lib.experiments.bench import Bench

    bench = Bench.load(profile)
    return {
        split: {task: len(bench.examples(task, split).tested) for task in bench.classifications}
        for split in ("validation", "test")
    }


def compare_values(before: pd.DataFrame, now: pd.DataFrame, keys: list[str]) -> pd.Series:
    """How far means moved, by those of `keys` that the tables have."""
    keys = [key for key in keys if key in before]
    means = [table.groupby(keys)["value"].mean() for table in (before, now)]
    return (means[1] - means[0]).abs()


def compare_tables(label: str, before: pd.DataFrame, now: pd.DataFrame, sizes: dict) -> bool:
    """Print how far the values of a label moved; whether that is too far."""
    keys = ["metric", "round", "model"]
    moved = compare_values(before, now, keys)
    gone = int(moved.isna().sum())
    print(f"{label}: a mean moved by {moved.max():.4f} at most, {moved.idxmax()}; {gone} are gone")
    sizes = sizes["test" if label.startswith(("fig5", "tab5")) else "validation"]
    judged = [table[table["task"].isin(sizes)] for table in (before, now)]
    cells = compare_values(*judged, [*keys, "task"])
    cells = cells * cells.index.get_level_values("task").map(sizes).astype(float)
    if len(cells):
        print(f"   an accuracy by {cells.max():.1f} examples at most, {cells.idxmax()}")
    return bool(moved.max() > LIMIT or gone or cells.max() > EXAMPLES + 0.01)


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
    parser.add_argument("--profile", default="mini", help="of both runs; default: mini")
    options = parser.parse_args()
    before, now = read_run(options.before), read_run(options.now)
    missing = sorted({*before} - {*now})
    if missing:
        print("missing now:", *missing)
    sizes, failed = count_examples(options.profile), bool(missing)
    for label in sorted({*before} & {*now}):
        if {"model", "task", "value"} <= {*before[label]}:
            failed |= compare_tables(label, before[label], now[label], sizes)
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
