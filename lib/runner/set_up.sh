# Sourced by run_all.sh and tests/run.sh, which set $root: sets $python to a Python that holds the pinned packages.
# What is done, and when, stands in lib/runner/set_up.py; here only a Python to run it is looked for.

base=""
for candidate in "${VIRTUAL_ENV:-/nonexistent}/bin/python" "${CONDA_PREFIX:-/nonexistent}/bin/python" \
                 python3 python3.11 python3.12 python3.13 python3.14 python; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        base="$candidate"
        break
    fi
done
if [ -z "$base" ]; then
    echo "run_all.sh: Python 3.11 or newer is needed and was not found on PATH" >&2
    exit 1
fi
python="$("$base" -I "$root/lib/runner/set_up.py")"
