"""How a contextual teacher improves with the words that it reads, and how many reach SBERT."""

import numpy as np
import pandas as pd

from lib.config.profiles import grid
from lib.experiments.bench import Bench
from lib.statistics.intervals import from_examples, task_scores
from lib.texts import count_words

TEACHER, REFERENCE, TARGET = "DBOW;1024d", "LSA", "SBERT"
DRAWS = 10_000
FARTHEST = 6  # decades of words; a level that needs more is never reached


def run_words(bench: Bench) -> pd.DataFrame:
    """Records of a Paragraph Vector and of LSA that read growing parts of the corpus, and of SBERT.

    They have the columns documents and words (how many were read). The Paragraph Vector runs with
    the reference seeds, but on a part of the corpus with the profile's seeds if it repeats only
    references.
    """
    settings, profile, frames = grid("beyond")["words"], bench.profile, []
    texts = bench.first_texts(profile.contextual_teacher.documents)
    read = np.cumsum([count_words(text) for text in texts])
    few = profile.seeds if profile.repeated == "references" else profile.reference_seeds
    for readout in settings["readouts"]:
        judged = bench.with_readout(readout)
        for count in sorted({max(2, round(share * len(texts))) for share in settings["shares"]}):
            part, models, seeds = judged, [TEACHER, REFERENCE], few
            if count < len(texts):
                part = judged.changed("contextual_teacher", documents=count)
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
