#!/usr/bin/env bash
# Which words TfidfVectorizer(max_features=n) keeps depends on the processor.
#
# Versions: scikit-learn 1.9.1, numpy 2.4.6, Python 3.11, Linux on x86-64 with AVX2 or AVX-512.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about 20 s.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# Words are chosen by how often they occur, and where the frequency at the limit is shared by many
# (in texts, nearly always), the choice among these is left to NumPy's sort, which is not stable and
# has other kernels for AVX-512, AVX2 and neither. The same documents, seed and versions give other
# vocabularies on another machine; random_state does not exist, and no warning is given. The order of
# the documents makes no difference.
# NPY_DISABLE_CPU_FEATURES, a documented variable of NumPy, stands for the other processors.
# Guess beforehand (probability .65): some words differ, because an unstable sort decides.
# That it is 36 of 500 between AVX-512 and AVX2 was not guessed.
#
# Output seen (AVX-512, then without it, then without AVX2 as well; of 500 words):
#   all kernels: 500 words, in common with the first 500
#   without AVX-512: 500 words, in common with the first 464
#   without AVX2 too: 500 words, in common with the first 438
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"  # so that nothing of this project can be imported

if ! grep -qm1 avx2 /proc/cpuinfo; then
    echo "this processor has no AVX2, so there is nothing to compare" >&2
    exit 2
fi
if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    scikit-learn==1.9.1 numpy==2.4.6; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >fit.py <<'FIT'
import json

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

random = np.random.default_rng(0)
words = [f"w{number:04d}" for number in range(3000)]
texts = [" ".join(random.choice(words, 20)) for _ in range(300)]
kept = TfidfVectorizer(max_features=500).fit(texts).get_feature_names_out()
turned = TfidfVectorizer(max_features=500).fit(texts[::-1]).get_feature_names_out()
assert (kept == turned).all(), "the order of the documents makes a difference"
print(json.dumps(kept.tolist()))
FIT

cat >probe.py <<'PROBE'
import json
import os
import subprocess
import sys

OFF = {"all kernels": "", "without AVX-512": "X86_V4 AVX512_ICL AVX512_SPR"}
OFF["without AVX2 too"] = OFF["without AVX-512"] + " X86_V3"
kept = {}
for name, features in OFF.items():
    variables = os.environ | {"NPY_DISABLE_CPU_FEATURES": features}
    command = [sys.executable, "-W", "ignore", "fit.py"]
    run = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    kept[name] = {*json.loads(run.stdout)}
    common = len(kept[name] & kept["all kernels"])
    print(f"{name}: {len(kept[name])} words, in common with the first {common}")
same = kept["without AVX2 too"] != kept["all kernels"]
print("unchanged" if same else "CHANGED")
sys.exit(0 if same else 1)
PROBE
env/bin/python probe.py
