"""The frame of every notebook: checked parameters first, the promised figures and tables last.

It opens with `nb = notebook.start("02_structural_loss", globals())` and closes with `nb.finish()`, however it is run.
"""

import os
import platform
import re
import traceback
import warnings
from dataclasses import dataclass
from typing import Any

from lib.config import environment, manifest, profiles
from lib.config.schema import Profile
from lib.store import executors, provenance

PARAMETERS = ("profile", "seeds", "only", "overrides")
MARKER = "notebook complete:"  # the runner looks for it: an executed notebook without it did not reach its end


@dataclass(frozen=True)
class Notebook:
    """One run of a notebook: its profile, the labels it owes, and what it has saved so far."""

    name: str
    profile: Profile
    promised: dict[str, manifest.Entry]

    @property
    def wanted(self) -> list[str]:
        """What this run has to make: the labels that were asked for, else those that the profile shows."""
        asked = os.environ.get("THESIS_LABELS")
        asked = asked.split(",") if asked else self.profile.shown
        return [label for label in self.promised if not asked or label in asked]

    def asked(self, *labels: str) -> list[str]:
        """Those of the labels that this run has to make: for cells that serve several, as tags leave out others."""
        if unknown := [label for label in labels if label not in self.promised]:
            raise profiles.unknown(f"label of {self.name}", unknown[0], self.promised)
        return [label for label in labels if label in self.wanted]

    def versions(self) -> None:
        """Print what the numbers below depend on: versions, processor, threads."""
        import torch

        device = (
            torch.cuda.get_device_name()
            if torch.cuda.is_available()
            else f"CPU ({platform.machine()})"
        )
        print(*(f"{name} {version}" for name, version in provenance.versions().items()), sep=", ")
        work = os.environ.get("THESIS_DASK") or f"{executors.jobs()} processes"
        print(f"device: {device}, {torch.get_num_threads()} thread a process, {work}")
        changed = [f"changed: {key} = {value!r}" for key, value in self.profile.departures.items()]
        print(f"profile: {self.profile.name}", *changed, sep="\n  ")

    def finish(self) -> None:
        """Check that everything this run owes was saved, and print the marker that the runner looks for."""
        saved = provenance.saved
        present = {file.name for files in saved.values() for file in files if file.is_file()}
        owed = [
            label for label in self.wanted if label in saved or not self.profile.only
        ]  # a filter may leave nothing
        if missing := [
            name for label in owed for name in self.promised[label].files if name not in present
        ]:
            raise RuntimeError(
                f"{self.name} did not save {', '.join(missing)}: run the cells above it first"
            )
        listed = {name for entry in self.promised.values() for name in entry.files}
        if unknown := ", ".join(sorted(present - listed)):
            raise RuntimeError(
                f"{self.name} saved {unknown}, which params/manifest.yaml does not list for it"
            )
        print(MARKER, self.name, *saved)


def start(name: str, namespace: dict[str, Any]) -> Notebook:
    """Check the notebook's parameters, in its `globals()`, and prepare the process; heavy imports come after it."""
    for cell in map(str, namespace.get("In", ())):  # the cells that IPython has run
        assigned = re.findall(r"^(\w+) *=(?!=)", cell, re.MULTILINE)
        is_parameters_cell = set(assigned) & set(PARAMETERS) or cell.startswith(
            "# Parameters"
        )  # papermill's
        for parameter in assigned if is_parameters_cell else ():
            if parameter not in PARAMETERS:
                told = profiles.unknown("parameter", parameter, PARAMETERS)
                raise profiles.ParameterError(
                    f"{told} (of {', '.join(PARAMETERS)}); correct it and restart the kernel"
                )
    if missing := [parameter for parameter in PARAMETERS if parameter not in namespace]:
        raise profiles.ParameterError(
            f"{name}: the parameter {missing[0]!r} is not set: run the parameters cell first"
        )
    values = {parameter: namespace[parameter] for parameter in PARAMETERS}
    profile = profiles.load(values.pop("profile"), **values)
    environment.set_process_environment(offline=profile.offline)  # first: `jobs` may import torch
    executors.jobs()  # a THESIS_JOBS that cannot be met is better known now than after the first minute
    # tqdm asks for ipywidgets when some library imports its notebook bar; progress is shown without it.
    warnings.filterwarnings("ignore", message="IProgress not found")
    if shell := namespace.get("get_ipython"):
        shell().set_custom_exc((KeyboardInterrupt,), _interrupted)
    provenance.saved.clear()
    promised = manifest.promised(manifest.load(), name)
    if manifest.PUBLISHED in (name, profile.name) and name != profile.name:
        raise profiles.ParameterError(
            f"{name}: the profile {profile.name!r} is not for this notebook"
        )
    if (
        profile.only and "THESIS_PROGRESS" not in os.environ
    ):  # run_all.sh has checked it for all its notebooks
        from lib.published import figure_models

        profiles.check_only(profile.only, figure_models.names(promised))
    return Notebook(name, profile, promised)


def _interrupted(
    shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None
) -> None:
    """Show an interrupt as one line, wherever it came, and end the workers."""
    executors.end_workers()
    functions = [
        frame.name for frame in traceback.extract_tb(trace)
    ]  # of IPython, of the cell, of what it called
    importing = not {"<module>", "_find_and_load"}.isdisjoint(
        functions[2:]
    )  # torch cannot be imported a second time
    told = (
        "packages were loading: restart the kernel and run all cells"
        if importing
        else executors.GO_ON
    )
    shell.showtraceback((executors.Interrupted, executors.Interrupted(told), None))
