"""Whether judging is fair: no tested text in the corpus or in training, no mark of a class.

    THESIS_DATA=... python benchmarks/check_leaks.py --profile lab     some minutes of a core

No model is trained. The first table counts, for each task, tested texts that are in the corpus,
and tested examples one of whose texts their fold trains on: word for word, or nearly. Nearly means
that more than half of a text's runs of twelve words are there, too. The second table has the share
of right answers from the words of 160 characters alone: the beginning, the middle or the end of a
text. A beginning or an end that says much more than the middle may carry a mark of the class.
"""

import argparse
import re
import warnings
import zlib

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier

from lib.data.dataset_folder import content
from lib.experiments.bench import Bench

RUN, NEARLY = 12, 0.5  # words of a run; share of a text's runs
ONE_OF = 4  # of so many runs one is looked at, the same wherever it is
CHARACTERS = 160
PARTS = {
    "beginning": lambda text: text.strip()[:CHARACTERS],
    "middle": lambda text: text[len(text) // 2 :][:CHARACTERS],
    "end": lambda text: text.strip()[-CHARACTERS:],
}


def find_runs(text):
    """The checksums of a text's runs of words, of those that are looked at."""
    words = re.findall(r"\w+", text.lower())
    runs = (" ".join(words[start : start + RUN]) for start in range(len(words) - RUN + 1))
    return {each for run in runs if (each := zlib.crc32(run.encode())) % ONE_OF == 0}


class Seen:
    """Texts that something was trained on, and whether they have others: word for word, nearly."""

    def __init__(self, texts):
        self.contents = {content(text) for text in texts}
        self.runs = set().union(*map(find_runs, texts))

    def has(self, text):
        runs = find_runs(text)
        nearly = bool(runs) and len(runs & self.runs) > NEARLY * len(runs)
        return np.array([content(text) in self.contents, nearly])


def count_in_corpus(seen, texts):
    counts = dict(zip(("in the corpus", "nearly"), sum(map(seen.has, texts)), strict=True))
    return {"tested texts": len(texts)} | counts


def count_on_both_sides(examples):
    counts = np.zeros(2)
    for train, test in examples.parts:
        seen = Seen([examples.texts[row] for row in np.unique(examples.inputs[train])])
        for inputs in examples.inputs[test]:
            counts += np.any([seen.has(examples.texts[row]) for row in inputs], axis=0)
    names = ("tested examples", "trained on", "nearly trained on")
    return dict(zip(names, (len(examples.tested), *counts), strict=True))


def score_parts(examples):
    """{part of a text: accuracy of its words}, with the accuracy of guessing."""
    scores = {"guessing": examples.chance}
    for name, cut in PARTS.items():
        ends = [re.findall(r"\w+|[^\w\s]", cut(text)) for text in examples.texts]
        # The words of either text of a pair are words of their own.
        mixed = [
            [f"{side} {word}" for side, row in enumerate(inputs) for word in ends[row]]
            for inputs in examples.inputs
        ]
        right = []
        for train, test in examples.parts:
            weigh = TfidfVectorizer(analyzer=lambda words: words, sublinear_tf=True, min_df=2)
            x = weigh.fit_transform([mixed[row] for row in train])
            model = RidgeClassifier().fit(x, examples.labels[train])
            answers = model.predict(weigh.transform([mixed[row] for row in test]))
            right.append(answers == examples.labels[test])
        scores[name] = float(np.concatenate(right).mean())
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="mini")
    bench = Bench.load(parser.parse_args().profile)
    corpus = Seen([*bench.train, *bench.held_out])
    fairness, marks = {}, {}
    for name, task in bench.tasks.items():
        if name not in bench.classifications:
            texts = [task.texts[text_id] for text_id in sorted(task.held_out())]
            fairness[name, "all"] = count_in_corpus(corpus, texts)
            continue
        for split in ("validation", "test"):
            examples = bench.examples(name, split)
            used = np.unique(examples.inputs[examples.tested])
            row = count_in_corpus(corpus, [examples.texts[text] for text in used])
            fairness[name, split] = row | count_on_both_sides(examples)
            marks[name, split] = score_parts(examples)
    for rows in (fairness, marks):
        print(pd.DataFrame(rows).T.to_string(float_format="{:.3g}".format, na_rep=""), end="\n\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
