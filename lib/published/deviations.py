"""Where a run departs from the thesis' text, and why: `params/deviations.yaml`, as far as it applies to a profile."""

from typing import Any

import pandas as pd

from lib.config.profiles import Profile, read_yaml


def table(profile: Profile) -> pd.DataFrame:
    """What applies to a profile: columns topic, thesis, here, reason; no parameter that has the thesis' value."""
    values, rows = profile.flat(), []
    for entry in read_yaml("deviations.yaml").values():
        here = values[entry["key"]] if "key" in entry else entry["here"]
        if here != entry["thesis"] and profile.name in entry.get("profiles", [profile.name]):
            rows.append((entry["topic"], _text(entry["thesis"]), _text(here), entry["reason"]))
    return pd.DataFrame(rows, columns=["topic", "thesis", "here", "reason"])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (
        f"{value:g}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
