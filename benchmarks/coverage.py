"""How often 95% intervals contain the truth, for texts that are drawn anew again and again.

    python benchmarks/coverage.py              300 draws each, ten minutes on one core

Two models embed the same texts. The truth is the mean of the scores over all draws. *Alone* takes
the folds of a cross-validation, or two clusterings of the same texts, as independent.
"""

import argparse
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd

from lib.data.dataset_folder import content
from lib.data.examples import make_folds
from lib.data.task_files import Task
from lib.evaluation.readouts import Examples, judge
from lib.statistics import verdicts
from lib.statistics.intervals import TaskScores, from_examples
from lib.vectors.judging import Pool, judge_task

DIM, TEXTS = 8, [f"text {number}" for number in range(60)]
FOLDED = {  # examples, classes, how far these are apart, readout, articles that pairs are made of
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
    common = centres + rng.normal(size=centres.shape)
    noise = np.exp(0.3 * rng.normal(size=(2, len(centres), 1)))
    return {name: common + noise[n] * rng.normal(size=common.shape) for n, name in enumerate("ab")}


def draw_folded(rng, count, classes, apart, readout, articles):
    """The scores of a cross-validation, counted in two ways."""
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
    scores = {name: judge(rows, examples, readout)[None] for name, rows in vectors.items()}
    tested = TaskScores(scores, groups[examples.tested], examples.chance, len(parts))
    return {"alone": {"x": replace(tested, folds=1)}, "now": {"x": tested}}


def draw_clustered(rng, first, second, moved):
    """The scores of two clusterings, whose clusters are drawn, too, counted in two ways."""
    count = len(TEXTS)
    one, other = np.arange(count) % first, np.arange(count) % first % second
    other = np.where(rng.random(count) < moved, rng.permutation(count) % second, other)
    centres = rng.normal(size=(first, DIM))[one] + 0.5 * rng.normal(size=(second, DIM))[other]
    models = {}
    for name, rows in draw_vectors(rng, centres).items():
        model = models[name] = SimpleNamespace()
        model.embed = pd.DataFrame(rows, index=TEXTS).reindex
        model.fit_outside = lambda texts, model=model: model
    pool = Pool(np.array(TEXTS, object), np.array([*map(content, TEXTS)], np.uint64), [""] * count)
    now = {}
    for name, labels in (("x", one), ("y", other)):
        rows = [("clusters", (text,), str(n)) for text, n in zip(TEXTS, labels, strict=True)]
        examples = pd.DataFrame(rows, columns=["split", "ids", "label"])
        task = Task("clustering", {text: text for text in TEXTS}, examples)
        measure = judge_task(name, task, pool, lambda _: models)
        scores = {model: values[None] for model, values in measure.scores.items()}
        now[name] = TaskScores(scores, measure.groups, measure.chance)
    alone = {
        name: replace(each, groups=np.char.add(name, each.groups)) for name, each in now.items()
    }
    return {"alone": alone, "now": now}


def measure_coverage(draw, settings, count):
    """A row: the mean score of model a, and the coverage of its interval and of a difference."""
    rng, found = np.random.default_rng(0), {}
    for _ in range(count):
        for way, tasks in draw(rng, *settings).items():
            judged = verdicts.compare([("a", "b")], from_examples(tasks, given=["a", "b"])).iloc[0]
            difference = judged["difference"], judged["low"], judged["high"]
            found.setdefault(f"score, {way}", []).append(verdicts.mean_score(tasks, ["a"]))
            found.setdefault(f"difference, {way}", []).append(difference)
    row = {"score": np.mean(found["score, now"], axis=0)[0]}
    for name, rows in found.items():
        values, low, high = np.transpose(rows)
        row[name] = np.mean((low <= values.mean()) & (values.mean() <= high))
    return row


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    draws, table = parser.parse_args().draws, {}
    for draw, cases in ((draw_folded, FOLDED), (draw_clustered, CLUSTERED)):
        for name, settings in cases.items():
            table[name] = measure_coverage(draw, settings, draws)
    print(pd.DataFrame(table).T.round(3).to_string())
