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
    grids, pv = grid("pv") | grid("weighting"), profile.contextual_teacher
    searched = {name: ", ".join(map(str, values)) for name, values in grids.items()}
    limit = str(profile.training.max_structural_len)
    masked = limit if limit == MASK_LABEL else f"{limit} (label {MASK_LABEL})"
    share = f"{pv.min_count_share:.0%} of training corpus (label 10%)"
    sizes = [projection.scale(str(size), profile.width) for size in grids["dimensions"]]
    return {
        "dm": searched["architectures"].replace("DM", "true").replace("DBOW", "false"),
        "vector_size": ", ".join(sizes),
        "min_count": searched["min_count"].replace("10%", share),
        "text_pre_process": searched["preprocessing"].lower(),
        "dbow_words": str(pv.dbow_words).lower(),
        "masks": searched["max_structural_len"].replace(MASK_LABEL, masked),
        "lambdas": searched["lam"],
    }
