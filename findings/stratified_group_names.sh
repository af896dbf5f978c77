#!/usr/bin/env bash
# Renaming the classes changes the folds of StratifiedGroupKFold, but not those of StratifiedKFold.
#
# Versions: scikit-learn 1.9.1, numpy 2.4.6, pandas 3.1.1, Python 3.11, Linux on x86-64.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about 20 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# StratifiedKFold numbers classes by their first appearance, so names cannot matter. With groups,
# classes are numbered by the order of their names. Groups are then sorted, and dealt to folds, by
# standard deviations over classes. These are sums whose last bits depend on the order of the
# classes, and small groups tie often. So the same data, labelled in another language, have other
# folds, also without shuffling, and an accuracy that is not comparable. With two classes it cannot
# happen. `pandas.factorize(labels)[0]` in place of the labels gives folds that no name changes.
# Believed beforehand (probability .9): both splitters see classes, not names.
#
# Output seen, of 200 data sets with three classes in 15 groups of 2 to 6:
#   StratifiedGroupKFold: other folds in 39 of 200
#   StratifiedKFold: other folds in 0 of 200
#   StratifiedGroupKFold of factorized labels: other folds in 0 of 200
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    scikit-learn==1.9.1 numpy==2.4.6 pandas==3.1.1; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >probe.py <<'PROBE'
import sys

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold


def folds(splitter, labels, groups):
    return [test.tolist() for _, test in splitter.split(labels, labels, groups)]


counts = dict.fromkeys(("with groups", "without", "factorized"), 0)
for seed in range(200):
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(15), random.integers(2, 7, 15))
    labels = random.choice(list("abc"), len(groups))
    renamed = np.array([{"a": "c", "b": "a", "c": "b"}[name] for name in labels])
    grouped, plain = StratifiedGroupKFold(5), StratifiedKFold(5)
    both = labels, renamed
    coded = [pd.factorize(each)[0] for each in both]
    counts["with groups"] += folds(grouped, labels, groups) != folds(grouped, renamed, groups)
    counts["without"] += folds(plain, labels, None) != folds(plain, renamed, None)
    counts["factorized"] += folds(grouped, coded[0], groups) != folds(grouped, coded[1], groups)
print(f"StratifiedGroupKFold: other folds in {counts['with groups']} of 200")
print(f"StratifiedKFold: other folds in {counts['without']} of 200")
print(f"StratifiedGroupKFold of factorized labels: other folds in {counts['factorized']} of 200")
same = counts["with groups"] > 0 == counts["without"] == counts["factorized"]
print("unchanged" if same else "CHANGED")
sys.exit(0 if same else 1)
PROBE
env/bin/python -W ignore probe.py
