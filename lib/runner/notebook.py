"""The frame of every notebook: `nb = notebook.start("02_structural_loss", globals())` checks its
parameters first, and `nb.finish()` its promised figures and tables last.

What loads NumPy or torch is imported in functions: `start` sets variables that they read.
"""

import functools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from lib.config import environment, manifest, paths, profiles
from lib.config.schema import Profile

PARAMETERS = ("profile", "seeds", "only", "overrides")
MARKER = "notebook complete:"  # a notebook that has not printed this did not reach its end
PLAIN = str | int | float | bool | list | tuple | dict | None  # what a parameter may be
NOTED = ("seed", "device", "fingerprint", "embedding_fingerprint")  # columns of records


class Notebook:
    """One run of a notebook: its profile, the labels that it promises, and those saved so far."""

    def __init__(self, name: str, profile: Profile):
        self.name, self.profile = name, profile
        self.promised = manifest.promised(manifest.load(), name, profile.labels)
        self.saved: list[str] = []

    @functools.cached_property
    def bench(self) -> Any:
        """What experiments of this profile share, a `lib.experiments.bench.Bench`."""
        from lib.experiments.bench import Bench

        return Bench(self.profile)

    def makes(self, label: str) -> bool:
        """Whether this run saves a figure or table: the profile lists it, or lists none."""
        return self.profile.labels is None or label in self.profile.labels

    def versions(self) -> None:
        """Print what the numbers below depend on."""
        print(*(f"{name} {version}" for name, version in environment.versions().items()), sep=", ")
        print(f"profile: {self.profile.name}", self.profile.departures or "")

    def offer(self, draw: Callable[..., Any], **controls: Any) -> None:
        """Call `draw`, which makes a figure; in JupyterLab with `controls` of ipywidgets."""
        from IPython import get_ipython
        from ipywidgets import interact

        can_answer = getattr(getattr(get_ipython(), "kernel", None), "_allow_stdin", False)
        interact(draw, **controls) if can_answer else draw()

    def save(self, figure: Any, label: str, data: Any, records: Any = None) -> None:
        """Save a figure, its data, and the provenance of `records`, if this run makes the label."""
        from lib import figures

        if self.makes(label):
            figures.save(figure, label, data, paths.figures(self.profile))
            self._note(label, records)

    def save_table(self, data: Any, label: str, caption: str = "", records: Any = None) -> None:
        """Save a table as CSV and for reading; `caption` replaces that of `params/tables.yaml`."""
        from lib.figures import tables

        if self.makes(label):
            rounds = manifest.printed_rounds(self.profile.final.rounds)
            data.attrs |= {"label": label, "rounds": rounds}
            tables.save(data, label, paths.figures(self.profile), caption=caption)
            self._note(label, records)

    def _note(self, label: str, records: Any) -> None:
        """Write `provenance/<label>.json`: from what products, code and versions it was made."""
        from lib.store import write_text

        store = self.bench.store if "bench" in self.__dict__ else None
        facts: dict[str, Any] = {
            "label": label,
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            **environment.commit(),
            "versions": environment.versions(),
            "profile": self.profile.name,
            "departures": self.profile.departures,
            "used": sorted(store.used) if store else [],
            "outdated": sorted(store.outdated) if store else [],
        }
        if records is not None:
            for column in records.columns.intersection(NOTED):
                facts[column] = sorted(records[column].dropna().unique().tolist())
        path = paths.run_folder(self.profile) / "provenance" / f"{label}.json"
        write_text(path, json.dumps(facts, indent=1, ensure_ascii=False))
        self.saved.append(label)

    def finish(self) -> None:
        """Print the marker; RuntimeError if something was not saved that the manifest promises."""
        missing = ", ".join(label for label in self.promised if label not in self.saved)
        if missing and not self.profile.only:  # with `only` a figure may have nothing to show
            raise RuntimeError(f"{self.name} did not save {missing}: run all cells above this one")
        print(MARKER, self.name, *dict.fromkeys(self.saved))


def start(name: str, namespace: dict[str, Any]) -> Notebook:
    """Check the parameters in a notebook's `globals()`, or ParameterError; prepare its process."""
    given = {} if "nb" in namespace else namespace  # the cell may run again, with all names there
    namespace |= dict.fromkeys(namespace.keys() & {"nb", "bench", "P"})  # stale if this fails
    for variable, value in given.items():
        own = variable.startswith("_") or variable in ("In", "Out", *PARAMETERS)
        if isinstance(value, PLAIN) and not own:
            problem = profiles.make_unknown_error("parameter", variable, PARAMETERS)
            raise profiles.ParameterError(f"{problem}; correct it and restart the kernel")
    profile = profiles.load(**{parameter: namespace[parameter] for parameter in PARAMETERS})
    if manifest.PUBLISHED in (name, profile.name) and name != profile.name:
        told = f"the profile {profile.name!r} is not for this notebook"
        raise profiles.ParameterError(f"{name}: {told}")
    environment.set_process_environment(offline=profile.offline)
    if get_ipython := namespace.get("get_ipython"):
        from lib.figures import tables

        html = get_ipython().display_formatter.formatters["text/html"]
        html.for_type_by_name("pandas", "DataFrame", functools.partial(tables.render, "html"))
    return Notebook(name, profile)
