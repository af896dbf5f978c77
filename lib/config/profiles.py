"""Typed parameters: `params/<profile>.yaml` holds scale and sources, `params/grids/*.yaml` what the thesis varied.

Everything is checked before anything runs: what cannot be is a `ParameterError`, one line with key, file and the
nearest valid name.
"""

import difflib
import re
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from lib.config import paths
from lib.config.schema import GRIDS, Profile, Settings, patterns, section


class OneLine(BaseException):
    """An error that IPython shows as one line: where it was raised in `lib` helps nobody."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


class ParameterError(OneLine, ValueError):
    """A parameter that cannot be used; the message is one line for a person."""


_REPR = reprlib.Repr()  # shows a value in a message: aliases can make one endless
_REPR.maxlevel, _REPR.maxstring = 2, 80


def nearest(name: str, valid: Iterable[str]) -> str:
    """The valid name that is most like `name`; a dotted name whose last part fits wins."""
    names = sorted(valid)
    same_end = [valid_name for valid_name in names if valid_name.rsplit(".", 1)[-1] == name]
    return (same_end or difflib.get_close_matches(name, names, n=1, cutoff=0.0) or ["(none)"])[0]


def unknown(what: str, name: Any, valid: Iterable[str]) -> ParameterError:
    """The error for a name that is none of the valid ones."""
    return ParameterError(f"unknown {what} {name!r}; nearest: {nearest(str(name), valid)}")


def profiles() -> list[str]:
    """The names of the profiles: the YAML files in `params/` that have a `name`; the manifest, for one, has none."""
    files = (path for path in paths.PARAMS.glob("*.yaml") if path.is_file())
    return sorted(path.stem for path in files if re.search(b"^name:", path.read_bytes(), re.MULTILINE))


def load(
    name: str,
    *,
    overrides: Mapping[str, Any] | Iterable[str] | str | None = None,
    seeds: Iterable[int] | int | str | None = None,
    only: str = "",
) -> Profile:
    """The checked profile `name`, a file in `params/`, with what the caller changes. Raises `ParameterError`.

    overrides: dotted keys, `{"training.documents": 60}`, or assignments, `["training.learning_rate=1e-4"]`; a
        string is one assignment or a JSON mapping, as the command lines of papermill and run_all.sh send it.
    seeds: seeds of every student instead of the profile's: `None`, an integer, a list, or text such as `"0,1"`.
    only: variants to run, comma separated, shell patterns on display labels (`"cosine,max-margin;MSE*"`).
    """
    where = f"params/{name}.yaml"
    if name not in profiles():
        if name in (path.stem for path in paths.PARAMS.glob("*.yaml")):
            raise ParameterError(f"{where} is no profile: it has no line that begins with name:")
        raise unknown("profile", name, profiles())
    values = read_yaml(f"{name}.yaml")
    profile = validated(Profile, values, where)
    if profile.name != name:
        raise ParameterError(f"{where}: name: expected {name!r}, as the file is called, got {profile.name!r}")
    where = f"override of {where}"
    for key, value in _assignments(overrides).items():
        _assign(values, key, value, where)
    if seeds is not None:
        values["seeds"] = seeds
    if only != "":
        values["only"] = only
    changed = validated(Profile, values, where)
    before, after = profile.flat(), changed.flat()
    changed._departures = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return changed


def grid(name: str) -> dict[str, Any]:
    """The checked grid `params/grids/<name>.yaml`, what the thesis varied in one section. Raises `ParameterError`."""
    if name not in GRIDS:
        raise unknown("grid", name, GRIDS)
    file = f"grids/{name}.yaml"
    return validated(GRIDS[name], read_yaml(file), f"params/{file}").model_dump(by_alias=True)


def matches(name: str, only: str) -> bool:
    """Whether a model's name matches one of the comma-separated shell patterns of the parameter `only`."""
    return any(fnmatchcase(name, pattern) for pattern in patterns(only))


def check_only(only: str, names: Iterable[str]) -> None:
    """`ParameterError` for a filter of which a pattern matches none of the names that the requested figures show."""
    shown = set(names)
    for pattern in patterns(only):
        if not any(matches(name, pattern) for name in shown):
            raise ParameterError(f"only: no model is called {pattern!r}; nearest: {nearest(pattern, shown)}")


def read_yaml(file: str) -> dict[str, Any]:
    """The mapping in a YAML file of `params/`; `ParameterError` with file and line where it holds none."""
    where = f"params/{file}"
    try:
        values = _parsed((paths.PARAMS / file).read_text(encoding="utf-8"), where)
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ParameterError(f"{where} line {line}: not UTF-8 text: save the file as UTF-8") from None
    except OSError as error:
        raise ParameterError(f"{where}: cannot be read: {error.strerror}") from None
    return _mapping(values, where)


def entries(file: str) -> Iterator[tuple[str, dict[str, Any], str]]:
    """The entries of a file of `params/` that has one under every key: key, fields, and the place for messages."""
    for key, fields in read_yaml(file).items():
        where = f"{file}: {key}"
        yield key, _mapping(fields, where), where


def _mapping(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ParameterError(f"{where}: expected a mapping of keys to values, got {_REPR.repr(values)}")
    return values


def _parsed(text: str, where: str) -> Any:
    """The value of a YAML text (version 1.2: `1e-4` is a number, a key that stands twice an error)."""
    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where += f" line {mark.line + 1}" if mark else ""
        problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    except RecursionError:
        problem = "nested too deeply"
    except (TypeError, ValueError) as error:  # a mapping as a key, a number of more than 4,300 digits
        problem = str(error).partition(";")[0]
    raise ParameterError(f"{where}: not valid YAML: {problem}")


def _assignments(overrides: Mapping[str, Any] | Iterable[str] | str | None) -> dict[str, Any]:
    """Overrides in any accepted form as dotted key -> value."""
    if isinstance(overrides, str):
        mapping = overrides.lstrip().startswith("{")
        overrides = _parsed(overrides, "overrides") if mapping else [overrides] if overrides else {}
    if isinstance(overrides, Mapping):
        return {str(key): value for key, value in overrides.items()}
    if overrides is not None and not isinstance(overrides, Iterable):
        raise ParameterError(f"overrides: expected {{'training.documents': 60}} or ['a.b=60'], got {overrides!r}")
    values = {}
    for text in overrides or ():
        key, equals, value = text.partition("=") if isinstance(text, str) else (repr(text), "", "")
        if not equals or not key.strip():
            raise ParameterError(f"override {text!r}: expected key=value, for example training.documents=60")
        values[key.strip()] = _parsed(value, f"override {key.strip()}")
    return values


def _assign(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key in nested values; the key must be one that the schema knows."""
    if key == "name":
        raise ParameterError(f"{where}: name: cannot be changed: it says whose figures a run draws")
    model: type[Settings] | None = Profile
    for part in key.split("."):
        if not isinstance(values, dict) or (model and part not in model.model_fields):
            raise ParameterError(f"{where}: {key}: unknown key; nearest: {nearest(key, names(Profile))}")
        model = section(model, part)
        parent, values = values, values.setdefault(part, {})
    # `{"training": {"documents": 60}}` changes one field of a section
    merged = model and isinstance(value, Mapping) and isinstance(values, dict)
    parent[part] = {**values, **value} if merged else value


def names(model: type[Settings], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a model."""
    for name, field in model.model_fields.items():
        yield prefix + (field.alias or name)
        if inner := section(model, name):
            yield from names(inner, f"{prefix}{name}.")


def validated(model: type[Settings], values: dict[str, Any], where: str) -> Any:
    """`values` as a checked `model`; `ParameterError` in one line that begins with `where`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        key = ".".join(str(part) for part in first["loc"] if part != "[key]")
        expected = re.sub(r" or instance of \w+", "", first["msg"].replace("Input should be", "expected"))
        problem = {
            "extra_forbidden": f"unknown key; nearest: {nearest(key, names(model))}",
            "missing": "is missing",
            "value_error": str(first.get("ctx", {}).get("error")),
        }.get(first["type"], f"{expected}, got {_REPR.repr(first['input'])}")
        more = f" (and {len(others)} more)" if others else ""
        raise ParameterError(" ".join(f"{where}: {key + ': ' if key else ''}{problem}{more}".split())) from None
