"""The thesis' tables of hyperparameters, with the columns parameter, value (of this run) and published."""

import pandas as pd

from lib import published
from lib.config.profiles import Profile
from lib.config.schema import FinalSettings, HeadSettings, TrainingSettings
from lib.distillation import projection
from lib.distillation.variants import MASK_LABEL
from lib.published import figure_models


def heads(profile: Profile, label: str = "tab4_3") -> pd.DataFrame:
    """Table 4.3 (and 5.6): the classification heads."""
    settings = profile.heads
    values = {
        "Hidden features": settings.hidden,
        "Hidden dropout rate": settings.dropout,
        "Hidden activation": "ReLU",
        "Epochs": settings.epochs,
        "Label smoothing": settings.label_smoothing,
        "Mixed-precision training": "No",
    }
    return _beside(label, _optimiser(settings) | values)


def training(profile: Profile) -> pd.DataFrame:
    """Table 4.4: every student of Chapter 4."""
    warmup = f"{profile.training.warmup_share:.0%} of training steps"
    return _beside("tab4_4", _student(profile, profile.training) | {"Warmup steps": warmup})


def final(profile: Profile) -> pd.DataFrame:
    """Table 5.2: the three students of Chapter 5."""
    return _beside("tab5_2", _student(profile, profile.final) | {"Warmup update steps": profile.final.warmup_updates})


def paragraph_vector(profile: Profile) -> pd.DataFrame:
    """Table 4.5: Paragraph Vector, fixed and searched; with the column recommended_by."""
    settings = profile.contextual_teacher
    singles = [name.split(";") for name in figure_models.listed("fig4_5") if "+" not in name]
    architectures, dimensions, preparations, min_counts = (dict.fromkeys(part) for part in zip(*singles, strict=True))
    share = f"{settings.min_count_share:.0%} of training corpus (label 10%)"
    values = {
        "dm": ", ".join({"DM": "true", "DBOW": "false"}[name] for name in architectures),
        "vector_size": ", ".join(projection.scale(dimension, profile.width) for dimension in dimensions),
        "min_count": ", ".join(share if count == "10%" else count for count in min_counts),
        "text_pre_process": ", ".join(name.lower() for name in preparations),
        "window": settings.window,
        "negative": settings.negative,
        "sample": f"{settings.sample:g}",
        "dbow_words": str(settings.dbow_words).lower(),
        "epochs": settings.epochs,
    }
    return _beside("tab4_5", values)


def weighting(profile: Profile) -> pd.DataFrame:
    """Table 4.9: the weightings tested with each structural loss."""
    names = [name.split(";λ=") for name in figure_models.listed("fig4_10") if ";λ=" in name]
    masks, lambdas = (dict.fromkeys(parts) for parts in zip(*names, strict=True))
    limit = str(profile.training.max_structural_len)
    limit += f" (label {MASK_LABEL})" if limit != MASK_LABEL else ""
    limits = ", ".join(limit if mask == MASK_LABEL else mask for mask in masks)
    return _beside("tab4_9", {"max_structural_len": limits, "λ": ", ".join(lambdas)})


def _student(profile: Profile, scheme: TrainingSettings | FinalSettings) -> dict[str, object]:
    settings = profile.training
    return _optimiser(settings) | {
        "Learning rate": scheme.learning_rate,
        "Gradient accumulation steps": scheme.accumulation,
        "Gradient checkpointing": "Yes" if settings.gradient_checkpointing else "No",
        "Mixed-precision training": "No" if settings.precision == "fp32" else "Yes",
    }


def _optimiser(settings: HeadSettings | TrainingSettings) -> dict[str, object]:
    return {
        "Batch size": settings.batch_size,
        "Weight decay": settings.weight_decay,
        "Learning rate": settings.learning_rate,
        "Learning rate decay": "Cosine",
        "Maximum gradient norm": settings.clip,
        "Optimizer": "AdamW",
    }


def _beside(label: str, values: dict[str, object]) -> pd.DataFrame:
    """Rows in the published order. Raises `ValueError` if the two sides do not name the same parameters."""
    table = published.load(label).rename(columns={"value": "published"})
    if only_one := sorted(set(table["parameter"]) ^ set(values)):
        raise ValueError(f"{label}: only one side names {only_one}")
    table.insert(1, "value", [str(values[name]) for name in table["parameter"]])
    return table
