"""How often 95% intervals contain the truth, for texts that are drawn anew again and again.

    python benchmarks/coverage.py              300 draws each, some minutes on one core

Two models embed the same texts. The truth is the mean of the scores over all draws. *Alone* takes
the folds of a cross-validation, or two clusterings of the same texts, as independent.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from lib.data.dataset_folder import content
from lib.data.examples import make_folds
from lib.data.task_files import Task
from lib.evaluation import readouts
from lib.evaluation.readouts import Examples
from lib.statistics import verdicts
from lib.statistics.intervals import TaskScores, from_examples
from lib.vectors import judging

DIM = 8
FOLDED = {  # texts, classes, how far classes are apart, readout, articles that pairs are made of
    "no head, guessing": (200, 2, 0.0, "none", None),
    "no head": (200, 2, 0.4, "none", None),
    "no head, well apart": (200, 2, 1.5, "none", None),
    "heads that compare, guessing": (200, 2, 0.0, "compare", None),
    "heads that compare": (200, 2, 0.4, "compare", None),
    "heads that compare, well apart": (200, 2, 1.5, "compare", None),
    "no head, three classes": (45, 3, 0.0, "none", None),
    "pairs, heads that compare": (400, 2, 1.5, "compare", 40),
}
CLUSTERED = {  # clusters of the first and of the second clustering, and the share of texts moved
    "the same clusters, renamed": (12, 12, 0.0),
    "a tenth of the texts moved": (12, 12, 0.1),
    "finer clusters": (12, 4, 0.0),
    "another partition": (12, 10, 1.0),
}


def draw_vectors(rng, centres):
    """Vectors of two models, {name: (texts, DIM)}: centre, own place and a model's own noise."""
    common = centres + rng.normal(size=(len(centres), DIM))
    noise = np.exp(0.3 * rng.normal(size=(2, len(centres), 1)))
    return {name: common + noise[n] * rng.normal(size=common.shape) for n, name in enumerate("ab")}


def draw_folded(rng, count, classes, apart, readout, articles):
    """Scores of a cross-validation: {} for each way to count it."""
    labels = np.arange(count) % classes
    groups = inputs = np.arange(count)[:, None]
    centres = apart * np.eye(classes, DIM)[labels]
    if articles:  # two passages that belong together have a topic in common
        inputs = np.arange(2 * count).reshape(count, 2)
        groups = rng.integers(articles, size=inputs.shape)
        topics = rng.normal(size=(count, 2, DIM))
        topics[labels == 1, 1] = topics[labels == 1, 0]
        centres = rng.normal(size=(articles, DIM))[groups] + apart * topics
    vectors = draw_vectors(rng, centres.reshape(-1, DIM))
    parts = make_folds([{*each} for each in groups.tolist()], labels, 5)
    examples = Examples("x", [], [""] * inputs.size, inputs, labels, classes, parts)
    scores = {name: readouts.judge(rows, examples, readout)[None] for name, rows in vectors.items()}
    names = groups[examples.tested]
    tested = TaskScores(scores, names, examples.chance, len(parts))
    return {"alone": {"x": replace(tested, folds=1)}, "now": {"x": tested}}


@dataclass
class Given:
    """A model whose vectors are given by text."""

    vectors: dict

    def fit_outside(self, texts):
        return self

    def embed(self, texts):
        return np.array([self.vectors[text] for text in texts])


def draw_clustered(rng, first, second, moved):
    """Scores of two clusterings of the same sixty texts, whose clusters are drawn, too."""
    texts = [f"text {number}" for number in range(60)]
    labels = [np.arange(60) % first, np.arange(60) % first % second]
    labels[1] = np.where(rng.random(60) < moved, rng.permutation(60) % second, labels[1])
    centres = [rng.normal(size=(max(each) + 1, DIM))[each] for each in labels]
    vectors = draw_vectors(rng, centres[0] + 0.5 * centres[1])
    models = {n: Given(dict(zip(texts, rows, strict=True))) for n, rows in vectors.items()}
    checksums = np.array([*map(content, texts)], np.uint64)
    pool = judging.Pool(np.array(texts, dtype=object), checksums, [""] * 60)
    now, alone = {}, {}
    for name, each in zip("xy", labels, strict=True):
        rows = [("clusters", (text,), str(label)) for text, label in zip(texts, each, strict=True)]
        task = Task(
            "clustering",
            dict(zip(texts, texts, strict=True)),
            pd.DataFrame(rows, columns=["split", "ids", "label"]),
        )
        measure = judging.judge_task(name, task, pool, lambda _: models)
        scores = {model: values[None] for model, values in measure.scores.items()}
        now[name] = TaskScores(scores, measure.groups, measure.chance)
        alone[name] = replace(now[name], groups=np.char.add(name, measure.groups))
    return {"alone": alone, "now": now}


def measure_coverage(draw, settings, count):
    """A row: the mean score of model a, and the coverage of its interval and of a difference."""
    rng, found = np.random.default_rng(0), {}
    for _ in range(count):
        for way, tasks in draw(rng, *settings).items():
            score = verdicts.mean_score(tasks, ["a"])
            evidence = from_examples(tasks, given=["a", "b"])
            (difference,) = verdicts.compare([("a", "b")], evidence)[
                ["difference", "low", "high"]
            ].to_numpy(float)
            found.setdefault(("score", way), []).append(score)
            found.setdefault(("difference", way), []).append(difference)
    row = {"score": np.mean(found["score", "now"], axis=0)[0]}
    for name, rows in found.items():
        values, low, high = np.transpose(rows)
        row[", ".join(name)] = np.mean((low <= values.mean()) & (values.mean() <= high))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    count = parser.parse_args().draws
    cases = {name: (draw_folded, settings) for name, settings in FOLDED.items()}
    cases |= {name: (draw_clustered, settings) for name, settings in CLUSTERED.items()}
    rows = {name: measure_coverage(*case, count) for name, case in cases.items()}
    print(pd.DataFrame(rows).T.round(3).to_string())


if __name__ == "__main__":
    main()
