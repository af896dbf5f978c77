"""Chapter 5: final students, which train longer, and what they are compared with, on test data."""

import math

import pandas as pd

from lib import published
from lib.chapters import chapter4
from lib.config import manifest
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.evaluation.readouts import READOUTS
from lib.experiments.bench import Bench
from lib.statistics.effects import corrected_runs
from lib.statistics.intervals import SeedNoise, seed_noise

PUBLISHED = published.CHAPTER_5
_MEANS = ["mean", "norm_mean"]


def load_models() -> dict[str, str]:
    """Name in Chapter 5 -> identity."""
    return grid("beyond")["final"]


def list_students() -> tuple[str, ...]:
    """The names of the final students."""
    models = load_models().items()
    return tuple(name for name, identity in models if parse(identity).kind == "student")


def list_models(profile: Profile) -> dict[str, str]:
    """All models that a profile judges in Chapter 5: name -> identity."""
    return load_models() | {name: parse(name).identity for name in profile.final.baselines}


def prepare_bench(bench: Bench) -> Bench:
    """A bench with the training scheme of Table 5.2 and newly trained contextual teachers."""
    final = bench.profile.final
    scheme = final.model_dump(include={"documents", "passes", "learning_rate", "accumulation"})
    updates = bench.profile.changed("training", **scheme).training.updates
    warmup_share = min(final.warmup_updates / max(updates, 1), 0.5)  # training refuses 0 updates
    longer = bench.changed("training", **scheme, warmup_share=warmup_share)
    return longer.changed("contextual_teacher", seed=final.contextual_seed)


def run_classifications(bench: Bench) -> pd.DataFrame:
    """Test accuracies of every model, by its name in Chapter 5, in every round (column round).

    In the round with all examples, base, students and the profile's further baselines also read
    only as far as the structural teacher; they are then called "<name>;cut".
    """
    profile, final = bench.profile, prepare_bench(bench)
    models, seeds = list_models(profile), _assign_seeds(profile)
    shortened = ("Longformer", *list_students(), *profile.final.baselines)
    cut = {f"{name};cut": f"{models[name]};cut" for name in shortened}
    seeds |= {f"{identity};cut": numbers for identity, numbers in seeds.items()}
    names = {identity: name for name, identity in (models | cut).items()}
    runs = [(models, name, limit) for name, limit in profile.final.rounds.items()]
    frames = [
        final.run(list(run.values()), seeds=seeds, split="test", limit=limit).assign(round=name)
        for run, name, limit in [*runs, (cut, "all", None)]
    ]
    return chapter4.rename_models(pd.concat(frames, ignore_index=True), names)


def run_readouts(bench: Bench) -> pd.DataFrame:
    """`run_classifications` by every readout."""
    frames = [run_classifications(bench.with_readout(name)) for name in READOUTS]
    return pd.concat(frames, ignore_index=True)


def run_retrievals(bench: Bench, *, top: int | None) -> pd.DataFrame:
    """MAP and MRR of every model, by its name in Chapter 5; for `top` see `Bench.retrieve`."""
    names = {identity: name for name, identity in list_models(bench.profile).items()}
    seeds = _assign_seeds(bench.profile)
    records = prepare_bench(bench).retrieve(list(names), seeds=seeds, top=top)
    return chapter4.rename_models(records.assign(round=""), names)


def tabulate_scores(accuracies: pd.DataFrame, retrieved: pd.DataFrame) -> pd.DataFrame:
    """Table 5.7, with both parts in one (the round "retrieval" is MAP).

    "mean" and "norm_mean" are rows of the column task. The latter is the mean of scores divided by
    the task's best score among the published models. Column follows: whether a published summary
    follows from its row, to three digits.
    """
    ranked = retrieved[retrieved["metric"] == "MAP"].assign(round="retrieval")
    ours = pd.concat([accuracies, ranked])
    ours = ours.groupby(["round", "model", "task"], sort=False)["value"].mean().reset_index()
    theirs = published.load("tab5_7").rename(columns={"value": "published"})
    cells = theirs[~theirs["task"].isin(_MEANS)]
    recomputed = _summarise(cells, "published").rename(columns={"published": "recomputed"})
    table = pd.concat([ours, _summarise(ours, "value")])
    table = table.merge(theirs, on=["round", "model", "task"], how="outer")
    table = table.merge(recomputed, how="left")
    off = (table["published"].astype(float) - table["recomputed"]).abs()
    # Rounding: half a unit of the third digit in the summary, in each cell and in the task's best
    # cell. Normalising scales up the latter two.
    best = cells.groupby(["round", "task"])["published"].max().astype(float)
    slack = table["round"].map(0.0005 + (0.001 / best).groupby("round").mean())
    follows = off.le(slack).map({True: "yes", False: "no"})
    table["follows"] = follows.where(table["recomputed"].notna(), "")
    tasks = manifest.ordered({*table["task"]} - {*_MEANS}, manifest.TABLE_5_7)
    orders = {
        "round": manifest.ordered(table["round"], (*reversed(manifest.ROUNDS), "retrieval")),
        "model": list(dict.fromkeys((*load_models(), *table["model"]))),
        "task": [*tasks, *_MEANS],
    }
    return table.sort_values(
        list(orders), key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )


def _summarise(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """For each round and model, the mean score and the mean of scores over the task's best."""
    compared = scores[scores["model"].isin(PUBLISHED)]
    best = compared.groupby(["round", "task"])[column].max().rename("best")
    joined = scores.join(best, on=["round", "task"])
    joined = joined.assign(mean=joined[column], norm_mean=joined[column] / joined["best"])
    means = joined.groupby(["round", "model"], sort=False)[_MEANS].mean().reset_index()
    return means.melt(["round", "model"], var_name="task", value_name=column)


def measure_numbers(bench: Bench) -> dict[str, float]:
    """How many documents a final student reads for each one that the structural loss reads, too."""
    lengths = bench.teacher.lengths(prepare_bench(bench).documents)[:]
    unmasked = float((lengths <= bench.profile.training.max_structural_len).mean())
    return {"structural_updates_ratio": 1 / unmasked if unmasked else math.nan}


def measure_noise(accuracies: pd.DataFrame) -> SeedNoise:
    """The seed noise of a final student's mean chance-corrected accuracy in one round."""
    runs = accuracies[accuracies["model"].isin(list_students())]
    return seed_noise(corrected_runs(runs.assign(model=runs["model"] + ";" + runs["round"])))


def _assign_seeds(profile: Profile) -> dict[str, list[int]]:
    """Identity -> seeds: final students and Paragraph Vectors also have the reference seeds."""
    repeated = [load_models()[name] for name in (*list_students(), "DM", "PV")]
    return chapter4.assign_seeds(profile, repeated)
