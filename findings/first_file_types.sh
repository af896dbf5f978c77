#!/usr/bin/env bash
# Ids of type text in a later file, when several files are read as one table.
#
# Versions: pyarrow 26.0.1, pandas 3.1.1, duckdb 2.0.1, datasets 5.2.0, Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about 40 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# Two files with a column `id`: integers 1, 2 in the first, the texts "007", "8" in the second. Both
# name their types (Parquet), or write them so (JSON: 1 and "007"). pandas, pyarrow and DuckDB on a
# folder of Parquet, and datasets on JSON Lines, take the types of the first file and parse the texts
# of the second: 007 becomes 7, without a warning. With the files in the other order, datasets and
# DuckDB return texts. So the names of the files decide what the ids are, and a join by id loses some.
# Guess beforehand (probability .7): pyarrow refuses, and names the two types. datasets refuses only
# ids such as "a7".
#
# Output seen:
#   pyarrow: [1, 2, 7, 8]
#   pandas: [1, 2, 7, 8]
#   duckdb: [1, 2, 7, 8]
#   datasets: [1, 2, 7, 8]
#   duckdb, other order: ['007', '8', '1', '2']
#   datasets, other order: ['007', '8', '1', '2']
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    pyarrow==26.0.1 pandas==3.1.1 duckdb==2.0.1 datasets==5.2.0; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >probe.py <<'PROBE'
import json
import sys
import warnings
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
from datasets import load_dataset
from datasets.utils.logging import disable_progress_bar

warnings.simplefilter("error")
disable_progress_bar()
SHARDS = {"a": [1, 2], "b": ["007", "8"]}
Path("parquet").mkdir()
for name, ids in SHARDS.items():
    pd.DataFrame({"id": ids}).to_parquet(f"parquet/{name}.parquet", index=False)
    Path(f"{name}.jsonl").write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))


def read_duckdb(order):
    files = [f"parquet/{name}.parquet" for name in order]
    return [row for (row,) in duckdb.sql(f"select id from read_parquet({files})").fetchall()]


def read_datasets(order):
    files = [f"{name}.jsonl" for name in order]
    return load_dataset("json", data_files=files, split="train", cache_dir="cache")["id"][:]


seen = {
    "pyarrow": pq.read_table("parquet")["id"].to_pylist(),
    "pandas": pd.read_parquet("parquet")["id"].tolist(),
    "duckdb": read_duckdb("ab"),
    "datasets": read_datasets("ab"),
    "duckdb, other order": read_duckdb("ba"),
    "datasets, other order": read_datasets("ba"),
}
for name, ids in seen.items():
    print(f"{name}: {ids}")
texts = ["007", "8", "1", "2"]
same = all(ids == (texts if "other" in name else [1, 2, 7, 8]) for name, ids in seen.items())
print("unchanged" if same else "CHANGED")
sys.exit(0 if same else 1)
PROBE
env/bin/python probe.py 2>probe.log || { code=$?; cat probe.log >&2; exit "$code"; }
