"""The records behind a boxplot figure of Chapter 4, and how far the seed alone moves its models."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from lib import figures
from lib.chapters.published_noise import measure_published_noise
from lib.config.profiles import grid, matches
from lib.distillation.variants import CONTEXTUAL_TEACHERS, NO_WEIGHTING, Variant, parse
from lib.experiments.bench import Bench
from lib.experiments.judging import READOUTS
from lib.figures.boxplots import UNTRAINED
from lib.published import figure_models
from lib.statistics.effects import corrected_runs
from lib.statistics.intervals import SeedNoise, seed_noise

# What students of these figures gain is compared one by one, in others over groups of students. So
# these run with more seeds.
COMPARED_CLOSELY = ("fig4_3", "fig4_12")


def list_references(label: str = "") -> tuple[str, ...]:
    """The models that measure the seed noise of a figure; without a label, of all figures.

    These are students; in Figure 4.5, the Paragraph Vectors that teach. Figure 4.7 has references
    of its own, because students of Paragraph Vector alone are a `Variant.seed_class` of their own.
    """
    if label == "fig4_5":
        return tuple(CONTEXTUAL_TEACHERS)
    structural = tuple(grid("structural")["reference"])
    if label in ("fig4_2", "fig4_3"):
        return structural
    own = figure_models.list_references([label] if label else figure_models.PROJECTIONS)
    return (*structural, *NO_WEIGHTING.values(), *own)


def list_models(label: str, bench: Bench) -> dict[str, str]:
    """The models of a figure that the profile's `only` and `max_variants` keep.

    Returns
    -------
    dict
        Name as printed -> identity.

    Raises
    ------
    ValueError
        If a variant of a grid cannot be trained.
    """
    profile = bench.profile
    shown = {
        name: parse(identity).identity for name, identity in figure_models.shown(label).items()
    }
    if profile.only:
        shown = {
            name: model
            for name, model in shown.items()
            if model in UNTRAINED or matches(name, profile.only)
        }
    if profile.max_variants is not None:
        always = {*UNTRAINED, *list_references(label)}
        others = [model for model in shown.values() if model not in always]
        kept = {*always, *others[: profile.max_variants]}
        shown = {name: model for name, model in shown.items() if model in kept}
    return shown


def select_students(models: Mapping[str, str], *, contextual: bool = False) -> dict[str, Variant]:
    """The students among models, name -> identity; contextual: only those taught by context."""
    variants = {name: parse(identity) for name, identity in models.items()}
    return {
        name: variant
        for name, variant in variants.items()
        if variant.kind == "student" and (variant.contextual or not contextual)
    }


def run_figures(labels: str | Sequence[str], bench: Bench) -> pd.DataFrame:
    """Records, as of `Bench.run`, of all models of the figures and of their references."""
    models: list[str] = []
    for label in [labels] if isinstance(labels, str) else labels:
        models += [*list_models(label, bench).values(), *list_references(label)]
    return bench.run(list(dict.fromkeys(models)), seeds=assign_seeds(bench))


def run_readouts(labels: str | Sequence[str], bench: Bench) -> pd.DataFrame:
    """Records as of `run_figures`, by every readout; only heads are trained for those to come."""
    frames = [run_figures(labels, bench.with_readout(name)) for name in READOUTS]
    return pd.concat(frames, ignore_index=True)


def assign_seeds(bench: Bench, repeated: Sequence[str] = ()) -> dict[str, list[int]]:
    """The models that run with the reference seeds too; all others have the profile's seeds alone.

    repeated: identities of these models. By default they are the references, Paragraph Vectors that
    teach, and, if the profile says so, what figures compare closely and the halved sums, which
    findings compare with the whole ones.
    """
    profile = bench.profile
    if not repeated:
        repeated = [*list_references(), *CONTEXTUAL_TEACHERS]
        if profile.repeated == "compared":
            for label in COMPARED_CLOSELY:
                repeated += figure_models.printed(label).values()
            for label in figure_models.WEIGHTINGS:
                repeated.append(figure_models.printed(label)["None;λ=0.5"])
    return dict.fromkeys(repeated, sorted({*profile.seeds, *profile.reference_seeds}))


def rename_models(records: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Records with other names for their models; a column identity keeps what these are."""
    return records.assign(identity=records["model"], model=records["model"].map(names))


def select_records(records: pd.DataFrame, label: str, bench: Bench) -> pd.DataFrame:
    """The records of the models that a figure shows."""
    shown = list_models(label, bench).values()
    return records[records["model"].isin(shown)].reset_index(drop=True)


def measure_noise(records: pd.DataFrame, label: str, bench: Bench) -> SeedNoise:
    """How far the seed moves a model's mean chance-corrected accuracy.

    Pooled over all models with several seeds of the class of which the figure shows most.
    """
    references = {parse(model).seed_class for model in list_references(label)}
    shown = Counter(parse(model).seed_class for model in list_models(label, bench).values())
    most = max(references, key=lambda name: shown[name])
    seeds = records.groupby("model")["seed"].nunique()
    several = [model for model, count in seeds.items() if count > 1]
    several = [model for model in several if parse(model).seed_class == most]
    return seed_noise(corrected_runs(records[records["model"].isin(several)]))


def draw_boxplot(
    label: str, records: pd.DataFrame, bench: Bench
) -> tuple[Figure, pd.DataFrame, pd.DataFrame]:
    """Draw a boxplot figure: the figure, its data, and the records that it shows."""
    shown = select_records(records, label, bench)
    noise = {
        "ours": measure_noise(records, label, bench),
        "published": measure_published_noise(label),
    }
    data = figures.boxplot_frame(label, shown, noise)
    order, told = bench.profile.row_order, describe_encoders(bench)
    return figures.boxplot(data, label, order=order, untrained=told), data, shown


def describe_encoders(bench: Bench) -> str:
    """What our rows "Longformer" and "SBERT" are; "" if they are the thesis' models."""
    student, teacher = bench.profile.student, bench.profile.structural_teacher
    if student.base == "longformer":
        return ""
    layers = f"{len(student.layers)} layers" if student.layers else "all layers"
    trained = " trained on masked words" if student.language_model else ""
    model = student.model.removeprefix("gt-")
    return (
        f"ours: Longformer is {layers} of {model}{trained}, SBERT is {model} "
        f"cut at {teacher.max_tokens} tokens"
    )
