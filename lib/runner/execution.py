"""Run one notebook through papermill, in a kernel of its own, and say in one line what went
wrong."""

import contextlib
import json
import logging
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from lib.runner.notebook import MARKER
from lib.store.files import write_atomically

KERNEL_DIED = (
    "the kernel died, most likely because memory ran out; close other programs, or run with "
    "--jobs 1"
)
# Seconds that papermill waits for a kernel to start, and for the last output of a finished cell.
# By default the latter is 4 seconds, which fails finished cells on a busy machine.
PATIENCE = {"start_timeout": 600, "iopub_timeout": 600}


@dataclass
class Outcome:
    """How the run of a notebook went."""

    problem: str = ""  # why the notebook is not done, in one line; empty if it is done
    products: list[str] = field(default_factory=list)  # the stored products that it used


def execute(
    notebook: Path, parameters: dict[str, Any], target: Path, log: Path, heading: str
) -> Outcome:
    """Run a notebook, and show on one line which cell and step it has reached.

    Parameters
    ----------
    notebook : Path
    parameters : dict
        Values for its parameters cell.
    target : Path
        Where the executed notebook is written, even if it failed.
    log : Path
        File for what the kernel and its workers print outside of cells.
    heading : str
        How the line begins.
    """
    target.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="thesis-run-") as scratch:
        run = _Run(notebook, parameters, Path(scratch), log)
        # In a thread, because nbclient would otherwise handle the signals that `run_all` handles.
        thread = threading.Thread(target=run.run, daemon=True)
        thread.start()
        _show_progress(thread, run, heading)
        if run.executed.exists():
            write_atomically(target, run.executed.read_bytes())
        return Outcome(run.problem, run.read_products())


def _show_progress(thread: threading.Thread, run: "_Run", heading: str) -> None:
    terminal = sys.stdout.isatty()
    line = f"{heading}  {{desc}}  {{elapsed}}" + ("" if terminal else "\n")
    interval = 0.2 if terminal else 5.0  # in a file each change is a line of its own
    with tqdm(
        file=sys.stdout, mininterval=interval, bar_format=line, leave=False, dynamic_ncols=True
    ) as status:
        while thread.is_alive():
            status.set_description_str(run.describe_position(), refresh=False)
            status.update()
            thread.join(0.2)


class _Run:
    def __init__(self, notebook: Path, parameters: dict[str, Any], scratch: Path, log: Path):
        self.notebook, self.parameters, self.log = notebook, parameters, log
        self.executed, self.progress = scratch / "notebook.ipynb", scratch / "progress"
        self.products = scratch / "products"
        self.position = "starting"
        self.problem = ""

    def describe_position(self) -> str:
        """Cell and step, such as `cell 7/12: training students 3/11`; the cell alone if unknown."""
        with contextlib.suppress(OSError):  # the cell has noted no step, or has just ended
            step = self.progress.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            return f"{self.position}: {step}"
        return self.position

    def read_products(self) -> list[str]:
        """Names of the products that the notebook used, as `Notebook.finish` wrote them."""
        if self.products.exists():
            return json.loads(self.products.read_text(encoding="utf-8"))
        return []

    def run(self) -> None:
        """Run the notebook; if it is not done afterwards, `problem` says why."""
        try:
            self.problem = self._execute()
        except Exception as error:
            self.problem = f"{self.position}: {shorten(type(error).__name__, str(error))}"

    def _execute(self) -> str:
        import nbformat
        import papermill
        from jupyter_client import AsyncKernelManager
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        logging.getLogger("papermill").addHandler(logging.NullHandler())  # we report errors
        os.environ["THESIS_PROGRESS"] = str(self.progress)  # the kernel inherits them
        os.environ["THESIS_PRODUCTS"] = str(self.products)
        source = nbformat.read(self.notebook, 4)
        tagged = [
            number
            for number, cell in enumerate(source.cells)
            if "parameters" in cell.metadata.get("tags", [])
        ]
        if len(tagged) != 1:  # papermill would run it with wrong parameters and report success
            return f"expected exactly one cell tagged 'parameters', found {len(tagged)}"

        def note_position(cell: Any, cell_index: int) -> None:
            number = cell_index + (cell_index <= tagged[0])  # papermill inserts a cell after it
            self.progress.unlink(missing_ok=True)  # the steps were those of the previous cell
            self.position = f"cell {number}/{len(source.cells)}"

        with open(self.log, "w", encoding="utf-8") as log:

            class LoggedKernelManager(AsyncKernelManager):
                async def start_kernel(self, **options: Any) -> None:
                    await super().start_kernel(stdout=log, stderr=log, **options)

            try:
                papermill.execute_notebook(
                    source,
                    self.executed,
                    self.parameters,
                    kernel_name="python3",
                    language="python",  # a stripped notebook need not name its language
                    **PATIENCE,
                    cwd=self.notebook.parent,
                    progress_bar=False,
                    on_cell_start=note_position,
                    kernel_manager_class=LoggedKernelManager,
                )
            except PapermillExecutionError as error:
                return f"{self.position}: {self._describe(error)}"
            except DeadKernelError:
                return f"{self.position}: {KERNEL_DIED}"
        return describe_incomplete(nbformat.read(self.executed, 4).cells, self.notebook.stem)

    def _describe(self, error: Any) -> str:
        """Describe an error in a cell in one line."""
        import nbformat

        if line := shorten(error.ename, error.evalue):
            return line
        # A wrong magic command raises nothing; its message is the last line on stderr.
        cells = nbformat.read(self.executed, 4).cells
        outputs = [part for cell in cells for part in cell.get("outputs", ())]
        printed = "".join(part.text for part in outputs if part.get("name") == "stderr").strip()
        return printed.rpartition("\n")[2] or "the cell failed without a message"


def shorten(name: str, message: str) -> str:
    """Join an error's name and the first line of its message that has a word.

    Empty if no line has one and the name is only papermill's placeholder.
    """
    for line in message.splitlines():
        if any(map(str.isalnum, line)):
            return f"{name}: {line.strip()}"
    return "" if name == "CellExecutionError" else f"{name}, without a message"


def describe_incomplete(cells: list[Any], name: str) -> str:
    """Say what is missing from a notebook that ended without an error; empty if nothing is.

    A cell may end the kernel with exit code 0, and papermill then calls the notebook complete.
    """
    cells = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    if pending := sum(cell.execution_count is None for cell in cells):
        return f"{pending} of its {len(cells)} code cells did not run"
    printed = "".join(part.get("text", "") for part in cells[-1].outputs)
    if f"{MARKER} {name}" in printed:
        return ""
    return "its last cell is not nb.finish(), or did not reach its end"


def end_children() -> None:
    """Kill all descendants of this process.

    Files are written atomically, so none is left half-written.
    """
    for _ in range(20):  # a process may start another between the listing and the kill
        children = psutil.Process().children(recursive=True)
        if not children:
            return
        for child in children:
            with contextlib.suppress(psutil.Error):
                child.kill()
        psutil.wait_procs(children, timeout=1)
        time.sleep(0.05)
