"""Typed parameters: a profile says how large an experiment is and where its data come from.

`params/<profile>.yaml` holds scale and sources, `params/grids/*.yaml` what the thesis varied. Everything is checked
before anything runs: an unknown key, a wrong type or an impossible value is a `ParameterError` of one line that
names the key, the file and the nearest valid name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lib.config import paths
from lib.config.schema import GRIDS, Profile, Settings


class ParameterError(ValueError):
    """A parameter that cannot be used; the message is one line for a person."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: where the check stands in `lib` helps nobody."""
        return [f"ParameterError: {self}"]


class _Loader(yaml.SafeLoader):
    """YAML as people expect it: `1e-4` is a number, a key that stands twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# PyYAML follows YAML 1.1, where a float needs a dot and a signed exponent: it reads 1e-4 as text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)


def nearest(name: str, valid: Iterable[str]) -> str:
    """The valid name that is most like `name`; a dotted name whose last part fits wins."""
    names = sorted(valid)
    same_end = [known for known in names if known.rsplit(".", 1)[-1] == name]
    return (same_end or difflib.get_close_matches(name, names, n=1, cutoff=0.0) or ["(none)"])[0]


def profiles() -> list[str]:
    """The names of the profiles: the YAML files in `params/` that have a `name`; the manifest, for one, has none."""
    files = paths.PARAMS.glob("*.yaml")
    return sorted(path.stem for path in files if re.search("^name:", path.read_text(encoding="utf-8"), re.MULTILINE))


def load(
    name: str,
    *,
    overrides: Mapping[str, Any] | Iterable[str] | str | None = None,
    seeds: Iterable[int] | int | str | None = None,
    only: str = "",
) -> Profile:
    """The checked profile `name`, with what the caller changes.

    Args:
        name: `mini`, `lab`, `thesis` or `smoke`: a file in `params/`.
        overrides: dotted keys, `{"training.documents": 60}`, or assignments, `["training.learning_rate=1e-4"]`; a
            string is one assignment or a JSON mapping, as the command lines of papermill and run_all.sh send it.
        seeds: seeds of every student instead of the profile's: `None`, an integer, a list, or text such as `"0,1"`.
        only: variants to run, comma separated, shell patterns on display labels (`"cosine,max-margin;MSE*"`).

    Raises:
        ParameterError: one line naming the key, where it came from, and the nearest valid name.
    """
    if name not in profiles():
        raise ParameterError(
            f"unknown profile {name!r}; nearest: {nearest(str(name), profiles())} (of {', '.join(profiles())})"
        )
    path = paths.PARAMS / f"{name}.yaml"
    values = read_yaml(path)
    profile = validated(Profile, values, _shown(path))
    if profile.name != name:
        raise ParameterError(f"{_shown(path)}: name: expected {name!r}, as the file is called, got {profile.name!r}")
    where = f"override of {_shown(path)}"
    for key, value in _assignments(overrides).items():
        _assign(values, key, value, where)
    if seeds is not None:
        values["seeds"] = _seeds(seeds)
    if not isinstance(only, str):
        raise ParameterError(f"only: expected text such as 'cosine,max-margin;*', got {only!r}")
    if only and not _patterns(only):
        raise ParameterError(f"only: expected text such as 'cosine,max-margin;*', got {only!r}")
    if only:
        values["only"] = only
    changed = validated(Profile, values, where)
    before, after = profile.flat(), changed.flat()
    changed._departures = {key: after.get(key) for key in {*before, *after} if before.get(key) != after.get(key)}
    return changed


def grid(name: str) -> dict[str, Any]:
    """What the thesis varied in one section, `params/grids/<name>.yaml`, checked.

    Raises:
        ParameterError: an unknown grid, or a file that does not fit its schema.
    """
    if name not in GRIDS:
        raise ParameterError(f"unknown grid {name!r}; nearest: {nearest(name, GRIDS)} (of {', '.join(sorted(GRIDS))})")
    path = paths.PARAMS / "grids" / f"{name}.yaml"
    return validated(GRIDS[name], read_yaml(path), _shown(path)).model_dump(by_alias=True)


def matches(name: str, only: str) -> bool:
    """Whether a model's name matches one of the comma-separated shell patterns of the parameter `only`."""
    return any(fnmatchcase(name, pattern) for pattern in _patterns(only))


def check_only(only: str, names: Iterable[str]) -> None:
    """Refuse a filter of which some pattern matches none of the names that the requested figures show.

    Raises:
        ParameterError: one line with the pattern and the name nearest to it.
    """
    shown = sorted(set(names))
    for pattern in _patterns(only):
        if not any(fnmatchcase(name, pattern) for name in shown):
            raise ParameterError(f"only: no model is called {pattern!r}; nearest: {nearest(pattern, shown)}")


def _patterns(only: str) -> list[str]:
    return [pattern.strip() for pattern in only.split(",") if pattern.strip()]


def read_yaml(path: Path) -> dict[str, Any]:
    """A YAML file's mapping; `ParameterError` with file and line where it is none."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - _Loader is a SafeLoader
    except FileNotFoundError:
        raise ParameterError(f"{_shown(path)}: no such file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        raise ParameterError(f"{_shown(path)}{line}: not valid YAML: {getattr(error, 'problem', error)}") from None
    if not isinstance(values, dict):
        raise ParameterError(f"{_shown(path)}: expected a mapping of keys to values, got {type(values).__name__}")
    return values


def _shown(path: Path) -> str:
    return str(path.relative_to(paths.ROOT)) if path.is_relative_to(paths.ROOT) else str(path)


def _assignments(overrides: Mapping[str, Any] | Iterable[str] | str | None) -> dict[str, Any]:
    """Overrides in any accepted form as dotted key -> value."""
    if isinstance(overrides, str):
        overrides = _yaml_value(overrides) if overrides.lstrip().startswith("{") else [overrides] if overrides else {}
    if isinstance(overrides, Mapping):
        return {str(key): value for key, value in overrides.items()}
    if overrides is not None and not isinstance(overrides, Iterable):
        raise ParameterError(
            f"overrides: expected {{'training.documents': 60}} or ['training.documents=60'], got {overrides!r}"
        )
    found = {}
    for text in overrides or ():
        key, equals, value = text.partition("=") if isinstance(text, str) else (repr(text), "", "")
        if not equals or not key.strip():
            raise ParameterError(f"override {text!r}: expected key=value, for example training.documents=60")
        found[key.strip()] = _yaml_value(value)
    return found


def _yaml_value(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - _Loader is a SafeLoader
    except yaml.YAMLError:
        raise ParameterError(f"override value {text!r}: not valid YAML") from None


def _assign(values: dict[str, Any], key: str, value: Any, where: str) -> None:
    """Set a dotted key in nested values; the key must be one that the schema knows."""
    *parents, last = key.split(".")
    model: Any = Profile
    for part in parents:
        field = model.model_fields.get(part) if model is not None else None
        if model is not None and field is None:
            raise _unknown(key, where)
        annotation = field.annotation if field else None
        model = annotation if isinstance(annotation, type) and issubclass(annotation, Settings) else None
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise _unknown(key, where)
    if model is not None and last not in model.model_fields:
        raise _unknown(key, where)
    if isinstance(value, Mapping) and isinstance(values.get(last), dict):
        value = {**values[last], **value}  # `{"training": {"documents": 60}}` changes one field of a section
    values[last] = value


def _unknown(key: str, where: str) -> ParameterError:
    return ParameterError(f"{where}: {key}: unknown key; nearest: {nearest(key, names(Profile))}")


def names(model: type[Settings], prefix: str = "") -> Iterator[str]:
    """Every dotted key of a model."""
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, Settings):
            yield from names(field.annotation, f"{prefix}{name}.")


def _seeds(seeds: Iterable[int] | int | str) -> list[Any]:
    if isinstance(seeds, str):
        if not re.fullmatch(r"\s*\d+(\s*,\s*\d+)*\s*", seeds):
            raise ParameterError(f"seeds: expected whole numbers such as 0,1, got {seeds!r}")
        return [int(part) for part in seeds.split(",")]
    return list(seeds) if isinstance(seeds, Iterable) else [seeds]


def validated(model: type[Settings], values: dict[str, Any], where: str) -> Any:
    """`values` as a checked `model`; `ParameterError` in one line that begins with `where`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        key = ".".join(str(part) for part in first["loc"] if part != "[key]")
        if first["type"] == "extra_forbidden":
            problem = f"unknown key; nearest: {nearest(key, names(model))}"
        elif first["type"] == "missing":
            problem = "is missing"
        elif first["type"] == "value_error":
            problem = str(first["ctx"]["error"])
        else:
            expected = re.sub(r" or instance of \w+", "", first["msg"].replace("Input should be", "expected"))
            problem = f"{expected}, got {first['input']!r}"
        more = f" (and {len(others)} more)" if others else ""
        raise ParameterError(" ".join(f"{where}: {key + ': ' if key else ''}{problem}{more}".split())) from None
