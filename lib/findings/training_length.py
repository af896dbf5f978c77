"""How scores move with the length of training, from the untrained base to four times Chapter 4's (Figure A.4)."""

import pandas as pd

from lib import experiments
from lib.config.profiles import Profile
from lib.distillation.variants import MM_MSE, NO_WEIGHTING
from lib.statistics import verdicts
from lib.statistics.intervals import from_examples, task_scores

STUDENTS = {
    "cosine": "cosine",
    "max-margin MSE, γ=1": MM_MSE,
    "MSE": "MSE",
    "contextual alone": "only-contextual;2048d;S:1024(ReLU)x2048;C:-",
    "cosine + contextual, masked": f"{NO_WEIGHTING['cosine']};384;λ=0.5",
}
TIMES = (1, 2, 4)  # as many updates as in Chapter 4


def run(profile: Profile) -> pd.DataFrame:
    """Records of the students at each length of training, with the reference seeds, and of the base: as of
    `experiments.run`, with `times` (0 for the base) and `updates`; model is a name in `STUDENTS`, or "base".

    Raises ValueError if the corpus is too small for the longest.
    """
    training, seeds = profile.training, profile.reference_seeds
    names = {identity: name for name, identity in STUDENTS.items()}
    frames = [experiments.run(["Longformer"], profile=profile, seeds=seeds).assign(model="base", times=0)]
    for times in TIMES:
        records = experiments.run(names, profile=_longer(profile, times), seeds=seeds)
        frames.append(records.assign(model=records["model"].map(names), times=times))
    records = pd.concat(frames, ignore_index=True)
    per_update = training.batch_size * training.accumulation
    return records.assign(updates=records["times"] * training.documents // per_update)


def scores(records: pd.DataFrame, profile: Profile) -> pd.DataFrame:
    """Figure A.4's data: model, updates, seed, accuracy (chance-corrected, mean over tasks) and halves, the MRR of
    finding the other half of a held-out document among all halves."""
    corrected = (records["value"] - records["chance"]) / (1 - records["chance"])
    keys = ["model", "times", "updates", "seed"]
    table = records.assign(accuracy=corrected).groupby(keys, sort=False)["accuracy"].mean().reset_index()
    identities = {"base": "Longformer"} | STUDENTS
    table["halves"] = [
        experiments.halves_mrr(identities[row.model], row.seed, _longer(profile, max(row.times, 1)))
        for row in table.itertuples()
    ]
    return table.drop(columns="times")


def changes(records: pd.DataFrame) -> pd.DataFrame:
    """What more training changes, by `verdicts.compare` of chance-corrected accuracies: every student with its base, at
    each length, and with itself at the shortest; and at each length max-margin MSE with cosine."""
    named = records.assign(model=records["model"] + " ×" + records["times"].astype(str))
    base = "base ×0"
    cosine, margin = (name for name, identity in STUDENTS.items() if identity in ("cosine", MM_MSE))
    pairs = [(f"{name} ×{times}", base) for name in STUDENTS for times in TIMES]
    pairs += [(f"{name} ×{times}", f"{name} ×{TIMES[0]}") for name in STUDENTS for times in TIMES[1:]]
    pairs += [(f"{margin} ×{times}", f"{cosine} ×{times}") for times in TIMES]
    return verdicts.compare(pairs, from_examples(task_scores(named), given=[base]))


def _longer(profile: Profile, times: int) -> Profile:
    """The profile with so many times the documents to train a student on."""
    documents = times * profile.training.documents
    if documents > profile.corpus.train_documents:
        has = f"corpus.train_documents is {profile.corpus.train_documents}"
        raise ValueError(f"{times} times training.documents are {documents}, but {has}")
    return profile.model_copy(update={"training": profile.training.model_copy(update={"documents": documents})})
