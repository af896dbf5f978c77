"""How results depend on how long students train (Figure A.4), and on what a teacher has read."""

import math

import numpy as np
import pandas as pd

from lib.chapters.geometry import cosines
from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.experiments.bench import Bench
from lib.statistics import verdicts
from lib.statistics.intervals import PROCESSOR_SD, from_examples, task_scores
from lib.texts import count_words

READOUTS = {"heads": "thesis", "no head": "none"}  # column of Figure A.4 -> `readouts.READOUTS`
NO_HEAD = "no head"
# Teachers whose words are counted, and the one whose level they should reach.
TEACHER, REFERENCE, TARGET = "DBOW;1024d", "LSA", "SBERT"
DRAWS = 10_000
FARTHEST = 6  # decades of words; a level that needs more is never reached


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
    names = {identity: name for name, identity in grid("beyond")["students"].items()}
    runs = [(0, ["Longformer"], bench)]
    for times in grid("beyond")["times"]:
        longer = bench.changed("training", **find_length(bench.profile, times))
        runs.append((times, [*names][: bench.profile.max_variants], longer))
    teacher, frames = bench.teacher.embed(bench.held_out)[:], []
    for times, models, longer in runs:
        updates = longer.profile.training.updates if times else 0
        for column, readout in READOUTS.items():
            seeds = bench.profile.reference_seeds[:3]
            records = longer.with_readout(readout).run(models, seeds=seeds)
            records = records.assign(readout=column, times=times, updates=updates)
            for run, part in records.groupby(["model", "seed"], sort=False):
                rows = longer.model(*run).embed(longer.held_out)[:]
                frames.append(part.assign(cosine=cosines(rows, teacher).mean()))
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
    lengths, shown = sorted({*shown["times"]} - {0}), {*shown["model"]}
    students = [name for name in grid("beyond")["students"] if name in shown]
    pairs = [(f"{name} ×{x:g}", "base ×0") for name in students for x in lengths]
    doubled = [x for x in lengths if x / 2 in lengths]
    pairs += [(f"{name} ×{x:g}", f"{name} ×{x / 2:g}") for name in students for x in doubled]
    for left, right in (("max-margin MSE, γ=1", "cosine"), ("cosine", "MSE")):
        if {left, right} <= shown:
            pairs += [(f"{left} ×{x:g}", f"{right} ×{x:g}") for x in lengths]
    evidence = from_examples(
        task_scores(named),
        given=["base ×0"],
        class_of=lambda name: parse(identities[name.rpartition(" ×")[0]]).seed_class,
        processor_sd=PROCESSOR_SD,
    )
    return verdicts.compare(pairs, evidence)


def run_words(bench: Bench) -> pd.DataFrame:
    """Records of a Paragraph Vector and of LSA that read growing parts of the corpus, and of SBERT.

    Columns documents and words say how many were read. The Paragraph Vector has the reference
    seeds, but on a part of the corpus the profile's seeds if it repeats only references.
    """
    settings, profile, frames = grid("beyond")["words"], bench.profile, []
    texts = bench.train[: profile.contextual_teacher.documents]
    read = np.cumsum([count_words(text) for text in texts])
    few = profile.seeds if profile.repeated == "references" else profile.reference_seeds
    for readout in settings["readouts"]:
        for count in sorted({max(2, round(share * len(texts))) for share in settings["shares"]}):
            part, models, seeds = bench.with_readout(readout), [TEACHER, REFERENCE], few
            if count < len(texts):
                part = part.changed("contextual_teacher", documents=count)
            else:
                models, seeds = [*models, TARGET], profile.reference_seeds
            records = part.run(models, seeds={TEACHER: seeds})
            frames.append(records.assign(documents=count, words=read[count - 1]))
    return pd.concat(frames, ignore_index=True)


def extrapolate_words(records: pd.DataFrame) -> pd.DataFrame:
    """How many times the corpus' words would raise the Paragraph Vector of `run_words` to SBERT.

    The line score = a + b log10(words) is fitted to its scores and assumed to stay straight.
    Intervals (95%) account for test texts and seeds. Columns: readout, gain (b) with gain_low and
    gain_high, times with low and high (1 if the line is there already, infinity above a million),
    words (of the corpus).
    """
    rows = []
    for readout, part in records.groupby("readout", sort=False):
        part = part[part["model"].isin([TEACHER, TARGET])]
        named = part.assign(model=part["model"] + " " + part["words"].astype(str))
        sizes = np.sort(part["words"].unique())
        target, points = f"{TARGET} {sizes[-1]}", [f"{TEACHER} {size}" for size in sizes]
        evidence = from_examples(task_scores(named), given=[target])
        noise = np.vstack([0 * evidence.scores, evidence.draws(DRAWS)])  # first the scores as such
        scores = pd.DataFrame(evidence.scores + noise, columns=evidence.means.index)
        gain, start = np.polyfit(np.log10(sizes), scores[points].to_numpy().T, 1)
        missing = scores[target].to_numpy() - (start + gain * np.log10(sizes[-1]))
        decades = np.where(missing > 0, np.inf, 0.0)  # what to add to log10(words)
        np.divide(missing, gain, out=decades, where=(missing > 0) & (gain > 0))
        times = 10.0 ** np.where(decades <= FARTHEST, decades, np.inf)
        gains = np.quantile(gain[1:], [0.025, 0.975])
        # No interpolation between two draws, because one may be infinite.
        bounds = np.quantile(times[1:], [0.025, 0.975], method="nearest")
        rows.append((readout, gain[0], *gains, times[0], *bounds, sizes[-1]))
    columns = ["readout", "gain", "gain_low", "gain_high", "times", "low", "high", "words"]
    return pd.DataFrame(rows, columns=columns)
