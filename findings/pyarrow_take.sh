#!/usr/bin/env bash
# pyarrow's take of one row from a long column, such as token ids or vectors of documents.
#
# Versions: pyarrow 26.0.1, numpy 2.4.6, Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about 20 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# A column of 40 MB in 100 chunks is memory-mapped from uncompressed Feather files, so reading it
# allocates nothing. ChunkedArray.take of one row allocates memory for the whole column, because it
# first joins the chunks. A training that reads its documents row by row copies the corpus each time.
# ChunkedArray.slice(row, 1) gives the same row and allocates next to nothing.
# Guess beforehand: take looks for the chunk of the row, and copies the row.
# Second guess: a column of plain numbers is not copied, because all its rows have one width. It is.
#
# Output seen:
#   lists: take of one row allocated 100% of the column, slice 0%
#   numbers: take of one row allocated 100% of the column, slice 0%
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    pyarrow==26.0.1 numpy==2.4.6; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >probe.py <<'PROBE'
import sys

import numpy as np
import pyarrow as pa
from pyarrow.feather import read_table, write_feather

ROWS, WIDE = 100, 1000  # of a chunk; numbers in a row
default, pools = pa.default_memory_pool(), []  # pools outlive what they hold


def measure(read):
    """The most bytes that were allocated while a row was read, and the row."""
    pools.append(pa.proxy_memory_pool(default))
    pa.set_memory_pool(pools[-1])
    try:
        row = read()
    finally:
        pa.set_memory_pool(default)
    return pools[-1].max_memory(), row.to_pylist()


shares = []
for kind in ("lists", "numbers"):
    for chunk in range(100):
        values = np.arange(ROWS * WIDE, dtype=np.int32) + chunk
        column = list(values.reshape(ROWS, WIDE)) if kind == "lists" else values
        write_feather(pa.table({"x": column}), f"{kind}{chunk:03d}.arrow", "uncompressed")
    parts = [read_table(f"{kind}{chunk:03d}.arrow", memory_map=True) for chunk in range(100)]
    column = pa.concat_tables(parts)["x"]
    taken, row = measure(lambda: column.take(pa.array([4321])))
    sliced, same = measure(lambda: column.slice(4321, 1))
    assert row == same
    shares += [taken / column.nbytes, sliced / column.nbytes]
    print(f"{kind}: take of one row allocated {shares[-2]:.0%} of the column, slice {shares[-1]:.0%}")
expected = min(shares[::2]) > 0.9 and max(shares[1::2]) < 0.01
print("unchanged" if expected else "changed")
sys.exit(0 if expected else 1)
PROBE
env/bin/python probe.py
