#!/usr/bin/env bash
# Every test: set-up if needed, style, format, types, rooms, spelling, notebooks without outputs, then
# pytest, with all notebooks at smoke scale.
# What follows is passed on to pytest: tests/run.sh -k params
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)"
source "$root/lib/runner/set_up.sh"
set_up # sets $python
cd "$root"
export PYTHONPATH="$root" # threads, MKL_CBWR and no network: tests/conftest.py
unset PYTHONDONTWRITEBYTECODE # a hundred processes would each compile lib
status=0

step() { # a failed check does not hide the ones after it
    echo "== $1"
    shift
    "$@" || { status=1; echo "   failed: $*"; }
}

notebooks_are_clean() { # nbstripout --verify changes nothing, and fails if there is something to strip
    local files=(notebooks/*.ipynb)
    [ -e "${files[0]}" ] || return 0
    "$python" -m nbstripout --verify --keep-id --extra-keys "metadata.papermill cell.metadata.papermill" "${files[@]}"
}

step "style (ruff)" "$python" -m ruff check .
step "format (ruff)" "$python" -m ruff format --check .
step "rooms (import-linter)" "$(dirname "$python")/lint-imports" --no-cache
step "spelling (codespell)" "$python" -m codespell_lib lib tests docs notebooks params README.md CONTRIBUTING.md CHANGELOG.md pyproject.toml run_all.sh
checked="$(mktemp)" # by what is slower, beside the tests
trap 'rm -f "$checked"' EXIT
{
    status=0
    step "notebooks without outputs (nbstripout)" notebooks_are_clean
    step "types (mypy)" "$python" -m mypy --no-error-summary
    exit "$status"
} >"$checked" 2>&1 &
checks=$!
install_extras() { # the pinned packages of some extras of pyproject.toml; tests that lack them say so
    local find='import sys, tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*(package for name in sys.argv[1:] for package in extras[name]))'
    "$python" -m pip install -q --disable-pip-version-check $("$python" -c "$find" "$@")
}

install_browser() { # Debian's Chromium, if this runs as root
    command -v chromium || { [ "$(id -u)" = 0 ] && apt-get -qq update && apt-get -qq -y install chromium; }
}

# Without the notebooks (a third of the time): tests/run.sh -m "not smoke and not slow"
chosen="not slow"
if [ "$#" = 0 ]; then # all tests, also those that need an extra or a browser
    chosen=""
    install_extras dask onnx docs browser >/dev/null 2>&1 || true
    install_browser >/dev/null 2>&1 || true
fi
# Files go to as many processes as there are cores, at most four, in the order of tests/conftest.py; the tests of one
# file stay together.
echo "== tests (pytest)"
"$python" -m pytest -q -rs -p no:cacheprovider -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
    -m "$chosen" "$@" || status=1
wait "$checks" || status=1
cat "$checked"
exit "$status"
