"""How far results depend on the heads that judge students, and on how long students train."""

import pandas as pd

from lib.chapters import chapter4
from lib.config.profiles import grid
from lib.distillation.variants import MM_MSE, parse
from lib.experiments.bench import Bench
from lib.figures.boxplots import UNTRAINED
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores

CONTROL = "thesis' steps"  # the setting of `run_other_heads` that only some models have
THESIS_BATCHES = 313  # of an epoch of the thesis' heads: 10,000 examples, 32 in a batch


def run_other_heads(label: str, bench: Bench) -> pd.DataFrame:
    """Records of a figure's models with all their seeds, under every setting of heads.

    As of `Bench.run`, with the column heads, the name of the setting in `params/grids/beyond.yaml`.
    Only heads are trained anew. Under `CONTROL`, heads of the thesis' protocol make as many steps
    in an epoch as the thesis' heads did, of the models that this file lists as `controlled`.
    """
    names = {identity: name for name, identity in chapter4.list_models(label, bench).items()}
    frames = []
    for setting, changes in grid("beyond")["heads"].items():
        models = [*names]
        if setting == CONTROL:
            changes = changes | {"steps": THESIS_BATCHES * bench.profile.heads.epochs}
            models = [model for model in names if model in grid("beyond")["controlled"]]
        changed = bench.changed("heads", **changes)
        records = changed.run(models, seeds=chapter4.assign_seeds(changed))
        frames.append(records.assign(heads=setting))
    return chapter4.rename_models(pd.concat(frames, ignore_index=True), names)


def tabulate_heads(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Mean scores of `run_other_heads`' models, the best by the thesis' heads first.

    A column for each setting: chance-corrected accuracy, mean over tasks and seeds; NaN where a
    setting leaves the model out. Column "no label": MRR of finding the other half of a held-out
    document.
    """
    corrected = records.assign(score=chance_corrected)
    scores = corrected.pivot_table("score", "model", "heads")
    scores = scores.reindex(columns=list(grid("beyond")["heads"]))
    runs = records[["model", "identity", "seed"]].drop_duplicates()
    halves = [bench.halves_mrr(run.identity, run.seed) for run in runs.itertuples()]
    scores["no label"] = runs.assign(halves=halves).groupby("model")["halves"].mean()
    return scores.sort_values("thesis", ascending=False).rename_axis(columns=None).reset_index()


def judge_heads(records: pd.DataFrame, left: str, right: str) -> pd.DataFrame:
    """One of `run_other_heads`' models against another, under every setting that has both.

    Columns as of `verdicts.compare`, without q and with heads.
    """
    tables = {}
    for setting, shown in records.groupby("heads", sort=False):
        pairs = [(left, right)] if {left, right} <= {*shown["model"]} else []
        trained_heads = grid("beyond")["heads"][setting].get("classifier", "head") == "head"
        evidence = from_examples(
            task_scores(shown), given=UNTRAINED, processor_sd=PROCESSOR_SD * trained_heads
        )
        tables[setting] = verdicts.compare(pairs, evidence)
    return pd.concat(tables, names=["heads", None]).reset_index("heads").drop(columns="q")


def lengthen_training(bench: Bench) -> dict[int, Bench]:
    """How many times longer than in Chapter 4 -> bench, as far as the corpus goes."""
    longer = {}
    for times in grid("beyond")["times"]:
        count = times * bench.profile.training.documents
        if count <= bench.profile.corpus.train_documents:
            longer[times] = bench.changed("training", documents=count)
    return longer


def run_longer(bench: Bench) -> pd.DataFrame:
    """Records of the students at each length of training and of the "base", with three seeds.

    As of `Bench.run`, with the columns times (0 for the base) and updates.
    """
    training, seeds = bench.profile.training, bench.profile.reference_seeds[:3]
    identities = _list_identities()
    students = [model for name, model in identities.items() if name != "base"]
    frames = [bench.run([identities["base"]], seeds=seeds).assign(times=0)]
    for times, longer in lengthen_training(bench).items():
        records = longer.run(students[: bench.profile.max_variants], seeds=seeds)
        frames.append(records.assign(times=times))
    records = pd.concat(frames, ignore_index=True)
    names = {identity: name for name, identity in identities.items()}
    updates = records["times"] * training.documents // (training.batch_size * training.accumulation)
    return records.assign(model=records["model"].map(names), updates=updates)


def tabulate_lengths(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Figure A.4's data, from `run_longer`.

    Columns: model, updates, seed, accuracy (chance-corrected, mean over tasks) and halves, the MRR
    of finding the other half of a held-out document among all halves.
    """
    keys = ["model", "times", "updates", "seed"]
    corrected = records.assign(accuracy=chance_corrected)
    table = corrected.groupby(keys, sort=False)["accuracy"].mean().reset_index()
    identities, benches = _list_identities(), {0: bench} | lengthen_training(bench)
    halves = [
        benches[row.times].halves_mrr(identities[row.model], row.seed) for row in table.itertuples()
    ]
    return table.drop(columns="times").assign(halves=halves)


def judge_lengths(records: pd.DataFrame) -> pd.DataFrame:
    """What more training changes, by `verdicts.compare` of chance-corrected accuracies.

    Every student against its base, at each length, and against itself at the shortest; at each
    length also max-margin MSE against cosine, and cosine against MSE. The seed noise of students
    without a structural teacher is their own.
    """
    named = records.assign(model=records["model"] + " ×" + records["times"].astype(str))
    base, lengths = "base ×0", sorted({*records["times"]} - {0})
    names_of = _list_identities()
    names = {identity: name for name, identity in names_of.items()}
    students = [name for name in names.values() if name != "base" and name in {*records["model"]}]
    pairs = []
    for name in students:
        pairs += [(f"{name} ×{times}", base) for times in lengths]
    for name in students:
        pairs += [(f"{name} ×{times}", f"{name} ×{lengths[0]}") for times in lengths[1:]]
    for left, right in ((MM_MSE, "cosine"), ("cosine", "MSE")):
        if {names[left], names[right]} <= {*students}:
            pairs += [(f"{names[left]} ×{times}", f"{names[right]} ×{times}") for times in lengths]
    evidence = from_examples(
        task_scores(named),
        given=[base],
        class_of=lambda name: str(parse(names_of[name.rpartition(" ×")[0]]).structural is None),
        processor_sd=PROCESSOR_SD,
    )
    return verdicts.compare(pairs, evidence)


def _list_identities() -> dict[str, str]:
    """Name in Figure A.4 -> identity, the base first."""
    return {"base": "Longformer"} | grid("beyond")["students"]
