"""How results depend on how long students train (Figure A.4), and on what a teacher has read."""

import math

import numpy as np
import pandas as pd

from lib.config.profiles import grid
from lib.config.schema import Profile
from lib.distillation.variants import parse
from lib.evaluation.metrics import cosines
from lib.experiments.bench import Bench
from lib.statistics.intervals import PROCESSOR_SD, Evidence, from_examples, task_scores
from lib.texts import count_words

READOUTS = ("thesis", "none")  # of Figure A.4
TEACHER, REFERENCE, TARGET = "DBOW;1024d", "LSA", "SBERT"  # the last has the level to reach
DRAWS = 10_000
FARTHEST = 6  # decades of words; a level that needs more is never reached


def find_length(profile: Profile, times: float) -> dict[str, int]:
    """Settings of a training on `times` as many documents: on further ones if there are enough."""
    count = round(times * profile.training.passes * profile.training.documents)
    passes = math.ceil(count / profile.corpus.train_documents)
    return {"documents": count // passes, "passes": passes}


def run_lengths(bench: Bench) -> pd.DataFrame:
    """Records of the "base", and of the students of Figure A.4 after each length of training, with
    at most three reference seeds, and those `doubled` with one. Columns are also readout, times (0
    for the base), updates, and cosine (to the structural teacher, mean over held-out documents).
    """
    names = {identity: name for name, identity in grid("beyond")["students"].items()}
    students, seeds = [*names][: bench.profile.max_variants], bench.profile.reference_seeds[:3]
    doubled = [each for each in students if names[each] in grid("beyond")["doubled"]]
    teacher, frames = bench.teacher.embed(bench.held_out)[:], []
    for times in (0, *grid("beyond")["times"]):
        longer = bench.changed("training", **find_length(bench.profile, times)) if times else bench
        training = longer.profile.training
        updates = training.count_updates(training.documents) if times else 0
        facts = {"times": times, "updates": updates}
        models, few = (doubled, seeds[:1]) if times > 1 else (students, seeds)
        models = models if times else ["Longformer"]
        for readout in READOUTS:
            records = longer.with_readout(readout).run(models, seeds=few)
            for run, part in records.groupby(["model", "seed"], sort=False):
                rows = longer.model(*run).embed(longer.held_out)[:]
                frames.append(part.assign(cosine=cosines(rows, teacher).mean(), **facts))
    records = pd.concat(frames, ignore_index=True)
    return records.assign(model=records["model"].map({"Longformer": "base"} | names))


def collect_evidence(records: pd.DataFrame, readout: str) -> Evidence:
    """Evidence on the students of `run_lengths` by one of `READOUTS`, named "<model> ×<times>"."""
    identities = {"base": "Longformer"} | grid("beyond")["students"]
    shown = records[records["readout"] == readout]
    named = shown.assign(model=shown["model"] + " ×" + shown["times"].map("{:g}".format))
    return from_examples(
        task_scores(named),
        given=["base ×0"],
        class_of=lambda name: parse(identities[name.rpartition(" ×")[0]]).seed_class,
        processor_sd=PROCESSOR_SD[readout],
    )


def run_words(bench: Bench) -> pd.DataFrame:
    """Records of a Paragraph Vector and of LSA that read growing parts of the corpus, and of SBERT.
    Columns documents and words say how many were read. Those that read all have reference seeds.
    """
    settings, profile, frames = grid("beyond")["words"], bench.profile, []
    texts = bench.train[: profile.contextual_teacher.documents]
    read = np.cumsum([count_words(text) for text in texts])
    few = profile.seeds if profile.repeated == "references" else profile.reference_seeds
    for readout in settings["readouts"]:
        for count in sorted({max(2, round(share * len(texts))) for share in settings["shares"]}):
            part, models, seeds = bench.with_readout(readout), [TEACHER, REFERENCE], few
            part = part.changed("contextual_teacher", documents=count)
            if count == len(texts):
                models, seeds = [*models, TARGET], profile.reference_seeds
            records = part.run(models, seeds={TEACHER: seeds})
            frames.append(records.assign(documents=count, words=read[count - 1]))
    return pd.concat(frames, ignore_index=True)


def extrapolate_words(records: pd.DataFrame) -> pd.DataFrame:
    """How many times the corpus' words would raise the Paragraph Vector of `run_words` to SBERT.
    The line score = gain log10(words) + b is assumed to stay straight; 95% intervals account for
    test texts and seeds. Columns: readout, gain, times, low, high (inf above a million), words.
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
        # No interpolation between two draws, because one may be infinite.
        bounds = np.quantile(times[1:], [0.025, 0.975], method="nearest")
        rows.append((readout, gain[0], times[0], *bounds, sizes[-1]))
    columns = ["readout", "gain", "times", "low", "high", "words"]
    return pd.DataFrame(rows, columns=columns)
