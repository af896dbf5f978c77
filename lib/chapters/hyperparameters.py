"""The thesis' tables of hyperparameters: columns parameter, value (of this run) and published."""

import pandas as pd

from lib import published
from lib.config.profiles import grid, read_yaml
from lib.config.schema import Profile
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL

_WORDS = {"True": "Yes", "False": "No", "fp32": "No"}
_WORDS["bf16"] = "Yes, where the device supports bfloat16"


def tabulate_settings(label: str, profile: Profile) -> pd.DataFrame:
    """Table 4.3 (tab4_3), 4.4, 4.5, 4.9, 5.2 or 5.6, rows in the published order.

    `params/hyperparameters.yaml` says which settings or grids of the profile each row shows.
    """
    forms = read_yaml("hyperparameters.yaml")[label]
    frame = published.load(label).rename(columns={"value": "published"})
    settings = {**dict(profile), **_list_searched(profile)}
    values = [forms[name].format(**settings) for name in frame["parameter"]]
    frame.insert(1, "value", [_WORDS.get(value, value) for value in values])
    return frame


def _list_searched(profile: Profile) -> dict[str, str]:
    """Name -> values searched for Paragraph Vector and weightings, printed as in the thesis."""
    grids = grid("pv") | grid("weighting")
    searched = {name: ", ".join(map(str, values)) for name, values in grids.items()}
    limit = str(profile.training.max_structural_len)
    if limit != MASK_LABEL:
        limit += f" (label {MASK_LABEL})"
    share = f"{profile.contextual_teacher.min_count_share:.0%} of training corpus (label 10%)"
    sizes = searched["dimensions"].split(", ")
    return {
        "dm": searched["architectures"].replace("DM", "true").replace("DBOW", "false"),
        "vector_size": ", ".join(projection.scale(size, profile.width) for size in sizes),
        "min_count": searched["min_count"].replace("10%", share),
        "text_pre_process": searched["preprocessing"].lower(),
        "dbow_words": str(profile.contextual_teacher.dbow_words).lower(),
        "masks": searched["max_structural_len"].replace(MASK_LABEL, limit),
        "lambdas": searched["lam"],
    }
