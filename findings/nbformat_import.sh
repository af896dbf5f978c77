#!/usr/bin/env bash
# What `import nbformat` costs beside JupyterLab, in every process that reads a notebook.
#
# Versions: nbformat 5.11.1, jsonschema 4.26.0, rfc3987-syntax 1.1.0, lark 1.3.1, Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes half a minute.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# nbformat imports jsonschema, though it validates by another library. JupyterLab brings
# jsonschema[format-nongpl] (by way of jupyter-events), and with it rfc3987-syntax. If that can be
# imported, jsonschema imports it, and it builds a parser for the grammar of web addresses, whether
# or not any will be checked. So whatever imports nbformat starts seconds later than where nbformat
# was installed alone. With `sys.modules["rfc3987_syntax"] = None` before, it does not.
# Guess beforehand: an optional checker of formats is imported when a format is checked, and
# `import nbformat` costs the same in both environments.
#
# Output seen (seconds of CPU, the least of five):
#   nbformat alone: 0.19
#   with jsonschema's formats: 2.97
#   the same, without rfc3987-syntax: 0.34
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work" # so that nothing of this project can be imported

install() { # NAME PACKAGES: a new environment with them
    "${PYTHON:-python3}" -m venv "$1" && "$1/bin/python" -m pip install --quiet "${@:2}"
}
if ! { install alone nbformat==5.11.1 jsonschema==4.26.0 &&
    install beside nbformat==5.11.1 "jsonschema[format-nongpl]==4.26.0" rfc3987-syntax==1.1.0 \
        lark==1.3.1; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >probe.py <<'PROBE'
import resource
import subprocess
import sys


def measure(python):
    """The least CPU seconds of importing nbformat, with and without rfc3987-syntax."""
    without = 'import sys; sys.modules["rfc3987_syntax"] = None; import nbformat'
    times = {"import nbformat": [], without: [], "pass": []}
    for _ in range(5):
        for source, seen in times.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([python, "-c", source], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seen.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    start = min(times["pass"])
    return min(times["import nbformat"]) - start, min(times[without]) - start


(alone, _), (beside, without) = measure("alone/bin/python"), measure("beside/bin/python")
print(f"nbformat alone: {alone:.2f}\nwith jsonschema's formats: {beside:.2f}")
print(f"the same, without rfc3987-syntax: {without:.2f}")
unchanged = beside > 3 * max(alone, without)
print("unchanged" if unchanged else "changed")
sys.exit(0 if unchanged else 1)
PROBE
alone/bin/python probe.py
