"""The thesis' tables of hyperparameters, with the columns parameter, value (of this run) and published."""

import pandas as pd

from lib import published
from lib.config import profiles
from lib.config.profiles import Profile
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL
from lib.published import figure_models


def table(label: str, profile: Profile) -> pd.DataFrame:
    """Table 4.3 (tab4_3), 4.4, 4.5, 4.9, 5.2 or 5.6, rows in the published order: `params/hyperparameters.yaml` says
    what of the profile, or of the grids that were searched, stands in them."""
    forms = profiles.read_yaml("hyperparameters.yaml")[label]
    frame = published.load(label).rename(columns={"value": "published"})
    own = {**dict(profile), **_searched(profile)}
    values = [forms[name].format(**own) for name in frame["parameter"]]
    words = {"True": "Yes", "False": "No", "bf16": "Yes", "fp32": "No"}
    frame.insert(1, "value", [words.get(value, value) for value in values])
    return frame


def _searched(profile: Profile) -> dict[str, str]:
    """What the grids of Paragraph Vector and of weightings hold, as the thesis prints it."""
    singles = [name.split(";") for name in figure_models.listed("fig4_5") if "+" not in name]
    architectures, dimensions, preparations, min_counts = (dict.fromkeys(part) for part in zip(*singles, strict=True))
    weightings = [name.split(";λ=") for name in figure_models.listed("fig4_10") if ";λ=" in name]
    masks, lambdas = (", ".join(dict.fromkeys(parts)) for parts in zip(*weightings, strict=True))
    limit = str(profile.training.max_structural_len)
    limit += "" if limit == MASK_LABEL else f" (label {MASK_LABEL})"
    share = f"{profile.contextual_teacher.min_count_share:.0%} of training corpus (label 10%)"
    return {
        "dm": ", ".join(architectures).replace("DM", "true").replace("DBOW", "false"),
        "vector_size": ", ".join(projection.scale(dimension, profile.width) for dimension in dimensions),
        "min_count": ", ".join(min_counts).replace("10%", share),
        "text_pre_process": ", ".join(preparations).lower(),
        "dbow_words": str(profile.contextual_teacher.dbow_words).lower(),
        "masks": masks.replace(MASK_LABEL, limit),
        "lambdas": lambdas,
    }
