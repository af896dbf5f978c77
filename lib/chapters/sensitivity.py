"""How far results hang on choices: the heads that judge students, and how long these train (Figure A.4)."""

import pandas as pd

from lib import experiments
from lib.chapters import chapter4
from lib.config.profiles import Profile, grid
from lib.distillation.variants import MM_MSE
from lib.figures.boxplots import UNTRAINED
from lib.statistics import verdicts
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import from_examples, task_scores

_GRID = grid("beyond")
HEADS = _GRID["heads"]  # changes of the profile's section
STUDENTS = _GRID["students"]
_IDENTITIES = {"base": "Longformer"} | STUDENTS
TIMES = _GRID["times"]  # as many updates as in Chapter 4, as far as the corpus goes


def under_other_heads(label: str, profile: Profile) -> pd.DataFrame:
    """Records, as of `experiments.run`, of a figure's models with all their seeds, under every setting in `HEADS`
    ("heads"). Only heads are trained anew."""
    names = {identity: name for name, identity in chapter4.models(label, profile).items()}
    frames = []
    for setting, changes in HEADS.items():
        longer = (
            {"epochs": max(changes["epochs"], profile.heads.epochs)}
            if setting == "converged"
            else {}
        )
        own = profile.changed("heads", **changes | longer)
        frames.append(
            experiments.run(names, profile=own, seeds=chapter4.seeds(own)).assign(heads=setting)
        )
    return chapter4.renamed(pd.concat(frames, ignore_index=True), names)


def heads_scores(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Mean chance-corrected accuracy over tasks and seeds of `under_other_heads`' models, a row each, the best under
    "converged" first, and "no label", the MRR of the other half of a held-out document."""
    scores = records.assign(score=chance_corrected).pivot_table("score", "model", "heads")[
        list(HEADS)
    ]
    runs = records[["model", "identity", "seed"]].drop_duplicates()
    halves = [experiments.halves_mrr(run.identity, run.seed, profile) for run in runs.itertuples()]
    scores["no label"] = runs.assign(halves=halves).groupby("model")["halves"].mean()
    return scores.sort_values("converged", ascending=False).rename_axis(columns=None).reset_index()


def heads_verdicts(records: pd.DataFrame, left: str, right: str) -> pd.DataFrame:
    """One of `under_other_heads`' models against another, by `verdicts.compare`, under every setting that has both."""
    tables = {}
    for setting, shown in records.groupby("heads", sort=False):
        pairs = [(left, right)] if {left, right} <= {*shown["model"]} else []
        tables[setting] = verdicts.compare(
            pairs, from_examples(task_scores(shown), given=UNTRAINED)
        )
    return pd.concat(tables, names=["heads", None]).reset_index("heads").drop(columns="q")


def longer(profile: Profile) -> dict[int, Profile]:
    """By how many times longer students train than in Chapter 4, as far as the corpus goes: such profiles."""
    counts = {times: times * profile.training.documents for times in TIMES}
    kept = {
        times: count for times, count in counts.items() if count <= profile.corpus.train_documents
    }
    return {times: profile.changed("training", documents=count) for times, count in kept.items()}


def trained_longer(profile: Profile) -> pd.DataFrame:
    """Records, as of `experiments.run`, of the students at each length of training and of the "base", all with three
    reference seeds; with `times` (0 for the base) and `updates`."""
    training, seeds = profile.training, profile.reference_seeds[:3]
    frames = [experiments.run(["Longformer"], profile=profile, seeds=seeds).assign(times=0)]
    for times, own in longer(profile).items():
        students = list(STUDENTS.values())[: profile.max_variants]
        frames.append(experiments.run(students, profile=own, seeds=seeds).assign(times=times))
    records = pd.concat(frames, ignore_index=True)
    names = {identity: name for name, identity in _IDENTITIES.items()}
    updates = records["times"] * training.documents // (training.batch_size * training.accumulation)
    return records.assign(model=records["model"].map(names), updates=updates)


def length_scores(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Figure A.4's data: model, updates, seed, accuracy (chance-corrected, mean over tasks) and halves, the MRR of
    finding the other half of a held-out document among all halves."""
    keys = ["model", "times", "updates", "seed"]
    table = (
        records.assign(accuracy=chance_corrected)
        .groupby(keys, sort=False)["accuracy"]
        .mean()
        .reset_index()
    )
    runs = zip(table["model"].map(_IDENTITIES), table["seed"], table.pop("times"), strict=True)
    own = {0: profile} | longer(profile)
    return table.assign(
        halves=[experiments.halves_mrr(model, seed, own[times]) for model, seed, times in runs]
    )


def length_verdicts(records: pd.DataFrame) -> pd.DataFrame:
    """What more training changes, by `verdicts.compare` of chance-corrected accuracies: every student with its base, at
    each length, and with itself at the shortest; and at each length max-margin MSE with cosine, and cosine with MSE."""
    named = records.assign(model=records["model"] + " ×" + records["times"].astype(str))
    base, lengths = "base ×0", sorted({*records["times"]} - {0})
    cosine, margin, plain = (
        name for name, identity in STUDENTS.items() if identity in ("cosine", MM_MSE, "MSE")
    )
    students = [name for name in STUDENTS if name in {*records["model"]}]
    pairs = [(f"{name} ×{times}", base) for name in students for times in lengths]
    pairs += [
        (f"{name} ×{times}", f"{name} ×{lengths[0]}") for name in students for times in lengths[1:]
    ]
    rivals = [pair for pair in ((margin, cosine), (cosine, plain)) if {*pair} <= {*students}]
    pairs += [
        (f"{left} ×{times}", f"{right} ×{times}") for left, right in rivals for times in lengths
    ]
    return verdicts.compare(pairs, from_examples(task_scores(named), given=[base]))
