"""Where a run departs from the thesis' text, and why: `params/deviations.yaml`."""

from typing import Any

import pandas as pd

from lib.config.profiles import read_yaml
from lib.config.schema import Profile


def tabulate_deviations(profile: Profile) -> pd.DataFrame:
    """The deviations of a profile: columns topic, thesis, here, reason.

    A parameter that has the thesis' value is no deviation.
    """
    values, rows = profile.flat(), []
    for entry in read_yaml("deviations.yaml").values():
        here = values[entry["key"]] if "key" in entry else entry["here"]
        applies = profile.name in entry.get("profiles", [profile.name])
        if applies and here != entry["thesis"]:
            texts = _format_value(entry["thesis"]), _format_value(here)
            rows.append((entry["topic"], *texts, entry["reason"]))
    return pd.DataFrame(rows, columns=["topic", "thesis", "here", "reason"])


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
