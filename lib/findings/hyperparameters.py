"""The thesis' tables of hyperparameters, with the columns parameter, value (of this run) and published."""

import pandas as pd

from lib import published
from lib.config.profiles import Profile
from lib.config.schema import Settings
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL
from lib.published import figure_models

_FIELDS = {  # a parameter as the thesis prints it -> its field in the settings, where that is called otherwise
    "Gradient accumulation steps": "accumulation",
    "Hidden dropout rate": "dropout",
    "Hidden features": "hidden",
    "Maximum gradient norm": "clip",
    "Mixed-precision training": "precision",
}
_FIXED = {"learning_rate_decay": "Cosine", "optimizer": "AdamW", "hidden_activation": "ReLU"}
_WORDS = {"True": "Yes", "False": "No", "bf16": "Yes", "fp32": "No"}


def heads(profile: Profile, label: str = "tab4_3") -> pd.DataFrame:
    """Table 4.3 (and 5.6): the classification heads."""
    return _beside(label, {"precision": "No"}, profile.heads)


def training(profile: Profile) -> pd.DataFrame:
    """Table 4.4: every student of Chapter 4."""
    warmup = f"{profile.training.warmup_share:.0%} of training steps"
    return _beside("tab4_4", {"warmup_steps": warmup}, profile.training)


def final(profile: Profile) -> pd.DataFrame:
    """Table 5.2: the three students of Chapter 5."""
    return _beside("tab5_2", {"warmup_update_steps": profile.final.warmup_updates}, profile.training, profile.final)


def paragraph_vector(profile: Profile) -> pd.DataFrame:
    """Table 4.5: Paragraph Vector, fixed and searched; with the column recommended_by."""
    settings = profile.contextual_teacher
    singles = [name.split(";") for name in figure_models.listed("fig4_5") if "+" not in name]
    architectures, dimensions, preparations, min_counts = (dict.fromkeys(part) for part in zip(*singles, strict=True))
    share = f"{settings.min_count_share:.0%} of training corpus (label 10%)"
    values = {"sample": f"{settings.sample:g}", "dbow_words": str(settings.dbow_words).lower()}
    values["dm"] = ", ".join(architectures).replace("DM", "true").replace("DBOW", "false")
    values["vector_size"] = ", ".join(projection.scale(dimension, profile.width) for dimension in dimensions)
    values["min_count"] = ", ".join(min_counts).replace("10%", share)
    values["text_pre_process"] = ", ".join(preparations).lower()
    return _beside("tab4_5", values, settings)


def weighting(profile: Profile) -> pd.DataFrame:
    """Table 4.9: the weightings tested with each structural loss."""
    names = [name.split(";λ=") for name in figure_models.listed("fig4_10") if ";λ=" in name]
    masks, lambdas = (dict.fromkeys(parts) for parts in zip(*names, strict=True))
    limit = str(profile.training.max_structural_len)
    limit += "" if limit == MASK_LABEL else f" (label {MASK_LABEL})"
    return _beside(
        "tab4_9", {"max_structural_len": ", ".join(masks).replace(MASK_LABEL, limit), "λ": ", ".join(lambdas)}
    )


def _beside(label: str, values: dict[str, object], *sections: Settings) -> pd.DataFrame:
    """Rows in the published order, from the values, else from the last of the sections that has the field."""
    table = published.load(label).rename(columns={"value": "published"})
    fields = {field: value for section in sections for field, value in section} | _FIXED | values
    names = [_FIELDS.get(name, name.lower().replace(" ", "_")) for name in table["parameter"]]
    table.insert(1, "value", [_WORDS.get(str(fields[name]), str(fields[name])) for name in names])
    return table
