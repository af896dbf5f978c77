"""The thesis' tables of hyperparameters, with the columns parameter, value (of this run) and published."""

import functools

import pandas as pd

from lib import published
from lib.config import profiles
from lib.config.profiles import Profile
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL
from lib.published import figure_models

_WORDS = {"True": "Yes", "False": "No", "bf16": "Yes", "fp32": "No"}


def table(profile: Profile, label: str, **searched: str) -> pd.DataFrame:
    """Rows in the published order, as `params/hyperparameters.yaml` makes them of the profile and what is searched."""
    forms = profiles.read_yaml("hyperparameters.yaml")[label]
    frame = published.load(label).rename(columns={"value": "published"})
    values = [forms[name].format(**dict(profile), **searched) for name in frame["parameter"]]
    frame.insert(1, "value", [_WORDS.get(value, value) for value in values])
    return frame


def heads(profile: Profile, label: str = "tab4_3") -> pd.DataFrame:
    """Table 4.3 (and 5.6): the classification heads."""
    return table(profile, label)


training = functools.partial(table, label="tab4_4")  # of every student of Chapter 4
final = functools.partial(table, label="tab5_2")  # of the three students of Chapter 5


def paragraph_vector(profile: Profile) -> pd.DataFrame:
    """Table 4.5: Paragraph Vector, fixed and searched; with the column recommended_by."""
    singles = [name.split(";") for name in figure_models.listed("fig4_5") if "+" not in name]
    architectures, dimensions, preparations, min_counts = (dict.fromkeys(part) for part in zip(*singles, strict=True))
    share = f"{profile.contextual_teacher.min_count_share:.0%} of training corpus (label 10%)"
    return table(
        profile,
        "tab4_5",
        dm=", ".join(architectures).replace("DM", "true").replace("DBOW", "false"),
        vector_size=", ".join(projection.scale(dimension, profile.width) for dimension in dimensions),
        min_count=", ".join(min_counts).replace("10%", share),
        text_pre_process=", ".join(preparations).lower(),
        dbow_words=str(profile.contextual_teacher.dbow_words).lower(),
    )


def weighting(profile: Profile) -> pd.DataFrame:
    """Table 4.9: the weightings tested with each structural loss."""
    names = [name.split(";λ=") for name in figure_models.listed("fig4_10") if ";λ=" in name]
    masks, lambdas = (", ".join(dict.fromkeys(parts)) for parts in zip(*names, strict=True))
    limit = str(profile.training.max_structural_len)
    limit += "" if limit == MASK_LABEL else f" (label {MASK_LABEL})"
    return table(profile, "tab4_9", masks=masks.replace(MASK_LABEL, limit), lambdas=lambdas)
