"""The thesis' tables of hyperparameters, with the columns parameter, value (of this run) and published."""

import pandas as pd

from lib import published
from lib.config.profiles import Profile, grid, read_yaml
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL


def table(label: str, profile: Profile) -> pd.DataFrame:
    """Table 4.3 (tab4_3), 4.4, 4.5, 4.9, 5.2 or 5.6, rows in the published order: `params/hyperparameters.yaml` says
    what of the profile, or of the grids that were searched, stands in them."""
    forms = read_yaml("hyperparameters.yaml")[label]
    frame = published.load(label).rename(columns={"value": "published"})
    own = {**dict(profile), **_searched(profile)}
    values = [forms[name].format(**own) for name in frame["parameter"]]
    words = {
        "True": "Yes",
        "False": "No",
        "bf16": "Yes, where the device supports bfloat16",
        "fp32": "No",
    }
    frame.insert(1, "value", [words.get(value, value) for value in values])
    return frame


def _searched(profile: Profile) -> dict[str, str]:
    """What the grids of Paragraph Vector and of weightings hold, as the thesis prints it."""
    searched = {
        name: ", ".join(map(str, values))
        for name, values in (grid("pv") | grid("weighting")).items()
    }
    limit = str(profile.training.max_structural_len)
    limit += "" if limit == MASK_LABEL else f" (label {MASK_LABEL})"
    share = f"{profile.contextual_teacher.min_count_share:.0%} of training corpus (label 10%)"
    return {
        "dm": searched["architectures"].replace("DM", "true").replace("DBOW", "false"),
        "vector_size": ", ".join(
            projection.scale(part, profile.width) for part in searched["dimensions"].split(", ")
        ),
        "min_count": searched["min_count"].replace("10%", share),
        "text_pre_process": searched["preprocessing"].lower(),
        "dbow_words": str(profile.contextual_teacher.dbow_words).lower(),
        "masks": searched["max_structural_len"].replace(MASK_LABEL, limit),
        "lambdas": searched["lam"],
    }
