"""The records behind a boxplot figure of Chapter 4, and its noise band: how far the seed alone moves references."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lib import experiments, figures
from lib.config.profiles import Profile, grid, matches
from lib.distillation.variants import CONTEXTUAL_TEACHERS, NO_WEIGHTING, Variant, parse
from lib.figures.boxplots import UNTRAINED
from lib.published import figure_models
from lib.statistics.effects import best_means, normalized_runs
from lib.statistics.intervals import SeedNoise, seed_noise

STRUCTURAL_REFERENCES = grid("structural")["reference"]
REFERENCES = (*STRUCTURAL_REFERENCES, *NO_WEIGHTING.values())
# What students of these figures gain is compared one by one, elsewhere over groups of them: they run with more seeds.
COMPARED_CLOSELY = ("fig4_3", "fig4_12")


def references(label: str) -> tuple[str, ...]:
    """The models that measure a figure's noise: students; of Figure 4.5 the Paragraph Vectors that teach."""
    if label == "fig4_5":
        return tuple(CONTEXTUAL_TEACHERS)
    return STRUCTURAL_REFERENCES if label in ("fig4_2", "fig4_3") else REFERENCES


def models(label: str, profile: Profile) -> dict[str, str]:
    """Name as printed -> identity of the models that a figure shows, as far as `profile.only` and
    `profile.max_variants` keep them; `ValueError` for a variant in a grid that nobody can train."""
    shown = {
        name: parse(identity).identity for name, identity in figure_models.shown(label).items()
    }
    if wanted := profile.only:
        shown = {
            name: model
            for name, model in shown.items()
            if model in UNTRAINED or matches(name, wanted)
        }
    if profile.max_variants is not None:
        kept = [*UNTRAINED, *references(label)]
        kept += [model for model in shown.values() if model not in kept][: profile.max_variants]
        shown = {name: model for name, model in shown.items() if model in kept}
    return shown


def students(models: Mapping[str, str], *, contextual: bool = False) -> dict[str, Variant]:
    """Those of the models, name -> identity, that are students; contextual: that have a contextual teacher."""
    variants = {
        name: parse(identity)
        for name, identity in models.items()
        if parse(identity).kind == "student"
    }
    return {
        name: variant for name, variant in variants.items() if variant.contextual or not contextual
    }


def records(labels: str | Sequence[str], *, profile: Profile) -> pd.DataFrame:
    """Tidy records of every model of the figures and of their references; trains what is missing."""
    labels = [labels] if isinstance(labels, str) else labels
    wanted = [
        identity
        for label in labels
        for identity in (*models(label, profile).values(), *references(label))
    ]
    return experiments.run(dict.fromkeys(wanted), profile=profile, seeds=seeds(profile))


def seeds(profile: Profile, repeated: Sequence[str] = ()) -> dict[str, list[int]]:
    """The models that run with the reference seeds too, by default those that figures compare closely, halved sums,
    which findings compare with the whole ones, and those that teach; everything else runs with the profile's alone."""
    close = [
        identity for label in COMPARED_CLOSELY for identity in figure_models.printed(label).values()
    ]
    close += [figure_models.printed(label)["None;λ=0.5"] for label in figure_models.WEIGHTINGS]
    close = close if profile.repeated == "compared" else []
    repeated = repeated or (*REFERENCES, *CONTEXTUAL_TEACHERS, *close)
    return dict.fromkeys(repeated, sorted({*profile.seeds, *profile.reference_seeds}))


def renamed(records: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """The records under other names of their models; what they are stands in the column identity."""
    return records.assign(identity=records["model"], model=records["model"].map(names))


def of_figure(records: pd.DataFrame, label: str, profile: Profile) -> pd.DataFrame:
    return records[records["model"].isin(models(label, profile).values())].reset_index(drop=True)


def band(records: pd.DataFrame, label: str, profile: Profile) -> SeedNoise:
    """The noise of mean accuracy in a figure, normalised as the figure is, from its reference students' seeds."""
    best = best_means(of_figure(records, label, profile))
    return seed_noise(normalized_runs(records[records["model"].isin(references(label))], best=best))


def draw(label: str, records: pd.DataFrame, profile: Profile) -> None:
    """Draw and save a boxplot figure."""
    shown = of_figure(records, label, profile)
    data = figures.boxplot_frame(label, shown, band=band(records, label, profile).band)
    figures.save(
        figures.boxplot(data, label, order=profile.row_order),
        label,
        data,
        profile=profile,
        records=shown,
    )
