# Sourced by run_all.sh and tests/run.sh, which set $root: sets $base to a Python that can run lib/runner/set_up.py.
for base in "${VIRTUAL_ENV:-/nonexistent}/bin/python" "${CONDA_PREFIX:-/nonexistent}/bin/python" \
            python3 python3.11 python3.12 python3.13 python3.14 python ""; do
    [ -z "$base" ] && { echo "Python 3.11 or newer is needed and was not found on PATH" >&2; exit 1; }
    "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && break
done
