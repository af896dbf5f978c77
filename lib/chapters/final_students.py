"""Chapter 5: final students, which train longer, and what they are compared with, on test data."""

import math

import pandas as pd

from lib import published
from lib.chapters import chapter4
from lib.config import roles
from lib.config.profiles import grid
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.experiments.judging import READOUTS
from lib.statistics.effects import corrected_runs
from lib.statistics.intervals import SeedNoise, seed_noise

PUBLISHED = published.CHAPTER_5
# The parts of Table 5.7 in order; a profile's own rounds come after them.
_PARTS = (*reversed(roles.ROUNDS), "retrieval")
_MEANS = ("mean", "norm_mean")
TOP = 1000  # texts; the published retrieval scores ignore what is ranked lower


def load_models() -> dict[str, str]:
    """Name in Chapter 5 -> identity."""
    return grid("beyond")["final"]


def list_students() -> tuple[str, ...]:
    """The names of the final students."""
    models = load_models().items()
    return tuple(name for name, identity in models if parse(identity).kind == "student")


def list_models(bench: Bench) -> dict[str, str]:
    """All models that a profile judges in Chapter 5: name -> identity."""
    return load_models() | {name: parse(name).identity for name in bench.profile.final.baselines}


def prepare_bench(bench: Bench) -> Bench:
    """A bench with the training scheme of Table 5.2 and newly trained contextual teachers.

    Raises `ValueError` if the documents do not fill one update.
    """
    final = bench.profile.final
    longer = bench.changed(
        "training",
        documents=final.documents,
        passes=final.passes,
        learning_rate=final.learning_rate,
        accumulation=final.accumulation,
    )
    updates = longer.profile.training.updates
    if updates == 0:
        raise ValueError(
            f"final.documents={final.documents} do not fill one update of "
            f"final.accumulation={final.accumulation} batches; raise final.documents"
        )
    warmup_share = min(final.warmup_updates / updates, 0.5)
    return longer.changed("training", warmup_share=warmup_share).changed(
        "contextual_teacher", seed=final.contextual_seed
    )


def run_classifications(bench: Bench) -> pd.DataFrame:
    """Test accuracies of every model in every round, as `Bench.run` returns them.

    Models have the names of Chapter 5. A column round is added.
    """
    final, frames = prepare_bench(bench), []
    for name, limit in bench.profile.final.rounds.items():
        records = final.run(
            list(list_models(bench).values()), seeds=assign_seeds(bench), split="test", limit=limit
        )
        frames.append(records.assign(round=name))
    return _rename_models(pd.concat(frames, ignore_index=True), bench)


def run_readouts(bench: Bench) -> pd.DataFrame:
    """`run_classifications` and `run_cut`, by every readout."""
    frames = []
    for name in READOUTS:
        changed = bench.with_readout(name)
        frames += [run_classifications(changed), run_cut(changed)]
    return pd.concat(frames, ignore_index=True)


def run_retrievals(bench: Bench, *, top: int | None) -> pd.DataFrame:
    """MAP and MRR of every model, as `Bench.retrieve` returns them, with the names of Chapter 5.

    Only the first `top` texts of a ranking count; None for all.
    """
    models = list(list_models(bench).values())
    records = prepare_bench(bench).retrieve(models, seeds=assign_seeds(bench), top=top)
    return _rename_models(records.assign(round=""), bench)


def run_cut(bench: Bench) -> pd.DataFrame:
    """Accuracies of models that read only as far as the structural teacher.

    They are the base, the students and the profile's further baselines. Records are as in
    `run_classifications`, for the round with all examples. Models are called "<name>;cut".
    """
    models = list_models(bench)
    wanted = ("Longformer", *list_students(), *bench.profile.final.baselines)
    names = {f"{models[name]};cut": f"{name};cut" for name in wanted}
    seeds = {f"{identity};cut": numbers for identity, numbers in assign_seeds(bench).items()}
    records = prepare_bench(bench).run(list(names), seeds=seeds, split="test")
    return chapter4.rename_models(records.assign(round="all"), names)


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
    tasks = roles.ordered({*table["task"]} - {*_MEANS}, roles.TABLE_5_7)
    orders = {
        "round": roles.ordered(table["round"], _PARTS),
        "model": list(dict.fromkeys((*load_models(), *table["model"]))),
        "task": [*tasks, *_MEANS],
    }
    return table.sort_values(
        list(orders), key=lambda column: column.map(orders[column.name].index), ignore_index=True
    )


def measure_numbers(bench: Bench) -> dict[str, float]:
    """Our values of the numbers in the ledger.

    structural_updates_ratio: how many documents a final student reads for each one that the
    structural loss does not mask; NaN if it masks all.
    """
    lengths = prepare_bench(bench).structural("train")["lengths"][:]
    unmasked = float((lengths <= bench.profile.training.max_structural_len).mean())
    return {"structural_updates_ratio": 1 / unmasked if unmasked else math.nan}


def measure_noise(accuracies: pd.DataFrame) -> SeedNoise:
    """The seed noise of a final student's mean chance-corrected accuracy in one round."""
    runs = accuracies[accuracies["model"].isin(PUBLISHED)]
    students = runs["model"].isin(list_students())
    runs = runs.assign(model=runs["model"] + ";" + runs["round"])
    return seed_noise(corrected_runs(runs[students]))


def assign_seeds(bench: Bench) -> dict[str, list[int]]:
    """Identity -> seeds: final students and Paragraph Vectors also have the reference seeds."""
    models = load_models()
    return chapter4.assign_seeds(bench, [models[name] for name in (*list_students(), "DM", "PV")])


def _rename_models(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    names = {identity: name for name, identity in list_models(bench).items()}
    return chapter4.rename_models(records, names)


def _summarise(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    """For each round and model, the mean score and the mean of scores over the task's best."""
    compared = scores[scores["model"].isin(PUBLISHED)]
    best = compared.groupby(["round", "task"])[column].max().rename("best")
    joined = scores.join(best, on=["round", "task"])
    joined = joined.assign(mean=joined[column], norm_mean=joined[column] / joined["best"])
    means = joined.groupby(["round", "model"], sort=False)[[*_MEANS]].mean().reset_index()
    return means.melt(["round", "model"], var_name="task", value_name=column)
