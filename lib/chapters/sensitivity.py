"""How much results depend on the heads that judge students, and on how long students train."""

import math

import pandas as pd

from lib import published
from lib.chapters import chapter4
from lib.chapters.published_noise import measure_published_noise
from lib.chapters.teacher_distances import cosines
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.figures.boxplots import UNTRAINED
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected, corrected_runs
from lib.statistics.intervals import PROCESSOR_SD, from_examples, from_runs, task_scores

CONTROL = "thesis' steps"  # the setting of `run_other_heads` that only some models have
THESIS_BATCHES = 313  # in an epoch of the thesis' heads: 10,000 examples in batches of 32
READOUTS = {"heads": "thesis", "no head": "none"}  # column of Figure A.4 -> `readouts.READOUTS`
NO_HEAD = "no head"


def run_other_heads(label: str, bench: Bench) -> pd.DataFrame:
    """Records of a figure's models with all their seeds, under every setting of heads.

    Column heads: its name in `params/grids/beyond.yaml`. Under `CONTROL`, heads of the thesis'
    protocol make as many steps as the thesis' did, for models that the file calls `controlled`.
    """
    profile, settings, frames = bench.profile, grid("beyond"), []
    names = {identity: name for name, identity in chapter4.list_models(label, profile).items()}
    for setting, changes in settings["heads"].items():
        models = [*names]
        if setting == CONTROL:
            changes = changes | {"steps": THESIS_BATCHES * profile.heads.epochs}
            models = [model for model in names if model in settings["controlled"]]
        changed = bench.changed("heads", **changes)
        records = changed.run(models, seeds=chapter4.assign_seeds(profile))
        frames.append(records.assign(heads=setting))
    return chapter4.rename_models(pd.concat(frames, ignore_index=True), names)


def tabulate_heads(records: pd.DataFrame, bench: Bench) -> pd.DataFrame:
    """Mean chance-corrected accuracies of the models of `run_other_heads`, a column per setting.

    The column "no label" has the MRR of finding the other half of a held-out document.
    """
    scores = records.assign(score=chance_corrected).pivot_table("score", "model", "heads")
    scores = scores.reindex(columns=list(grid("beyond")["heads"]))
    runs = records[["model", "identity", "seed"]].drop_duplicates()
    halves = [bench.halves_mrr(run.identity, run.seed) for run in runs.itertuples()]
    scores["no label"] = runs.assign(halves=halves).groupby("model")["halves"].mean()
    return scores.sort_values("thesis", ascending=False).rename_axis(columns=None).reset_index()


def judge_heads(records: pd.DataFrame, left: str, right: str) -> pd.DataFrame:
    """`verdicts.compare` two models of `run_other_heads`, under each setting that has both."""
    return _compare(records, [(left, right)]).drop(columns="q")


def compare_losses(records: pd.DataFrame, label: str, reference: str = "cosine") -> pd.DataFrame:
    """Every student of `run_other_heads` for a figure minus the `reference`, ours and published.

    Columns: model, by (the setting of heads, or "published"), difference (of mean chance-corrected
    accuracy), low, high.
    """
    theirs = published.load(label).rename(columns={"accuracy": "value"}).assign(seed=0)
    names = sorted({*records["model"], *theirs["model"]} - {reference, *UNTRAINED})
    pairs = [(name, reference) for name in names]
    ours = _compare(records[records["heads"] != CONTROL], pairs).rename(columns={"heads": "by"})
    evidence = from_runs(corrected_runs(theirs), noise=measure_published_noise(label))
    both = pd.concat([ours, verdicts.compare(pairs, evidence).assign(by="published")])
    table = both[both["verdict"] != verdicts.NOT_RUN].rename(columns={"left": "model"})
    return table[["model", "by", "difference", "low", "high"]].reset_index(drop=True)


def _compare(records: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """`verdicts.compare` under each setting of heads, a column, without models that it lacks."""
    tables, settings = {}, grid("beyond")["heads"]
    for setting, shown in records.groupby("heads", sort=False):
        trained_heads = settings[setting].get("classifier", "head") == "head"
        noise = {"given": UNTRAINED, "processor_sd": PROCESSOR_SD * trained_heads}
        tables[setting] = verdicts.compare(pairs, from_examples(task_scores(shown), **noise))
    table = pd.concat(tables, names=["heads", None]).reset_index("heads")
    return table[table["verdict"] != verdicts.NOT_RUN]


def find_length(profile: Profile, times: float) -> dict[str, int]:
    """Settings of a training on `times` as many documents: on further ones if there are enough."""
    training = profile.training
    count = round(times * training.passes * training.documents)
    passes = math.ceil(count / profile.corpus.train_documents)
    return {"documents": count // passes, "passes": passes}


def run_lengths(bench: Bench) -> pd.DataFrame:
    """Records of the "base", and of the students of Figure A.4 after each length of training.

    They have at most three reference seeds, and the columns readout (one of `READOUTS`), times (0
    for the base), updates, and cosine (to the structural teacher, mean over held-out documents).
    """
    profile, settings, frames = bench.profile, grid("beyond"), []
    names = {identity: name for name, identity in settings["students"].items()}
    teacher = bench.teacher.embed(bench.held_out)[:]
    for times in (0, *settings["times"]):
        models = [*names][: profile.max_variants] if times else ["Longformer"]
        changed = bench.changed("training", **find_length(profile, times)) if times else bench
        updates = changed.profile.training.updates if times else 0
        for column, readout in READOUTS.items():
            judged = changed.with_readout(readout)
            records = judged.run(models, seeds=profile.reference_seeds[:3])
            runs = records[["model", "seed"]].drop_duplicates()
            embedded = [changed.embeddings(*run)["validation"] for run in runs.to_numpy()]
            runs["cosine"] = [float(cosines(rows, teacher).mean()) for rows in embedded]
            facts = {"readout": column, "times": times, "updates": updates}
            frames.append(records.assign(**facts).merge(runs, on=["model", "seed"]))
    records = pd.concat(frames, ignore_index=True)
    return records.assign(model=records["model"].map({"Longformer": "base"} | names))


def judge_lengths(records: pd.DataFrame, readout: str) -> pd.DataFrame:
    """What the length of training changes, as `verdicts.compare` of chance-corrected accuracies.

    By one of `READOUTS`, every student is compared with its base and with itself after half the
    length. At each length, max-margin MSE is compared with cosine, and cosine with MSE.
    """
    identities = {"base": "Longformer"} | grid("beyond")["students"]
    shown = records[records["readout"] == readout]
    named = shown.assign(model=shown["model"] + " ×" + shown["times"].map("{:g}".format))
    students = [name for name in grid("beyond")["students"] if name in {*shown["model"]}]
    lengths = sorted({*shown["times"]} - {0})
    pairs = [(f"{name} ×{x:g}", "base ×0") for name in students for x in lengths]
    doubled = [x for x in lengths if x / 2 in lengths]
    pairs += [(f"{name} ×{x:g}", f"{name} ×{x / 2:g}") for name in students for x in doubled]
    for left, right in (("max-margin MSE, γ=1", "cosine"), ("cosine", "MSE")):
        if {left, right} <= {*students}:
            pairs += [(f"{left} ×{x:g}", f"{right} ×{x:g}") for x in lengths]
    evidence = from_examples(
        task_scores(named),
        given=["base ×0"],
        class_of=lambda name: parse(identities[name.rpartition(" ×")[0]]).seed_class,
        processor_sd=PROCESSOR_SD,
    )
    return verdicts.compare(pairs, evidence)
