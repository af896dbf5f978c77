#!/usr/bin/env bash
# A second IPython shell of a process, set up for inline figures like the first, shows no pictures.
#
# Versions: ipython 9.18.1, matplotlib 3.11.2, matplotlib-inline 0.2.2, traitlets 5.16.1, Python 3.11,
# Linux.
# Needs: Python 3.11 or newer with venv, and a package index that pip knows. It takes half a minute.
# Exit code: 0 all as described here, 1 something behaves differently, 2 it could not be run.
#
# Whoever runs notebooks in one process, as tests do, makes a shell for each. matplotlib_inline's
# `configure_inline_support(shell, backend)` registers the display of figures with every shell that
# it gets, but tells only the first one how a figure becomes a PNG: a function attribute remembers
# that the backend is "inline" already. Figures of the second shell are displayed as text,
# `<Figure size 640x480 with 1 Axes>`, without an error or a warning. With IPython's
# `select_figure_formats(shell, {"png"})`, each shell has pictures.
# Guess beforehand: the function sets up whatever shell it is given.
#
# Output seen:
#   first shell: image/png, text/plain
#   second shell: text/plain
#   third shell, with select_figure_formats: image/png, text/plain
#   unchanged
set -euo pipefail

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work" # so that nothing of this project can be imported

if ! { "${PYTHON:-python3}" -m venv env &&
    env/bin/python -m pip install --quiet ipython==9.18.1 matplotlib==3.11.2 \
        matplotlib-inline==0.2.2 traitlets==5.16.1; } >install.log 2>&1; then
    cat install.log >&2
    echo "could not install the packages" >&2
    exit 2
fi

cat >probe.py <<'PROBE'
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.pylabtools import activate_matplotlib, select_figure_formats
from IPython.utils.capture import capture_output
from matplotlib_inline.backend_inline import configure_inline_support
from traitlets.config import Config

INLINE = "module://matplotlib_inline.backend_inline"
CELL = "import matplotlib.pyplot as plt\nlines = plt.plot([1, 2])"


def show(select):
    """The forms in which the figure of a cell is displayed by a new shell."""
    shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
    activate_matplotlib(INLINE)
    configure_inline_support(shell, INLINE)
    if select:
        select_figure_formats(shell, {"png"})
    with shell.display_trap, capture_output() as said:
        shell.run_cell(CELL, store_history=True)
    InteractiveShell.clear_instance()
    return [sorted(shown.data) for shown in said.outputs]


seen = [show(False), show(False), show(True)]
for name, forms in zip(("first", "second", "third"), seen):
    with_what = ", with select_figure_formats" if name == "third" else ""
    print(f"{name} shell{with_what}: {'; '.join(', '.join(each) for each in forms)}")
picture = [["image/png", "text/plain"]]
unchanged = seen == [picture, [["text/plain"]], picture]
print("unchanged" if unchanged else "changed")
sys.exit(0 if unchanged else 1)
PROBE
env/bin/python probe.py
