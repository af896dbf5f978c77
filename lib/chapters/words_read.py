"""How a contextual teacher improves with the words that it reads, and how many reach SBERT."""

import numpy as np
import pandas as pd

from lib.config.profiles import grid
from lib.experiments.bench import Bench
from lib.statistics.effects import chance_corrected
from lib.statistics.intervals import from_examples, task_scores
from lib.texts import count_words

TEACHER, REFERENCE, TARGET = "DBOW;1024d", "LSA", "SBERT"
DRAWS = 10_000
FARTHEST = 6  # decades of words; a level that needs more is never reached


def run_words(bench: Bench) -> pd.DataFrame:
    """Records of a Paragraph Vector and of LSA that read growing parts of the corpus, and of SBERT.

    They have the columns documents and words (how many were read). The Paragraph Vector runs with
    the reference seeds; if the profile repeats only references, one that reads part of the corpus
    runs with the profile's seeds.
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

        score = a + b log10(words)

    This line is fitted to its scores and extended to SBERT's, on the assumption that it stays
    straight. Intervals account for test texts and seeds.

    Columns: readout, gain (b, what ten times the words add), gain_low, gain_high, missing (SBERT's
    score minus the line's at the whole corpus), times with low and high (1 if the line is there
    already, infinity above a million), words (of the corpus).
    """
    rows = []
    for readout, part in records.groupby("readout", sort=False):
        part = part[part["model"].isin([TEACHER, TARGET])]
        named = part.assign(model=part["model"] + " " + part["words"].astype(str))
        sizes = np.sort(part["words"].unique())
        target, points = f"{TARGET} {sizes[-1]}", [f"{TEACHER} {size}" for size in sizes]
        evidence = from_examples(task_scores(named), given=[target])
        drawn = evidence.scores + np.vstack([0 * evidence.scores, evidence.draws(DRAWS)])
        scores = pd.DataFrame(drawn, columns=evidence.means.index)
        x = np.log10(sizes)
        gain, start = np.polyfit(x, scores[points].to_numpy().T, 1)
        missing = scores[target].to_numpy() - (start + gain * x[-1])
        decades = np.where(missing > 0, np.inf, 0.0)  # what to add to log10(words)
        np.divide(missing, gain, out=decades, where=(missing > 0) & (gain > 0))
        times = 10.0 ** np.where(decades <= FARTHEST, decades, np.inf)
        ends = [0.025, 0.975]
        row = {"readout": readout, "gain": gain[0], "missing": missing[0], "times": times[0]}
        row |= dict(zip(("gain_low", "gain_high"), np.quantile(gain[1:], ends), strict=True))
        # No interpolation between two draws, because one may be infinite.
        bounds = np.quantile(times[1:], ends, method="nearest")
        row |= dict(zip(("low", "high"), bounds, strict=True))
        rows.append(row | {"words": sizes[-1]})
    return pd.DataFrame(rows)


def tabulate_words(records: pd.DataFrame) -> pd.DataFrame:
    """Table "words", from `run_words`: our measurements, the extrapolation, and other corpora.

    Columns: corpus, readout, words, low and high (interval of words if these are extrapolated),
    paragraph_vector, lsa and sbert (chance-corrected means over tasks and seeds).
    """
    frame = records.assign(score=chance_corrected)
    keys = ["readout", "documents", "words"]
    table = frame.pivot_table("score", keys, "model", sort=False).reset_index()
    names = {TEACHER: "paragraph_vector", REFERENCE: "lsa", TARGET: "sbert"}
    table = table.rename(columns=names).rename_axis(columns=None)
    table["sbert"] = table.groupby("readout")["sbert"].transform("max")
    table.insert(0, "corpus", table.pop("documents").map("{:,} documents".format))
    levels = table.groupby("readout")["sbert"].max()
    reach = extrapolate_words(records).set_index("readout")
    ends = reach[["times", "low", "high"]].mul(reach["words"], axis=0)
    ends = ends.map(lambda value: float(f"{value:.2g}")).rename(columns={"times": "words"})
    ends = ends.assign(corpus="SBERT's level, extrapolated", paragraph_vector=levels, sbert=levels)
    frames = [table, ends.reset_index(), pd.DataFrame(grid("beyond")["words"]["elsewhere"])]
    order = ["corpus", "readout", "words", "low", "high", "paragraph_vector", "lsa", "sbert"]
    return pd.concat(frames, ignore_index=True)[order]
