"""The frame of every notebook: checked parameters first, the promised figures and tables last.

A notebook opens with `nb = notebook.start("02_structural_loss", globals())` and closes with
`nb.finish()`, whether a person or a program runs it.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib.config import environment, manifest, paths, profiles
from lib.config.schema import Profile
from lib.store import parallel, provenance

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from lib.experiments.bench import Bench

PARAMETERS = ("profile", "seeds", "only", "overrides")
MARKER = "notebook complete:"  # a notebook that has not printed this did not reach its end
PLAIN = str | int | float | bool | list | tuple | dict | None  # what a parameter may be


class Notebook:
    """One run of a notebook: its profile, the labels it must save, and the files saved so far.

    `bench` is made on first use. It reads or makes what students share.
    """

    def __init__(self, name: str, profile: Profile):
        self.name, self.profile = name, profile
        self.promised = manifest.promised(manifest.load(), name)
        self.saved: dict[str, list[Path]] = {}

    @functools.cached_property
    def bench(self) -> Bench:
        """What experiments of this profile share."""
        from lib.experiments.bench import Bench

        return Bench(self.profile)

    def versions(self) -> None:
        """Print what the numbers below depend on: versions, processor, threads."""
        import torch

        device = f"CPU ({platform.machine()})"
        if torch.cuda.is_available():
            device = torch.cuda.get_device_name()
        print(*(f"{name} {version}" for name, version in provenance.versions().items()), sep=", ")
        workers = os.environ.get("THESIS_DASK") or f"{parallel.count_processes()} processes"
        print(f"device: {device}, {torch.get_num_threads()} thread a process, {workers}")
        changed = [f"changed: {key} = {value!r}" for key, value in self.profile.departures.items()]
        print(f"profile: {self.profile.name}", *changed, sep="\n  ")

    def save(
        self, figure: Figure, label: str, data: pd.DataFrame, records: pd.DataFrame | None = None
    ) -> None:
        """Save a figure as SVG, its data as CSV, and how it was made.

        Parameters
        ----------
        figure : Figure
        label : str
            A label of `params/manifest.yaml`.
        data : DataFrame
            A row for each value that is drawn.
        records : DataFrame, optional
            The records behind it, for the provenance.
        """
        from lib import figures

        files = figures.save(figure, label, data, paths.figures(self.profile))
        self._note(label, files, records)

    def save_table(
        self,
        table: pd.DataFrame,
        label: str,
        caption: str = "",
        records: pd.DataFrame | None = None,
    ) -> None:
        """Save a table as CSV with six decimals, and as Markdown and LaTeX for reading.

        A `caption` replaces the one in `params/figures.yaml`. For other arguments see `save`.
        """
        from lib.config import roles
        from lib.figures import tables

        table.attrs |= {"label": label, "rounds": roles.printed_rounds(self.profile.final.rounds)}
        files = tables.save(table, label, paths.figures(self.profile), caption=caption)
        self._note(label, files, records)

    def _note(self, label: str, files: list[Path], records: pd.DataFrame | None) -> None:
        stale = [f"{kind}/{key}" for kind, key in self._cache_facts("kept")]
        provenance.write(label, profile=self.profile, files=files, records=records, stale=stale)
        self.saved[label] = files

    def _cache_facts(self, name: str) -> dict[tuple[str, str], Path]:
        """What the cache has noted as `used` or `kept`; empty if the notebook used no bench."""
        return getattr(self.bench.cache, name) if "bench" in self.__dict__ else {}

    def finish(self) -> None:
        """Check that all promised files were saved, and print the marker.

        Raises `RuntimeError` if a file is missing, or is not in `params/manifest.yaml`.
        """
        present = {file.name for files in self.saved.values() for file in files if file.is_file()}
        missing = [
            name
            for label, entry in self.promised.items()
            if label in self.saved or not self.profile.only  # else there may be nothing to draw
            for name in entry.files
            if name not in present
        ]
        if missing:
            raise RuntimeError(
                f"{self.name} did not save {', '.join(missing)}: run all cells above nb.finish()"
            )
        listed = {name for entry in self.promised.values() for name in entry.files}
        if unknown := ", ".join(sorted(present - listed)):
            raise RuntimeError(
                f"{self.name} saved {unknown}, which params/manifest.yaml does not list for it"
            )
        if file := os.environ.get("THESIS_PRODUCTS"):  # the runner asks
            used = self._cache_facts("used").values()
            products = [os.path.relpath(note, paths.store()) for note in used]
            Path(file).write_text(json.dumps(products), encoding="utf-8")
        print(MARKER, self.name, *self.saved)


def start(name: str, namespace: dict[str, Any]) -> Notebook:
    """Check a notebook's parameters and prepare its process.

    Call it before heavy imports, because it sets variables that NumPy and torch read.

    Parameters
    ----------
    name : str
        The notebook's file name, without its suffix.
    namespace : dict
        The notebook's `globals()`.

    Raises
    ------
    ParameterError
        If a parameter is missing, misspelt or wrong.
    """
    _check_names(name, namespace)
    values = {parameter: namespace[parameter] for parameter in PARAMETERS}
    profile = profiles.load(values.pop("profile"), **values)
    if manifest.PUBLISHED in (name, profile.name) and name != profile.name:
        raise profiles.ParameterError(
            f"{name}: the profile {profile.name!r} is not for this notebook"
        )
    environment.set_process_environment(offline=profile.offline)  # before NumPy and torch load
    parallel.count_processes()  # refuses a wrong THESIS_JOBS now, not in a minute
    notebook = Notebook(name, profile)
    if profile.only and "THESIS_PROGRESS" not in os.environ:  # else run_all.sh has checked it
        from lib.published import figure_models

        profiles.check_only(profile.only, figure_models.names(notebook.promised))
    # tqdm warns of missing ipywidgets if a library imports its notebook bar; we show none.
    warnings.filterwarnings("ignore", message="IProgress not found")
    if get_ipython := namespace.get("get_ipython"):
        _prepare_shell(get_ipython())
    return notebook


def _check_names(name: str, namespace: dict[str, Any]) -> None:
    """Refuse a parameter that is missing, and a variable that looks like a misspelt one.

    In a new kernel only the parameters cell has run, so any other plain value is a misspelt
    parameter.
    """
    if missing := [parameter for parameter in PARAMETERS if parameter not in namespace]:
        raise profiles.ParameterError(
            f"{name}: the parameter {missing[0]!r} is not set: run the parameters cell first"
        )
    if "nb" in namespace:  # not the first call: by now the notebook has variables of its own
        return
    for variable, value in namespace.items():
        own = variable.startswith("_") or variable in ("In", "Out", *PARAMETERS)
        if isinstance(value, PLAIN) and not own:
            problem = profiles.make_unknown_error("parameter", variable, PARAMETERS)
            raise profiles.ParameterError(f"{problem}; correct it and restart the kernel")


def _prepare_shell(shell: Any) -> None:
    """Show interrupts as one line, and tables formatted for reading."""

    def format_table(frame: Any) -> str:
        from lib.figures import tables

        return tables.to_html(frame)

    shell.set_custom_exc((KeyboardInterrupt,), _show_interrupt)
    html = shell.display_formatter.formatters["text/html"]
    html.for_type_by_name("pandas", "DataFrame", format_table)


def _show_interrupt(
    shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    """Show an interrupt as one line, wherever it occurred, and end the workers."""
    parallel.end_workers()
    functions = [frame.name for frame in traceback.extract_tb(trace)]
    message = parallel.GO_ON
    # The first two frames are IPython's. A process cannot import torch a second time.
    if not {"<module>", "_find_and_load"}.isdisjoint(functions[2:]):
        message = "packages were loading: restart the kernel and run all cells"
    shell.showtraceback((parallel.Interrupted, parallel.Interrupted(message), None))
