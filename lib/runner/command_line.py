"""What a command line asks for: a profile, its notebooks, and how to run them."""

import argparse
from pathlib import Path
from typing import NoReturn

from lib.config import manifest, paths, profiles
from lib.config.profiles import ParameterError
from lib.config.schema import Profile
from lib.jobs import count_processes


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ParameterError(message)


def read_arguments(words: list[str]) -> argparse.Namespace:
    """Parse the words of `run_all.sh` as options, `profile`, `requests`, `overrides`."""
    parser = _Parser(prog="run_all.sh", add_help=False, allow_abbrev=False)
    parser.add_argument("requests", nargs="*")
    parser.add_argument("--set", dest="assignments", nargs="+", action="extend", default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--budget", choices=["cpu", "gpu"])
    parser.add_argument("--seeds")
    workers = parser.add_mutually_exclusive_group()
    workers.add_argument("--jobs")  # processes on this machine
    workers.add_argument("--dask")  # all workers of a scheduler
    for option in ("--force", "--keep", "--dry-run"):
        parser.add_argument(option, action="store_true")
    options = parser.parse_intermixed_args(words)
    options.jobs = count_processes(options.jobs)
    # `--set a=1 b=2 fig4_2`: a word without "=" is a request
    options.overrides = [word for word in options.assignments if "=" in word]
    asked = options.requests + [word for word in options.assignments if "=" not in word]
    named = [*dict.fromkeys(word for word in asked if word in profiles.list_profiles())]
    if len(named) > 1:
        raise ParameterError(f"two profiles at once: {' and '.join(named)}; run one after another")
    options.requests = [word for word in asked if word not in named]
    options.profile = named[0] if named else "mini"
    if options.budget and options.profile != "lab":
        raise ParameterError(f"--budget is for lab, not for {options.profile}")
    if options.budget == "gpu":
        options.profile = "lab_gpu"
    return options


def select_notebooks(profile: Profile, requests: list[str]) -> dict[Path, list[manifest.Entry]]:
    """Choose the notebooks to run, in order, each with the figures and tables that it makes.

    ParameterError if a request, or `--only`, matches nothing.
    """
    pattern = manifest.PUBLISHED if profile.name == manifest.PUBLISHED else "[0-9]*"
    files = {path.stem: path for path in sorted(paths.NOTEBOOKS.glob(f"{pattern}.ipynb"))}
    entries = manifest.load()
    promised = {name: manifest.promised(entries, name, profile.labels) for name in files}
    if profile.labels is not None and not requests:
        files = {name: path for name, path in files.items() if promised[name]}
    present = {label: entry for made in promised.values() for label, entry in made.items()}
    names = manifest.select(present, files, requests)
    if profile.only:
        from lib.published import figure_models  # loads pandas

        labels = [label for name in names for label in promised[name]]
        profiles.check_only(profile.only, figure_models.names(labels))
    return {files[name]: [*promised[name].values()] for name in names}
