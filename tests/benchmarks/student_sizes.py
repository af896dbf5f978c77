"""The checks by which the base and the length of a student's training are chosen.

    python tests/benchmarks/student_sizes.py words 1 2 4        # epochs of masked words
    python tests/benchmarks/student_sizes.py rates 1e-4 3e-4    # learning rates
    python tests/benchmarks/student_sizes.py lengths 0.5 1 2    # times the profile's length
    python tests/benchmarks/student_sizes.py seconds fp32 bf16  # precisions

No ranking of students is looked at: words by held-out loss, rates by the distance to the teacher,
lengths by how far each student still moves. What was computed once is read from the store.
"""

import argparse
import time

from lib.config import environment

environment.set_process_environment(offline=True)  # before NumPy and torch load, as in notebooks

# ruff: noqa: E402
import pandas as pd

from lib.chapters import sensitivity
from lib.chapters.geometry import cosines, mean_cosine
from lib.distillation import variants
from lib.experiments.bench import Bench
from lib.losses import mse
from lib.statistics.effects import chance_corrected

STUDENTS = ("cosine", "MSE", "max-margin;MSE;γ=1.0")  # the reference students


def try_words(profile, epochs):
    """What masked words cost, and what the base is like after some epochs of them."""
    for count in map(int, epochs):
        bench = Bench.load(profile, overrides={"student.language_model.epochs": count})
        note = bench.base.history()
        base, teacher = (each.embed(bench.held_out)[:] for each in (bench.base, bench.teacher))
        yield {
            "epochs": count,
            "updates": len(note["loss"]),
            "held-out loss": note["held_out"],
            "by frequency": note["unigram"],
            "cosine between texts": mean_cosine(base),
            "cosine to the teacher": cosines(base, teacher).mean(),
        }


def try_rates(profile, rates):
    """How far the reference students stay from their teacher on held-out documents."""
    import torch

    for rate in map(float, rates):
        bench = Bench.load(profile, overrides={"training.learning_rate": rate})
        bench.embed([bench.model(label) for label in STUDENTS], bench.held_out)
        teacher = bench.teacher.embed(bench.held_out)[:]
        for label in STUDENTS:
            student = bench.model(label).embed(bench.held_out)[:]
            distance = mse(torch.from_numpy(student), torch.from_numpy(teacher)).mean().item()
            cosine = cosines(student, teacher).mean()
            yield {"rate": rate, "student": label, "cosine": cosine, "MSE": distance}


def try_lengths(profile, lengths):
    """How far twice as many updates move a reference student's mean over tasks, without a head."""
    bench = Bench.load(profile)
    teacher = bench.teacher.embed(bench.held_out)[:]
    for times in map(float, lengths):
        longer = bench.changed("training", **sensitivity.find_length(bench.profile, times))
        plain = longer.with_readout(sensitivity.READOUTS[sensitivity.NO_HEAD])
        records = plain.run(STUDENTS, seeds=[0])
        scores = records.assign(score=chance_corrected).groupby("model")["score"].mean()
        for label in STUDENTS:
            arrays = longer.embeddings(label, 0)
            yield {
                "times": times,
                "updates": longer.profile.training.updates,
                "student": label,
                "cosine": cosines(arrays["validation"], teacher).mean(),
                "no head": scores[variants.parse(label).identity],
            }


def try_seconds(profile, precisions):
    """What a student costs a core: its training, and the texts of Chapter 4."""
    for precision in precisions:
        changes = {"training.precision": precision, "student.language_model": None}
        bench = Bench.load(profile, overrides=changes)
        student = bench.model("cosine")
        training = student.history()["seconds"].item()
        examples = [bench.examples(name, "validation") for name in bench.classifications]
        texts = [text for part in examples for text in part.texts]
        started = time.process_time()
        student.encode(texts)
        embedding = time.process_time() - started
        yield {"precision": precision, "training": training, "embedding": embedding}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tries = {"words": try_words, "rates": try_rates, "lengths": try_lengths}
    tries["seconds"] = try_seconds
    parser.add_argument("what", choices=tries)
    parser.add_argument("values", nargs="+")
    parser.add_argument("--profile", default="mini")
    given = parser.parse_args()
    rows = []
    for row in tries[given.what](given.profile, given.values):
        rows.append(row)
        print(pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format), flush=True)


if __name__ == "__main__":
    main()
