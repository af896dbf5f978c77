"""What a command line asks for: a profile, its notebooks, and how to run them."""

import argparse
from pathlib import Path
from typing import NoReturn

from lib.config import manifest, paths, profiles
from lib.config.schema import Profile
from lib.store import parallel


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise profiles.ParameterError(message)


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the options of `run_all.sh`; derive `profile`, `requests` and `overrides` from them.

    Raises `ParameterError` for mistakes that show without reading the profile.
    """
    parser = _Parser(prog="run_all.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--set", dest="assignments", nargs="+", action="extend", default=[])
    parser.add_argument("--only", default="")
    for option in ("--budget", "--seeds", "--jobs", "--dask"):
        parser.add_argument(option)
    for option in ("--force", "--keep", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_intermixed_args(words)
    # `--set a=1 b=2 fig4_2`: a word without "=" is a request
    options.overrides = [word for word in options.assignments if "=" in word]
    options.requests += [word for word in options.assignments if "=" not in word]
    if options.dask and options.jobs:
        raise profiles.ParameterError(
            "--jobs and --dask exclude each other: --jobs counts processes on this machine, "
            "--dask uses all workers of a scheduler"
        )
    options.jobs = parallel.count_processes(options.jobs)
    names = profiles.list_profiles()
    named = list(dict.fromkeys(word for word in options.requests if word in names))
    if len(named) > 1:
        raise profiles.ParameterError(
            f"two profiles at once: {' and '.join(named)}; run them one after the other"
        )
    options.profile = named[0] if named else "mini"
    options.requests = [word for word in options.requests if word not in named]
    if options.budget:
        given = f"{options.profile} --budget {options.budget}"
        if given not in ("lab --budget cpu", "lab --budget gpu"):
            raise profiles.ParameterError(
                f"expected lab --budget cpu or lab --budget gpu, got {given}"
            )
    if options.budget == "gpu":
        options.profile = "lab_gpu"
    return options


def select_notebooks(profile: Profile, requests: list[str]) -> dict[Path, list[manifest.Entry]]:
    """Choose the notebooks to run, in order, each with the figures and tables that it makes.

    Raises `ParameterError` if a request matches nothing, or if `--only` matches no model of the
    requested figures.
    """
    pattern = "[0-9]*"
    if profile.name == manifest.PUBLISHED:
        pattern = manifest.PUBLISHED
    elif profile.notebook and not requests:
        pattern = profile.notebook
    files = {path.stem: path for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb"))}
    entries = manifest.load()
    promised = {name: manifest.promised(entries, name) for name in files}
    present = {label: entry for made in promised.values() for label, entry in made.items()}
    for label in requests:
        if label in entries and label not in present:
            raise profiles.ParameterError(
                f"{label} is not among the published figures and tables; "
                f"./run_all.sh mini {label} makes ours"
            )
    names = manifest.select(present, files, requests)
    if profile.only:
        from lib.published import figure_models  # loads pandas

        labels = [label for name in names for label in promised[name]]
        profiles.check_only(profile.only, figure_models.names(labels))
    return {files[name]: list(promised[name].values()) for name in names}
