# Sourced by run_all.sh and tests/run.sh, which set $root. `set_up` sets $python to one with the pinned packages.
# An active environment that has them is used as it is. Otherwise they are installed in .venv, unless that is yours.

lock="$root/requirements.lock"
venv="$root/.venv"
mark="$venv/.made_by_run_all" # empty until everything is installed, so a killed set-up starts again
whole="$root $(cksum < "$lock")" # its content then; names the folder, because scripts in a moved .venv do not run

missing_in() { # prints why a Python cannot be used; nothing if it can
    [ -x "$1" ] || { echo "it has no Python"; return; }
    "$1" -I - "$lock" 2>&1 <<'PYTHON' | tail -n 1
import sys
from importlib import metadata

for line in open(sys.argv[1], encoding="utf-8"):
    name, _, pinned = line.split("#")[0].strip().partition("==")
    try:
        version = metadata.version(name) if name else ""
    except metadata.PackageNotFoundError:
        version = "none"
    if version.split("+")[0] != pinned:  # a local tag such as +cpu names a build, not a version
        sys.exit(f"expected {name} {pinned} ({sys.argv[1]}), found {version}")
PYTHON
}

find_ready() { # sets $python to one that can be used as it is; fails if there is none
    local active="${VIRTUAL_ENV:-${CONDA_PREFIX:-}}" reason
    python="$(command -v python3 || true)"
    [ -n "$active" ] && python="$active/bin/python"
    if [ "$python" != "$venv/bin/python" ]; then
        reason="$(missing_in "$python")"
        [ -z "$reason" ] && return
        [ -n "$active" ] && echo "not using the active environment ($active): $reason" >&2
    fi
    python="$venv/bin/python"
    if [ -e "$mark" ]; then
        [ "$(cat "$mark")" = "$whole" ] && [ -x "$python" ]
    else
        [ -z "$(missing_in "$python")" ] # the user's own, with every pinned package
    fi
}

find_base() { # prints a Python that can make .venv
    local base
    for base in python3 python3.11 python3.12 python3.13 python3.14 python; do
        "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$base"; return; }
    done
    echo "Python 3.11 or newer is needed and was not found on PATH" >&2
    return 1
}

set_up() {
    local base
    find_ready && return
    base="$(find_base)" || return
    # The lock belongs to file descriptor 9, which pip inherits. It is free when the last process has ended.
    exec 9>"$root/.venv.lock"
    "$base" -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    find_ready 2>/dev/null && { exec 9>&-; return; } # another set-up has just made it
    if [ -e "$venv" ] && [ ! -e "$mark" ]; then
        echo "$venv lacks pinned packages, and run_all.sh did not make it; remove it and run again" >&2
        return 1
    fi
    echo "making $venv from requirements.lock: a few minutes, 2 GB" >&2
    mkdir -p "$venv"
    : > "$mark"
    find "$venv" -mindepth 1 ! -path "$mark" -delete
    python="$venv/bin/python"
    "$base" -I -m venv "$venv" >&2 &&
        "$python" -I -m pip install --disable-pip-version-check --no-input -r "$lock" >&2 || {
        echo "set-up failed: pip's messages above say why; the next call tries again" >&2
        return 1
    }
    # `import lib`, in Jupyter too
    echo "$root" > "$("$python" -I -c 'import site; print(site.getsitepackages()[0])')/thesis_companion.pth"
    printf %s "$whole" > "$mark"
    exec 9>&-
}
