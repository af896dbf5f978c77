"""Reads and checks the parameters in `params/`.

An invalid one is a `ParameterError`: one line with the file, the key and what pydantic says.
"""

import difflib
import fnmatch
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lib.config import paths
from lib.config.schema import Profile

T = TypeVar("T")
Overrides = Mapping[str, Any] | list[str] | None


class OneLine(BaseException):
    """An error that IPython shows as one line, because its place in `lib` would help nobody."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class ParameterError(OneLine, ValueError):
    """A parameter that cannot be used. The message is one line."""


def make_unknown_error(what: str, name: Any, valid: Iterable[str]) -> ParameterError:
    """Make the error for a name that is not among the valid ones; it suggests the nearest."""
    nearest = difflib.get_close_matches(str(name), sorted(valid), n=1, cutoff=0.0) or ["(none)"]
    return ParameterError(f"unknown {what} {name!r}; nearest: {nearest[0]}")


def list_profiles() -> list[str]:
    """List the profiles: the files of `params/` that have a `name`."""
    files = sorted(paths.PARAMS.glob("*.yaml"))
    return [file.stem for file in files if re.search(rb"^name:", file.read_bytes(), re.M)]


def load(
    name: str,
    *,
    overrides: Overrides = None,
    seeds: Iterable[int] | int | str | None = None,
    only: str = "",
) -> Profile:
    """Load and check a profile, with changes by the caller; `ParameterError` if one is not allowed.

    `overrides` are `{"training.documents": 60}` or `["training.documents=60"]`. `seeds` are one,
    several, or text such as `"0,1"`. `only` has shell patterns, `"cosine,max-margin;MSE*"`.
    """
    where = f"params/{name}.yaml"
    values = _read_profile(name)
    before = validated(Profile.model_validate, values, where).flat()
    if not isinstance(overrides, Mapping):
        overrides = dict(map(_read_override, overrides or ()))
    for key, value in overrides.items():
        _put(values, key, value)
    if isinstance(seeds, str | int):
        seeds = _parse(f"[{seeds}]", "seeds")
    if seeds is not None:
        values["seeds"] = seeds
    if only:
        values["only"] = only
    profile = validated(Profile.model_validate, values, f"override of {where}")
    if profile.name != name:  # its results would be saved as those of another
        raise ParameterError(f"{where}: name: expected {name!r}, got {profile.name!r}")
    changes = {key: value for key, value in profile.flat().items() if before.get(key, ...) != value}
    profile.departures.update(changes)
    return profile


def _read_profile(name: str) -> Any:
    """The values of a profile's file, merged into those of the profile that it `extends`."""
    if name not in list_profiles():
        raise make_unknown_error("profile", name, list_profiles())
    values = read_yaml(f"{name}.yaml")
    if "extends" not in values:
        return values
    extended = _read_profile(values.pop("extends"))
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(extended.get(key), dict)
        extended[key] = extended[key] | value if both else value
    return extended


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted key, in sections that may be missing."""
    *sections, field = key.split(".")
    for section in sections:
        if not isinstance(values.get(section), dict):
            values[section] = {}
        values = values[section]
    values[field] = value


def _read_override(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"override {text!r}: expected key=value, as in heads.repeats=2")
    return key, _parse(value, f"override {key}")


def grid(name: str) -> dict[str, Any]:
    """Read the grid `params/grids/<name>.yaml`, what the thesis varied in one section."""
    return read_yaml(f"grids/{name}.yaml")


def read_yaml(file: str) -> Any:
    """Read a YAML file of `params/`; ParameterError with file and line if it is not valid YAML."""
    return _parse((paths.PARAMS / file).read_bytes(), f"params/{file}")


def _parse(text: str | bytes, where: str) -> Any:
    """Parse a text as YAML 1.2, where `1e-4` is a number and a repeated key is an error."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except (YAMLError, TypeError, ValueError) as error:
        raise ParameterError(f"{where}: not valid YAML: {' '.join(str(error).split())}") from None


def matches(name: str, only: str) -> bool:
    """Whether a model's name matches one of the comma-separated shell patterns in `only`."""
    return any(fnmatch.fnmatchcase(name, pattern.strip()) for pattern in only.split(","))


def check_only(only: str, names: Collection[str]) -> None:
    """Raise ParameterError if a pattern of `only` matches no name of a model."""
    for pattern in only.split(","):
        if not any(matches(name, pattern) for name in names):
            raise make_unknown_error("model in only", pattern.strip(), names)


def validated(check: Callable[[Any], T], values: Any, where: object) -> T:
    """Check values with a method of pydantic.

    A ParameterError says, in one line, the first thing that is wrong: `where`, key, message, value.
    """
    try:
        return check(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        given = reprlib.repr(first["input"])[:80]  # an alias can be endless
        told = f"{key}: {first['msg']}, got {given}" if key else first["msg"]
        raise ParameterError(f"{where}: {told}") from None
