"""Where a run departs from the thesis' text, and why: `params/deviations.yaml`, as far as it applies to a profile."""

from __future__ import annotations

from typing import Any

import pandas as pd
from pydantic import model_validator

from lib.config import profiles
from lib.config.profiles import Profile
from lib.config.schema import Settings, Text, Texts


class Deviation(Settings):
    """One departure. Either `key` (a parameter, whose value the profile says) or `here` (in words)."""

    topic: Text
    thesis: bool | int | float | Text
    reason: Text
    key: Text | None = None
    here: Text | None = None
    profiles: Texts = ()

    @model_validator(mode="after")
    def _one_side(self) -> Deviation:
        if (self.key is None) == (self.here is None):
            raise ValueError("needs either key or here")
        return self


def table(profile: Profile) -> pd.DataFrame:
    """What applies to a profile: columns topic, thesis, here, reason; no parameter that has the thesis' value.

    Raises `lib.config.profiles.ParameterError` for an entry of the file that does not fit.
    """
    values, rows = profile.flat(), []
    for name, fields, where in profiles.entries("deviations.yaml"):
        entry = profiles.validated(Deviation, fields, where)
        if entry.profiles and profile.name not in entry.profiles:
            continue
        if entry.key is not None and entry.key not in values:
            raise profiles.unknown(f"key of {name} in deviations.yaml", entry.key, values)
        here = entry.here if entry.key is None else values[entry.key]
        if entry.key is None or here != entry.thesis:
            rows.append((entry.topic, _text(entry.thesis), _text(here), entry.reason))
    return pd.DataFrame(rows, columns=["topic", "thesis", "here", "reason"])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
