"""How many epochs the contextual teachers need, by a measure without labels and without students.

    python benchmarks/teacher_epochs.py                      some ten minutes of a core
    python benchmarks/teacher_epochs.py --inference 10 40    other lengths of inference

A teacher should say what a text that it has not read is about. So every seventh training document
and all held-out documents are left out of its training, and each is cut in two. The measure is the
MRR with which a half finds its other half by cosine among all halves.

The rule for `contextual_teacher.epochs`: the smallest number from which doubling adds less than a
twentieth to the measure, averaged over the three teachers, with inference at one length. It was
fixed before any student was trained with them. A length of 0 stands for as many epochs of inference
as of training, where both change at once.
"""

import argparse

import numpy as np
import pandas as pd

from lib.evaluation import ranking
from lib.experiments.bench import Bench
from lib.teachers.labels import CONTEXTUAL_TEACHERS
from lib.teachers.paragraph_vector import ParagraphVector
from lib.texts import halve_text

GAIN = 0.05  # what doubling must add, as a share of the measure
LEFT_OUT = 7  # every seventh training document


def split_documents(bench: Bench) -> tuple[list[str], list[str]]:
    """The texts that teachers are trained on, and the halves of those left out, firsts before
    seconds."""
    train = [document.text for document in bench.corpus.train]
    left_out = train[::LEFT_OUT] + [document.text for document in bench.corpus.validation]
    read = [text for row, text in enumerate(train) if row % LEFT_OUT]
    halves = [halve_text(text) for text in left_out if len(text.split()) > 1]
    return read, [first for first, _ in halves] + [second for _, second in halves]


def measure_teachers(bench: Bench, lengths: list[int], inferences: list[int]) -> pd.DataFrame:
    """A row for each teacher, number of epochs, and of inference (0 for as many as in training):
    mrr, and seconds of training."""
    settings = bench.profile.contextual_teacher.model_dump(exclude={"documents", "epochs", "seed"})
    read, halves = split_documents(bench)
    teachers = {name: label.split("+") for name, label in CONTEXTUAL_TEACHERS.items()}
    rows = []
    for epochs in lengths:
        vectors, seconds = {}, {}
        for label in dict.fromkeys(part for parts in teachers.values() for part in parts):
            model = ParagraphVector.parse(label, width=bench.profile.width)
            model.train(read, epochs=epochs, seed=0, **settings)
            seconds[label] = model.models[0].total_train_time
            for inference in (0, *inferences):
                model.models[0].epochs = inference or epochs
                vectors[label, inference] = model.encode(halves)
        for name, parts in teachers.items():
            for inference in (0, *inferences):
                joined = np.hstack([vectors[part, inference] for part in parts])
                row = {"teacher": name, "epochs": epochs, "inference": inference}
                row |= {"mrr": ranking.rank_halves(joined).mean()}
                rows.append(row | {"seconds": sum(seconds[part] for part in parts)})
    return pd.DataFrame(rows)


def choose_epochs(means: pd.Series, gain: float = GAIN) -> int | None:
    """The smallest number of epochs from which doubling adds less than `gain`; None if all add.

    means: epochs -> measure; each number is twice the one before.
    """
    for epochs, longer in zip(means.index[:-1], means.index[1:], strict=True):
        if means[longer] < (1 + gain) * means[epochs]:
            return int(epochs)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini")
    parser.add_argument("--epochs", type=int, nargs="+", default=[5, 10, 20, 40, 80])
    parser.add_argument("--inference", type=int, nargs="*", default=[40])
    arguments = parser.parse_args()
    bench = Bench.load(arguments.profile)
    table = measure_teachers(bench, arguments.epochs, arguments.inference)
    for value in ("mrr", "seconds"):
        means = table.pivot_table(value, ["inference", "epochs"], "teacher", margins=value == "mrr")
        print(value, means.to_string(float_format="{:.3f}".format), sep="\n")
    for inference, part in table.groupby("inference"):
        chosen = choose_epochs(part.groupby("epochs")["mrr"].mean())
        print(f"inference {inference}: {chosen or 'more than was measured'}")


if __name__ == "__main__":
    main()
