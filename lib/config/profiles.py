"""Reads and checks the parameters in `params/`."""

import contextlib
import copy
import difflib
import fnmatch
import functools
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lib.config import paths
from lib.config.schema import Profile
from lib.messages import OneLine

T = TypeVar("T")
_parse_once = functools.cache(lambda text: YAML(typ="safe", pure=True).load(text))


class ParameterError(OneLine, ValueError):
    """A parameter that cannot be used: one line with file, key and what pydantic says."""


def nearest(name: Any, names: Iterable[Any]) -> str:
    """Return the most similar of `names`."""
    return (difflib.get_close_matches(str(name), sorted(names), cutoff=0.0) or ["(none)"])[0]


def make_unknown_error(what: str, name: Any, valid: Iterable[str]) -> ParameterError:
    """Make the error for a name that is not among the valid ones; it suggests the nearest."""
    return ParameterError(f"unknown {what} {name!r}; nearest: {nearest(name, valid)}")


def list_profiles() -> list[str]:
    """List the profiles: the files of `params/` that have a `name`."""
    files = sorted(paths.PARAMS.glob("*.yaml"))
    return [file.stem for file in files if re.search(rb"^name:", file.read_bytes(), re.M)]


def load(
    profile: str,
    *,
    overrides: Mapping[str, Any] | list[str] | None = None,
    seeds: Iterable[int] | int | str | None = None,
    only: str = "",
) -> Profile:
    """Load and check a profile, with changes by the caller; `ParameterError` if one is not allowed.

    `overrides` are `{"training.documents": 60}` or `["training.documents=60"]`, `seeds` a number,
    several, or text such as `"0,1"`, and `only` shell patterns, `"cosine,max-margin;MSE*"`.
    """
    where, values = f"params/{profile}.yaml", _read_profile(profile)
    before = validated(Profile.model_validate, values, where).flat()
    if not isinstance(overrides, Mapping):
        pairs = ((each if "=" in each else f"{each}=''").partition("=") for each in overrides or ())
        overrides = {key: _parse(value, f"override {key}") for key, _, value in pairs}
    changes = dict(overrides)
    if seeds is not None:
        changes["seeds"] = _parse(f"[{seeds}]", "seeds") if isinstance(seeds, str | int) else seeds
    if only:
        changes["only"] = only
    for key, value in changes.items():
        *sections, field = key.split(".")
        place = values
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = {}
            place = place[section]
        place[field] = value
    values["name"] = profile  # of its file, where results are saved
    loaded = validated(Profile.model_validate, values, f"override of {where}")
    flat = loaded.flat().items()
    loaded.departures.update({key: value for key, value in flat if before.get(key, ...) != value})
    return loaded


def _read_profile(name: str) -> Any:
    """The values of a profile's file, merged into those of the profile that it `extends`."""
    if name not in list_profiles():
        raise make_unknown_error("profile", name, list_profiles())
    values = read_yaml(f"{name}.yaml")
    extended = _read_profile(values.pop("extends")) if "extends" in values else {}
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(extended.get(key), dict)
        extended[key] = extended[key] | value if both else value
    return extended


def grid(name: str) -> dict[str, Any]:
    """Read the grid `params/grids/<name>.yaml`, what the thesis varied in one section."""
    return read_yaml(f"grids/{name}.yaml")


def read_yaml(file: str) -> Any:
    """Read a file of `params/`, to be changed at will; ParameterError if it is not valid YAML."""
    return _parse((paths.PARAMS / file).read_bytes(), f"params/{file}")


def _parse(text: str | bytes, where: str) -> Any:
    """Parse a text as YAML 1.2, where `1e-4` is a number and a repeated key is an error."""
    try:
        return copy.deepcopy(_parse_once(text))  # callers change it
    except (YAMLError, TypeError, ValueError) as error:
        raise ParameterError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None


def matches(name: str, only: str) -> bool:
    """Whether a model's name matches one of the comma-separated shell patterns in `only`."""
    return any(fnmatch.fnmatchcase(name, pattern.strip()) for pattern in only.split(","))


def validated(check: Callable[[Any], T], values: Any, where: object) -> T:
    """Check values with a method of pydantic; ParameterError for the first thing that is wrong."""
    try:
        return check(values)
    except ValidationError as error:
        first = error.errors()[0]
        places, key = first["loc"], ".".join(map(str, first["loc"]))
        given = reprlib.repr(first["input"])[:80]  # an alias can be endless
        told = f"{key}: {first['msg']}, got {given}" if key else first["msg"]
        if first["type"] == "extra_forbidden":
            for place in places[:-1]:
                with contextlib.suppress(KeyError):  # a union's tag is no key
                    values = values[place]
            told = f"unknown key {key}; nearest: {nearest(places[-1], {*values} - {places[-1]})}"
        raise ParameterError(f"{where}: {told}") from None
