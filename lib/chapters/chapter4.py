"""Chapter 4: the records behind its boxplots, their noise, settings, what students were taught."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lib import figures, published
from lib.config.profiles import grid, matches, read_yaml
from lib.config.schema import Profile
from lib.distillation.measures import chance_cca
from lib.distillation.variants import CONTEXTUAL_TEACHERS, Variant, parse
from lib.evaluation.metrics import mean_cosine
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench
from lib.figures.boxplots import UNTRAINED
from lib.statistics.effects import chance_corrected, corrected_runs
from lib.statistics.intervals import SeedNoise, seed_noise

# Section 4.5.3: the first sums the losses, the second halves the sum, which AdamW hardly notices.
RERUN = ("no-weighting", "None;λ=0.5")
# Two models disagree on about half as many examples as if their errors were independent.
DISAGREEMENT = 0.5
COLLAPSED = 0.9  # from this mean cosine of different documents on, all embeddings point one way
_SETTINGS = {"True": "Yes", "False": "No", "fp32": "No"}
_SETTINGS["bf16"] = "Yes, where the device supports bfloat16"


def tabulate_settings(label: str, profile: Profile, **searched: str) -> pd.DataFrame:
    """A table of hyperparameters, such as tab4_3: parameter, value (of this run) and published.
    `params/hyperparameters.yaml` says what of the profile, or of what was `searched`, rows show.
    """
    forms, warmup = read_yaml("hyperparameters.yaml")[label], profile.training.warmup_share
    settings = dict(profile) | {"warmup": f"{100 * warmup:g}%"} | searched
    frame = published.load(label).rename(columns={"value": "published"})
    values = [forms[name].format(**settings) for name in frame["parameter"]]
    frame.insert(1, "value", [_SETTINGS.get(value, value) for value in values])
    return frame


def list_references(label: str = "") -> tuple[str, ...]:
    """Models that measure a figure's seed noise, by identity; without label, of all but 4.5."""
    if label == "fig4_5":
        return tuple(CONTEXTUAL_TEACHERS)
    structural = tuple(grid("structural")["reference"])
    if label in ("fig4_2", "fig4_3"):
        return structural
    plain = [published.printed(figure)["no-weighting"] for figure in published.WEIGHTINGS]
    projected = grid("projections")["reference"] if label in ("", "fig4_7") else []
    return (*structural, *plain, *projected)


def list_models(label: str, profile: Profile) -> dict[str, str]:
    """Name as printed -> identity of the models that `only` and `max_variants` keep."""
    shown = {name: parse(model).identity for name, model in published.shown(label).items()}
    kept = [model for name, model in shown.items() if matches(name, profile.only or "*")]
    always = {*UNTRAINED, *list_references(label)}
    others = [model for model in kept if model not in always][: profile.max_variants]
    chosen = {*UNTRAINED, *others} | always.intersection(kept)
    return {name: model for name, model in shown.items() if model in chosen}


def select_students(models: Mapping[str, str], *, contextual: bool = False) -> dict[str, Variant]:
    """Name -> variant of the students among models, or only those with a contextual teacher."""
    variants = {name: parse(model) for name, model in models.items()}
    students = {name: each for name, each in variants.items() if each.kind == "student"}
    return {name: each for name, each in students.items() if each.contextual or not contextual}


def run_figures(labels: str | Sequence[str], bench: Bench) -> pd.DataFrame:
    """Records of all models of the figures and of their references, as of `Bench.run`."""
    models: list[str] = []
    for label in [labels] if isinstance(labels, str) else labels:
        models += [*list_models(label, bench.profile).values(), *list_references(label)]
    return bench.run(models, seeds=assign_seeds(bench.profile))


def run_readouts(labels: str | Sequence[str], bench: Bench) -> pd.DataFrame:
    """`run_figures` by every readout. Students are trained once; only the heads differ."""
    frames = [run_figures(labels, bench.with_readout(name)) for name in READOUTS]
    return pd.concat(frames, ignore_index=True)


def assign_seeds(profile: Profile, repeated: Sequence[str] = ()) -> dict[str, list[int]]:
    """Identity -> seeds of models that run with more than one: `repeated`, or by the profile."""
    models = [*(repeated or (*list_references(), *CONTEXTUAL_TEACHERS))]
    if profile.repeated == "compared" and not repeated:
        models += [*published.printed("fig4_3").values(), *published.printed("fig4_12").values()]
        models += [published.printed(label)["None;λ=0.5"] for label in published.WEIGHTINGS]
    return dict.fromkeys(models, sorted({*profile.seeds, *profile.reference_seeds}))


def rename_models(records: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Rename the models of records by identity -> name; a column identity keeps the identities."""
    return records.assign(identity=records["model"], model=records["model"].map(names))


def select_records(records: pd.DataFrame, label: str, profile: Profile) -> pd.DataFrame:
    """The records of the models that a figure shows."""
    shown = list_models(label, profile).values()
    return records[records["model"].isin(shown)].reset_index(drop=True)


def measure_noise(records: pd.DataFrame, label: str, profile: Profile) -> SeedNoise:
    """The seed noise of a mean chance-corrected accuracy, of the class that a figure shows most."""
    references = {parse(model).seed_class for model in list_references(label)}
    shown = Counter(parse(model).seed_class for model in list_models(label, profile).values())
    most = max(references, key=lambda name: shown[name])
    own = [model for model in records["model"].unique() if parse(model).seed_class == most]
    return seed_noise(corrected_runs(records[records["model"].isin(own)]))


def draw_boxplot(
    label: str, records: pd.DataFrame, profile: Profile
) -> tuple[Figure, pd.DataFrame, pd.DataFrame]:
    """Draw a boxplot figure; returns the figure, its data, and the records that it shows."""
    shown = select_records(records, label, profile)
    ours, theirs = measure_noise(records, label, profile), measure_published_noise(label)
    data = figures.boxplot_frame(label, shown, {"ours": ours, "published": theirs})
    return figures.boxplot(data, label, untrained=describe_encoders(profile)), data, shown


def describe_encoders(profile: Profile) -> str:
    """What our rows "Longformer" and "SBERT" are; empty if they are the thesis' models."""
    student, structural = profile.student, profile.structural_teacher
    if student.base == "longformer":
        return ""
    layers = f"{len(student.layers)} layers" if student.layers else "all layers"
    trained = " trained on masked words" if student.language_model else ""
    base, teacher = (each.removeprefix("gt-") for each in (student.model, structural.model))
    limit = structural.max_tokens
    told = f"Longformer is {layers} of {base}{trained}, SBERT is {teacher} cut at {limit} tokens"
    return f"ours: {told}"


def collect_histories(groups: Mapping[str, Mapping[str, str]], bench: Bench) -> pd.DataFrame:
    """How students with a contextual loss change while they train (Figures A.2 and A.6).

    `groups` are group -> name -> identity. A row is a measurement of a student with the first seed:
    group, model, dimension, update, embedding and projected (held-out CCA of both with the
    teacher), share (of the contextual loss in the gradient), chance (CCA of random documents).
    """
    students = {
        (group, name): bench.model(variant, bench.profile.seeds[0])
        for group, models in groups.items()
        for name, variant in select_students(models, contextual=True).items()
    }
    bench.prepare(students.values(), bench.held_out)
    columns, frames = ["update", "embedding", "projected", "share"], []
    for (group, name), student in students.items():
        rows = student.embed(bench.held_out)[:], student.prepare_rows(bench.held_out)[:]
        facts = {"group": group, "model": name, "dimension": name.partition("d;")[0]}
        frame = pd.DataFrame(student.outcome()["watched"], columns=columns)
        frames.append(frame.assign(**facts, chance=chance_cca(*rows)))
    return pd.concat(frames, ignore_index=True).astype({"update": int})


def mark_collapsed(records: pd.DataFrame, bench: Bench) -> pd.Series:
    """For each record, whether its student has collapsed with any seed, see `COLLAPSED`."""
    students = records.loc[records["kind"] == "student", ["model", "seed"]].drop_duplicates()
    embedded = (bench.model(*run).embed(bench.held_out)[:] for run in students.to_numpy())
    collapsed = [mean_cosine(rows) >= COLLAPSED for rows in embedded]
    return records["model"].isin(students.loc[collapsed, "model"])


def tabulate_reruns() -> pd.DataFrame:
    """Both pairs of near re-runs, chance-corrected: label of figure, task, first, second, gap."""
    frames = [published.load(figure).assign(label=figure) for figure in published.WEIGHTINGS]
    scores = pd.concat(frames).rename(columns={"accuracy": "value"}).assign(score=chance_corrected)
    table = scores.pivot(index=["label", "task"], columns="model", values="score")
    table = table[[*RERUN]].set_axis(["first", "second"], axis=1)
    return table.assign(gap=table["first"] - table["second"]).reset_index()


@functools.cache
def measure_rerun_noise(*, without: str = "") -> SeedNoise:
    """How far a published run may be off on one task, from re-runs but those of `without`."""
    return SeedNoise.from_gaps(tabulate_reruns().query("label != @without")["gap"])


def measure_test_noise(figure: str, weights: Mapping[str, float]) -> float:
    """How far a published score may be off because other test examples might have been drawn.

        variance = sum over tasks of weight^2 DISAGREEMENT a (1 - a) / (examples (1 - chance)^2)

    a is the mean accuracy of the figure's models; each of two gets half of their difference's.
    """
    tasks = published.load(figure).groupby("task")
    accuracy, examples, chance = (tasks[name].mean() for name in ("accuracy", "examples", "chance"))
    weight = pd.Series(weights).reindex(accuracy.index).fillna(0.0)
    variances = DISAGREEMENT * accuracy * (1 - accuracy) / examples / (1 - chance) ** 2
    return float(np.sqrt((weight**2 * variances).sum()))


def measure_published_noise(
    figure: str, weights: Mapping[str, float] | None = None, *, without: str = ""
) -> SeedNoise:
    """How far a published score may be off: the variances of re-runs and of test examples add up.

    This errs on the safe side, as re-runs contain part of the second, which is taken as known in
    Satterthwaite's degrees of freedom. `weights` are those of a score's tasks, by default equal.
    """
    tasks = published.load(figure)["task"].unique()
    weights = weights or dict.fromkeys(tasks, 1 / len(tasks))
    rerun = measure_rerun_noise(without=without)
    seeds = sum(weight**2 for weight in weights.values()) * rerun.sd**2
    both = seeds + measure_test_noise(figure, weights) ** 2
    return SeedNoise(float(np.sqrt(both)), float(both**2 / (seeds**2 / rerun.df)))
