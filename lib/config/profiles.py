"""Reads and checks the parameters in `params/`.

An invalid one is a `ParameterError`: one line with the file, the key and what pydantic says.
"""

import difflib
import fnmatch
import re
import reprlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lib.config import paths
from lib.config.schema import Profile

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
    before = validated(Profile, values, where).flat()
    for key, value in _read_overrides(overrides).items():
        *sections, field = key.split(".")
        place = values
        for section in sections:
            if not isinstance(place.get(section), dict):
                place[section] = {}
            place = place[section]
        place[field] = value
    if seeds is not None:
        values["seeds"] = seeds
    if only:
        values["only"] = only
    profile = validated(Profile, values, f"override of {where}", before)
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
    if not isinstance(values, dict) or "extends" not in values:
        return values
    extended = _read_profile(values.pop("extends"))
    for key, value in values.items():
        both = isinstance(value, dict) and isinstance(extended.get(key), dict)
        extended[key] = extended[key] | value if both else value
    return extended


def _read_overrides(overrides: Overrides) -> Mapping[str, Any]:
    """Convert overrides of either form to dotted key -> value."""
    if isinstance(overrides, Mapping):
        return overrides
    values = {}
    for text in overrides or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(f"override {text!r}: expected key=value, as in heads.repeats=2")
        values[key] = _parse(value, f"override {key}")
    return values


def grid(name: str) -> dict[str, Any]:
    """Read the grid `params/grids/<name>.yaml`, what the thesis varied in one section."""
    return read_yaml(f"grids/{name}.yaml")


def read_yaml(file: str) -> Any:
    """Read a YAML file of `params/`; ParameterError with file and line if it is not valid YAML."""
    return _parse((paths.PARAMS / file).read_bytes(), f"params/{file}")


def entries(file: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the entries of a file of `params/` as key, fields, and the place for messages."""
    yield from ((key, fields, f"{file}: {key}") for key, fields in read_yaml(file).items())


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


def validated(model: type[BaseModel], values: Any, where: str, keys: Iterable[str] = ()) -> Any:
    """Check values and make a `model` of them; a ParameterError begins with `where`.

    For a key that is not among the model's it suggests the nearest of `keys`.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "extra_forbidden" and keys:
            key = ".".join(map(str, first["loc"]))
            raise ParameterError(f"{where}: {make_unknown_error('key', key, keys)}") from None
        raise ParameterError(f"{where}: {describe_error(error)}") from None


def describe_error(error: ValidationError) -> str:
    """The first thing that pydantic finds wrong, on one line: key, message, value."""
    first = error.errors()[0]
    key = ".".join(map(str, first["loc"]))
    given = reprlib.repr(first["input"])[:80]  # an alias can be endless
    return f"{key}: {first['msg']}, got {given}" if key else first["msg"]
