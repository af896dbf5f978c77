"""How much results depend on how long students train (Figure A.4)."""

import math

import pandas as pd

from lib.chapters.geometry import cosines
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.statistics import verdicts
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores

READOUTS = {"heads": "thesis", "no head": "none"}  # column of Figure A.4 -> `readouts.READOUTS`
NO_HEAD = "no head"


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
