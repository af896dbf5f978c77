"""The checks by which the base and the learning rate of students are chosen.

    python benchmarks/student_sizes.py words 1 2 4        # epochs of masked words
    python benchmarks/student_sizes.py rates 1e-4 3e-4    # learning rates

No ranking of students is looked at: words by held-out loss, rates by the distance to the teacher.
What was computed once is read from the store.
"""

import argparse

from lib.config import environment

environment.set_process_environment(offline=True)  # before NumPy and torch load, as in notebooks

# ruff: noqa: E402
import pandas as pd
import torch

from lib.evaluation.metrics import cosines, mean_cosine
from lib.experiments.bench import Bench
from lib.losses import mse

STUDENTS = ("cosine", "MSE", "max-margin;MSE;γ=1.0")  # the reference students


def try_words(profile, count):
    """What the base is like after so many epochs of masked words."""
    bench = Bench.load(profile, overrides={"student.language_model": int(count)})
    note = bench.base.outcome()
    base, teacher = (each.embed(bench.held_out)[:] for each in (bench.base, bench.teacher))
    yield {
        "epochs": count,
        "updates": len(note["loss"]),
        "held-out loss": note["held_out"],
        "by frequency": note["unigram"],
        "cosine between texts": mean_cosine(base),
        "cosine to the teacher": cosines(base, teacher).mean(),
    }


def try_rates(profile, rate):
    """How far the reference students stay from their teacher on held-out documents."""
    bench = Bench.load(profile, overrides={"training.learning_rate": float(rate)})
    bench.prepare([bench.model(label) for label in STUDENTS], bench.held_out)
    teacher = bench.teacher.embed(bench.held_out)[:]
    for label in STUDENTS:
        student = bench.model(label).embed(bench.held_out)[:]
        distance = mse(torch.from_numpy(student), torch.from_numpy(teacher)).mean().item()
        cosine = cosines(student, teacher).mean()
        yield {"rate": rate, "student": label, "cosine": cosine, "MSE": distance}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tries = {"words": try_words, "rates": try_rates}
    parser.add_argument("what", choices=tries)
    parser.add_argument("values", nargs="+")
    parser.add_argument("--profile", default="mini")
    given = parser.parse_args()
    rows = []
    for value in given.values:
        rows += tries[given.what](given.profile, value)
        print(pd.DataFrame(rows).to_string(index=False, float_format="{:.4g}".format), flush=True)


if __name__ == "__main__":
    main()
