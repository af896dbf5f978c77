"""How much results depend on the heads that judge students, and on how long students train."""

import math
from itertools import product

import pandas as pd

from lib import published
from lib.chapters import chapter4
from lib.chapters.published_noise import measure_published_noise
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import grid
from lib.distillation.variants import MM_MSE, parse
from lib.experiments.bench import Bench
from lib.figures.boxplots import UNTRAINED
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected, corrected_runs
from lib.statistics.intervals import (
    PROCESSOR_SD,
    Evidence,
    from_examples,
    from_runs,
    task_scores,
)

CONTROL = "thesis' steps"  # the setting of `run_other_heads` that only some models have
THESIS_BATCHES = 313  # in an epoch of the thesis' heads: 10,000 examples in batches of 32
READOUTS = {"heads": "thesis", "no head": "none"}  # column of Figure A.4 -> `judging.READOUTS`
NO_HEAD = "no head"


def run_other_heads(label: str, bench: Bench) -> pd.DataFrame:
    """Records of a figure's models with all their seeds, under every setting of heads.

    They are as `Bench.run` returns them, with a column heads: the name of the setting in
    `params/grids/beyond.yaml`. Only heads are trained again. Under `CONTROL`, heads of the thesis'
    protocol make as many steps as the thesis' heads did, for models that the file calls
    `controlled`.
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
    """Mean scores of the models of `run_other_heads`, the best by the thesis' heads first.

    Each setting has a column of chance-corrected accuracies, means over tasks and seeds, NaN if the
    setting leaves out a model. The column "no label" has the MRR of finding the other half of a
    held-out document.
    """
    corrected = records.assign(score=chance_corrected)
    scores = corrected.pivot_table("score", "model", "heads")
    scores = scores.reindex(columns=list(grid("beyond")["heads"]))
    runs = records[["model", "identity", "seed"]].drop_duplicates()
    halves = [bench.halves_mrr(run.identity, run.seed) for run in runs.itertuples()]
    scores["no label"] = runs.assign(halves=halves).groupby("model")["halves"].mean()
    return scores.sort_values("thesis", ascending=False).rename_axis(columns=None).reset_index()


def judge_heads(records: pd.DataFrame, left: str, right: str) -> pd.DataFrame:
    """Compare two models of `run_other_heads`, `left` minus `right`, under each setting with both.

    Columns are heads and those of `verdicts.compare` except q.
    """
    tables = {}
    for setting, shown in records.groupby("heads", sort=False):
        pairs = [(left, right)] if {left, right} <= {*shown["model"]} else []
        tables[setting] = verdicts.compare(pairs, _weigh(shown, setting))
    return pd.concat(tables, names=["heads", None]).reset_index("heads").drop(columns="q")


def compare_losses(records: pd.DataFrame, label: str, reference: str = "cosine") -> pd.DataFrame:
    """Every student of a figure minus the `reference` student, ours and published.

    Parameters
    ----------
    records
        As `run_other_heads` returns them.
    label
        The figure.
    reference
        The student that is subtracted.

    Returns
    -------
    DataFrame
        Columns model, by (the setting of heads, or "published"), difference (of mean
        chance-corrected accuracy), low, high.
    """
    theirs = published.load(label).rename(columns={"accuracy": "value"}).assign(seed=0)
    noise = measure_published_noise(label)
    evidence = {
        setting: _weigh(shown, setting)
        for setting, shown in records.groupby("heads", sort=False)
        if setting != CONTROL
    }
    evidence["published"] = from_runs(corrected_runs(theirs), noise=noise)
    frames = []
    for by, one in evidence.items():
        others = [name for name in one.means.index if name not in (reference, *UNTRAINED)]
        pairs = [(name, reference) for name in others if reference in one.means.index]
        frames.append(verdicts.compare(pairs, one).assign(by=by))
    table = pd.concat(frames, ignore_index=True).rename(columns={"left": "model"})
    return table[["model", "by", "difference", "low", "high"]]


def _weigh(records: pd.DataFrame, setting: str) -> Evidence:
    """Evidence from the records of one setting of heads."""
    trained_heads = grid("beyond")["heads"][setting].get("classifier", "head") == "head"
    return from_examples(
        task_scores(records), given=UNTRAINED, processor_sd=PROCESSOR_SD * trained_heads
    )


def change_length(bench: Bench, times: float) -> Bench:
    """A bench whose students read `times` as many documents as in Chapter 4.

    They read further documents of the corpus if there are enough, otherwise the same ones again.
    """
    training, there = bench.profile.training, bench.profile.corpus.train_documents
    count = round(times * training.passes * training.documents)
    passes = math.ceil(count / there)
    return bench.changed("training", documents=count // passes, passes=passes)


def run_lengths(bench: Bench) -> pd.DataFrame:
    """Records of the "base", and of the students of Figure A.4 after each length of training.

    They are as `Bench.run` returns them, by each of `READOUTS` and with at most three reference
    seeds, with the columns readout, times (0 for the base) and updates.
    """
    identities, seeds = _list_identities(), bench.profile.reference_seeds[:3]
    students = [model for name, model in identities.items() if name != "base"]
    lengths = {0: (bench, 0)}
    for times in grid("beyond")["times"]:
        changed = change_length(bench, times)
        lengths[times] = changed, changed.profile.training.updates
    frames = []
    for (times, (changed, updates)), readout in product(lengths.items(), READOUTS):
        models = students[: bench.profile.max_variants] if times else [identities["base"]]
        records = changed.with_readout(READOUTS[readout]).run(models, seeds=seeds)
        frames.append(records.assign(readout=readout, times=times, updates=updates))
    records = pd.concat(frames, ignore_index=True)
    names = {identity: name for name, identity in identities.items()}
    return records.assign(model=records["model"].map(names))


def tabulate_lengths(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Figure A.4's data, from `run_lengths`.

    Columns: model, updates, seed, cosine (to the structural teacher, mean over held-out documents)
    and one for each of `READOUTS` (chance-corrected accuracy, mean over tasks).
    """
    keys = ["model", "times", "updates", "seed"]
    table = records.assign(score=chance_corrected).pivot_table("score", keys, "readout", sort=False)
    table = table[list(READOUTS)].rename_axis(columns=None).reset_index()
    identities, teacher = _list_identities(), bench.structural("validation")["embeddings"][:]
    cosine = []
    for row in table.itertuples():
        changed = change_length(bench, row.times) if row.times else bench
        student = changed.embeddings(identities[row.model], row.seed)["validation"]
        cosine.append(float(cosines(student, teacher).mean()))
    table.insert(4, "cosine", cosine)
    return table.drop(columns="times")


def judge_lengths(records: pd.DataFrame, readout: str) -> pd.DataFrame:
    """What the length of training changes, as `verdicts.compare` of chance-corrected accuracies.

    By one of `READOUTS`, every student is compared with its base and with itself after half the
    length. At each length, max-margin MSE is compared with cosine, and cosine with MSE. Students
    without a structural teacher have their own seed noise.
    """
    shown = records[records["readout"] == readout]
    named = shown.assign(model=shown["model"] + " ×" + shown["times"].map("{:g}".format))
    base, lengths = "base ×0", sorted({*shown["times"]} - {0})
    names_of = _list_identities()
    names = {identity: name for name, identity in names_of.items()}
    students = [name for name in names.values() if name != "base" and name in {*shown["model"]}]
    pairs = []
    for name in students:
        pairs += [(f"{name} ×{times:g}", base) for times in lengths]
    for name in students:
        doubled = [times for times in lengths if times / 2 in lengths]
        pairs += [(f"{name} ×{times:g}", f"{name} ×{times / 2:g}") for times in doubled]
    for left, right in ((MM_MSE, "cosine"), ("cosine", "MSE")):
        if {names[left], names[right]} <= {*students}:
            pairs += [(f"{names[left]} ×{x:g}", f"{names[right]} ×{x:g}") for x in lengths]
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
