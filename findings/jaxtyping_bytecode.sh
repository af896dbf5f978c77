#!/usr/bin/env bash
# What jaxtyping's import hook, asked for one small module, does to the libraries that it imports.
#
# Versions: jaxtyping 0.3.11, beartype 0.23.1, sympy 1.14.0, Python 3.11, Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes about a minute.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# pip compiles what it installs, so `import sympy` compiles nothing. If the first to import sympy is
# a module that the hook decorates, all files that this loads are compiled once more: the hook keeps
# byte code under a name of its own while the module runs, and with it that of all that is imported
# meanwhile. With PYTHONDONTWRITEBYTECODE=1, or if the folder of packages cannot be written, so it is
# in every process. Test suites that check shapes, where pytest has several processes, pay for it.
# Import the libraries before a decorated module does, and nothing is compiled but the module.
# Guess beforehand: the hook compiles only the modules that it was asked to decorate.
#
# Output seen:
#   sympy alone: 0 of its files compiled
#   imported by a decorated module: 419 files compiled
#   again, in a new process: 419 files compiled
#   imported before the hook: 0 files compiled
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work" # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env && env/bin/python -m pip install --quiet \
    jaxtyping==0.3.11 beartype==0.23.1 sympy==1.14.0; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi
echo "import sympy" >small.py

cat >probe.py <<'PROBE'
import sys

compiled = set()


def note(event, arguments):
    if event == "compile" and "sympy" in str(arguments[1]):
        compiled.add(str(arguments[1]))


sys.addaudithook(note)
how = sys.argv[1]
if how in ("alone", "before"):
    import sympy
if how != "alone":
    from jaxtyping import install_import_hook

    install_import_hook("small", "beartype.beartype")
    import small
print(len(compiled))
PROBE
export PYTHONDONTWRITEBYTECODE=1
count() { env/bin/python probe.py "$1"; }
alone="$(count alone)" first="$(count hooked)" second="$(count hooked)" before="$(count before)"
echo "sympy alone: $alone of its files compiled"
echo "imported by a decorated module: $first files compiled"
echo "again, in a new process: $second files compiled"
echo "imported before the hook: $before files compiled"
if [ "$alone" = 0 ] && [ "$first" -gt 400 ] && [ "$second" = "$first" ] && [ "$before" = 0 ]; then
    echo "unchanged"
else
    echo "changed"
    exit 1
fi
