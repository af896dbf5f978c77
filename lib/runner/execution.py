"""Run one notebook through papermill, in a kernel of its own; say in one line what went wrong."""

import contextlib
import logging
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from tqdm import tqdm

from lib.runner.notebook import MARKER
from lib.store import write_whole

# Seconds that papermill waits for a kernel to start, and for the last output of a finished cell.
# By default the latter is 4 seconds, which fails finished cells on a busy machine.
PATIENCE = {"start_timeout": 600, "iopub_timeout": 600}


def execute(
    notebook: Path, parameters: dict[str, Any], target: Path, log: Path, heading: str
) -> str:
    """Run a notebook, and show after the heading which cell and step it has reached.

    The executed notebook is written to `target`, even if it failed. What the kernel and its workers
    print outside of cells goes to `log`.

    Returns, in one line, why the notebook is not done; empty if it is done.
    """
    target.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    # In a file each change is a line of its own.
    interval, end = (0.2, "") if sys.stdout.isatty() else (5.0, "\n")
    line = f"{heading}  {{desc}}  {{elapsed}}{end}"
    with (
        tempfile.TemporaryDirectory(prefix="thesis-run-") as scratch,
        tqdm(file=sys.stdout, mininterval=interval, bar_format=line, leave=False) as status,
    ):
        run = _Run(notebook, parameters, Path(scratch), log)
        # In a thread, because nbclient would otherwise handle the signals that `run_all` handles.
        thread = threading.Thread(target=run.run, daemon=True)
        thread.start()
        while thread.is_alive():
            status.set_description_str(run.describe_position(), refresh=False)
            status.update()
            thread.join(0.2)
        if run.executed.exists():
            write_whole(target, lambda file: file.write(run.executed.read_bytes()))
    return run.problem


class _Run:
    def __init__(self, notebook: Path, parameters: dict[str, Any], scratch: Path, log: Path):
        self.notebook, self.parameters, self.log = notebook, parameters, log
        self.executed, self.progress = scratch / "notebook.ipynb", scratch / "progress"
        self.position, self.problem = "starting", ""

    def describe_position(self) -> str:
        """Cell and step, such as `cell 7/12: training students 3/11`; the cell alone if unknown."""
        with contextlib.suppress(OSError):  # the cell has noted no step, or has just ended
            step = self.progress.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            return f"{self.position}: {step}"
        return self.position

    def run(self) -> None:
        """Run the notebook; if it is not done afterwards, `problem` says why."""
        try:
            self.problem = self._execute()
        except Exception as error:
            name, message = type(error).__name__, str(error)
            if name == "DeadKernelError":
                message = (
                    "the kernel died, most likely because memory ran out; close other programs, "
                    "or run with --jobs 1"
                )
            elif name == "PapermillExecutionError":  # its message is the whole traceback
                name, message = error.ename, error.evalue  # type: ignore[attr-defined]
            lines = [line.strip() for line in message.splitlines() if any(map(str.isalnum, line))]
            self.problem = f"{self.position}: {name}: {[*lines, 'no message'][0]}"

    def _execute(self) -> str:
        import nbformat
        import papermill
        from jupyter_client import AsyncKernelManager

        logging.getLogger("papermill").addHandler(logging.NullHandler())  # we report errors
        os.environ["THESIS_PROGRESS"] = str(self.progress)  # the kernel inherits it
        source = nbformat.read(self.notebook, 4)
        tags = (cell.metadata.get("tags", []) for cell in source.cells)
        tagged = [number for number, given in enumerate(tags) if "parameters" in given]
        if len(tagged) != 1:  # papermill would run it with wrong parameters and report success
            raise ValueError(f"expected exactly one cell tagged 'parameters', found {len(tagged)}")

        def note_position(cell: Any, cell_index: int) -> None:
            number = cell_index + (cell_index <= tagged[0])  # papermill inserts a cell after it
            self.progress.unlink(missing_ok=True)  # the steps were those of the previous cell
            self.position = f"cell {number}/{len(source.cells)}"

        with open(self.log, "w", encoding="utf-8") as log:

            class LoggedKernelManager(AsyncKernelManager):
                async def start_kernel(self, **options: Any) -> None:
                    await super().start_kernel(stdout=log, stderr=log, **options)

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
        # papermill is content if a cell ends the kernel with 0
        cells = nbformat.read(self.executed, 4).cells
        cells = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
        if pending := sum(cell.execution_count is None for cell in cells):
            return f"{pending} of its {len(cells)} code cells did not run"
        printed = "".join(part.get("text", "") for part in cells[-1].outputs)
        complete = f"{MARKER} {self.notebook.stem}" in printed
        return "" if complete else "its last cell is not nb.finish(), or did not reach its end"
