"""The frame of every notebook: checked parameters first, the promised figures and tables last.

A notebook opens with `nb = notebook.start("02_structural_loss", globals())` and closes with `nb.finish()`. The same
check serves JupyterLab, papermill and `run_all.sh`, so a misspelt parameter never does nothing.
"""

from __future__ import annotations

import ast
import importlib.metadata
import os
import platform
import sys
import types
import warnings
from typing import Any

from lib.config import environment, figure_models, manifest, profiles
from lib.config.schema import Profile
from lib.store import executors, saved

PARAMETERS = ("profile", "seeds", "only", "overrides")
MARKER = "notebook complete:"  # the runner looks for it: an executed notebook without it did not reach its end
SHOWN = ("torch", "transformers", "sentence-transformers", "gensim", "scikit-learn", "numpy", "pandas")

_current: Notebook | None = None


class Notebook:
    """One run of a notebook: its profile, the labels it owes, and what it has saved so far."""

    def __init__(self, name: str, profile: Profile, promised: dict[str, manifest.Entry]):
        self.name = name
        self.profile = profile
        self.promised = promised
        asked = [label for label in os.environ.get("THESIS_LABELS", "").split(",") if label]
        self.wanted = [label for label in promised if label in asked or not asked]

    def wants(self, label: str) -> bool:
        """Whether this run has to make `label`; `./run_all.sh mini fig4_2` asks for that one alone.

        Raises `ValueError` for a label that the manifest does not list for this notebook.
        """
        if label not in self.promised:
            nearest = profiles.nearest(label, self.promised)
            raise ValueError(f"{label!r} is not listed for {self.name} in params/manifest.yaml; nearest: {nearest}")
        return label in self.wanted

    def versions(self) -> None:
        """Print what the numbers below depend on: versions, processor, threads."""
        import torch

        versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in SHOWN)
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else f"CPU ({platform.machine()})"
        print(f"Python {platform.python_version()}, {versions}")
        print(f"device: {device}, {torch.get_num_threads()} thread a process, {executors.jobs()} processes")
        print(f"profile: {self.profile.name}")
        for key, value in self.profile.departures.items():
            print(f"  changed: {key} = {value!r}")

    def finish(self) -> None:
        """Check that everything this run owes was saved, and print the marker that the runner looks for.

        Raises `RuntimeError` naming what is missing. With a filter on variants (`only`) a figure may be left out.
        """
        unknown = [label for label in saved.labels() if label not in self.promised]
        if unknown:
            raise RuntimeError(
                f"{self.name} saved {', '.join(unknown)}, which params/manifest.yaml does not list for it"
            )
        missing = [label for label in self.wanted if label not in saved.labels() and not self.profile.only]
        if missing:
            raise RuntimeError(f"{self.name} did not save {', '.join(missing)}: run the cells above it first")
        for label, files in saved.labels().items():
            names = {file.name for file in files if file.is_file()}
            if names != set(self.promised[label].files):
                promised = ", ".join(self.promised[label].files)
                raise RuntimeError(
                    f"{label} was saved as {', '.join(sorted(names))}; params/manifest.yaml says {promised}"
                )
        print(MARKER, self.name, *saved.labels())


def start(name: str, namespace: dict[str, Any]) -> Notebook:
    """Check the notebook's parameters and prepare the process; call it before the imports that cost time.

    Args:
        name: the notebook's file name without `.ipynb`.
        namespace: the notebook's `globals()`, holding `profile`, `seeds`, `only` and `overrides`.

    Raises:
        ParameterError: a parameter that is unknown, missing or has an impossible value, in one line.
    """
    global _current
    _reject_unknown(namespace)
    missing = [parameter for parameter in PARAMETERS if parameter not in namespace]
    if missing:
        raise profiles.ParameterError(f"{name}: the parameter {missing[0]!r} is not set: run the parameters cell first")
    values = {parameter: namespace[parameter] for parameter in PARAMETERS}
    profile = profiles.load(values.pop("profile"), **values)
    executors.jobs()  # a THESIS_JOBS that cannot be met is better known now than after the first minute
    environment.set_process_environment(offline=profile.offline)
    # tqdm asks for ipywidgets when some library imports its notebook bar; progress is shown without it.
    warnings.filterwarnings("ignore", message="IProgress not found")
    saved.forget()
    promised = manifest.promised(manifest.load(), name)
    if profile.only and "THESIS_PROGRESS" not in os.environ:  # run_all.sh has checked it for all its notebooks
        profiles.check_only(profile.only, figure_models.names(promised))
    _current = Notebook(name, profile, promised)
    return _current


def _reject_unknown(namespace: dict[str, Any]) -> None:
    """Names that somebody set as parameters, and that are none.

    Before the first `start`, every plain name in the namespace is meant as one (papermill puts them there). When the
    cell is run again, the notebook's own variables are there too, so only the parameter cells are looked at.
    """
    cells = [str(cell) for cell in namespace.get("In", ())]
    if _current is None:
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        hidden = set(getattr(shell, "user_ns_hidden", ()))
        given = [
            name
            for name, value in namespace.items()
            if not name.startswith("_") and name not in hidden and name not in ("In", "Out")
            if not isinstance(value, types.ModuleType) and not callable(value)
        ]
    else:
        given = [name for cell in cells for name in _assigned(cell)]
    for name in given:
        if name not in PARAMETERS:
            raise profiles.ParameterError(
                f"unknown parameter {name!r}; nearest: {profiles.nearest(name, PARAMETERS)} "
                f"(of {', '.join(PARAMETERS)}); correct it and restart the kernel"
            )


def _assigned(cell: str) -> list[str]:
    """The names that a parameters cell assigns; nothing for any other cell."""
    try:
        body = ast.parse(cell).body
    except SyntaxError:  # a cell with a magic command is no parameters cell
        return []
    names = [
        target.id
        for node in body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    return names if set(names) & set(PARAMETERS) or cell.startswith("# Parameters") else []
