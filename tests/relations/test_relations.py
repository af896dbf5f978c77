"""What must hold of every score, whatever the vectors: each way to judge, in one table.

Perfect vectors score 1 and constant ones what guessing scores; random vectors score as much on
average. No score depends on the order of texts, on the names of classes, on the company of other
models or, where cosines are compared, on lengths and axes. NaN is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.cluster.hierarchy import fcluster
from sklearn.model_selection import StratifiedKFold

from lib.data.dataset_folder import content
from lib.data.task_files import Task
from lib.evaluation import ranking, readouts
from lib.evaluation.ranking import Queries
from lib.evaluation.readouts import Examples
from lib.experiments.models import Model
from lib.news import results
from lib.news.chapter import Side
from lib.store import Store
from lib.vectors import BASE, judging
from tests.evaluation.test_heads import change

COUNT, HEADS = 54, change(epochs=60, learning_rate=0.02, repeats=2)
ROWS, TOPICS = np.arange(COUNT), np.arange(COUNT) % 3
TARGETS = {row: [*np.flatnonzero(TOPICS[row] == TOPICS)] for row in ROWS.tolist()}
TARGETS = {row: [other for other in same if other != row] for row, same in TARGETS.items()}
PAIRS = np.random.default_rng(3).integers(0, COUNT, (240, 2))
ALIKE = TOPICS[PAIRS[:, 0]] == TOPICS[PAIRS[:, 1]]


def classify(classifier, inputs, classes):
    """The share of right answers, in three folds of the same examples; another model beside it."""
    parts = [*StratifiedKFold(3).split(inputs, classes)]

    def score(vectors, order, turned):
        labels = np.array(turned)[classes]
        names, placed = [f"{row}" for row in order], np.argsort(order)[inputs]
        examples = Examples("", names, names, placed, labels, int(labels.max()) + 1, parts)
        models = [("other", 1, draw(9)), ("judged", 0, vectors[order])]
        return readouts.judge_models(models, examples, classifier, HEADS)[1]["scores"]

    return score


def retrieve(metric, top):
    """The score of each query; its targets have the same topic."""

    def score(vectors, order, turned):
        place = np.argsort(order)
        relevant = {int(place[row]): place[TARGETS[row]].tolist() for row in order.tolist()}
        names = [f"{row}" for row in order]
        mean, scores = ranking.rank(vectors[order], Queries(names, names, relevant), metric, top)
        assert scores.mean() == pytest.approx(mean)
        return scores.reshape(COUNT, -1).mean(axis=1)[place]

    return score


def find_halves(vectors, order, turned):
    """Rows n and COUNT / 2 + n are halves of one document."""
    half = COUNT // 2
    first = order[order < half]
    scores = ranking.rank_halves(vectors[[*first, *half + first]]).reshape(2, -1)
    return scores[:, np.argsort(first)].ravel()


def cluster(vectors, order, turned):
    """F1 of the news chapter, with the threshold that is best for it."""
    names, events = tuple(f"{row}" for row in order), np.array(turned)[TOPICS[order]]
    side = Side(names, names, np.argsort(order)[PAIRS], ALIKE, events, complete=True)
    merges = results.link(vectors[order])
    clusters = fcluster(merges, results.choose_threshold(merges, side), "distance")
    return np.array([results.score(clusters, side)["f1"]])


@dataclass
class Judge:
    """A way to judge vectors of the texts."""

    # (vectors, order of texts, new number of each class) -> scores of examples, whose order stays
    scores: Callable[..., np.ndarray]
    guessing: float
    perfect: np.ndarray  # vectors that tell all that is asked
    by_cosine: bool = True  # else what learns is told by lengths, too

    def score(self, vectors, order=ROWS, turned=(0, 1, 2)):
        return self.scores(vectors, order, turned)


def draw(seed=0, rows=COUNT):
    return np.random.default_rng(seed).normal(size=(rows, 6)).astype(np.float32)


def draw_tied(seed=0):
    """Few directions, and rows of zeros: most cosines are tied."""
    return np.random.default_rng(seed).integers(-1, 2, (COUNT, 2)).astype(np.float32)


OF_TOPIC, TWICE = np.eye(3, dtype=np.float32)[TOPICS], np.tile(draw(rows=COUNT // 2), (2, 1))
ONE_RANK = np.mean(1 / np.arange(1, COUNT))  # of a single target among all others
JUDGES = {
    f"{name}, texts": Judge(classify(name, ROWS[:, None], TOPICS), 1 / 3, OF_TOPIC, cosine)
    for name, cosine in (("thesis", False), ("compare", False), ("none", True), ("words", False))
}
JUDGES |= {
    f"{name}, pairs": Judge(classify(name, PAIRS, ALIKE.astype(int)), 1 - ALIKE.mean(), OF_TOPIC, c)
    for name, c in {"compare": False, "none": True, "words": True}.items()
}
for name, top in (("MAP", None), ("MRR", None), ("MAP", 25), ("MRR", 25)):
    chance = ranking.score_chance(Queries([""] * COUNT, [""] * COUNT, TARGETS), name, top)
    JUDGES[f"{name}, first {top}"] = Judge(retrieve(name, top), chance, OF_TOPIC)
JUDGES["halves"] = Judge(find_halves, ONE_RANK, TWICE)
ONE_CLUSTER = 2 * ALIKE.mean() / (1 + ALIKE.mean())  # the F1 of all texts in one
JUDGES["news"] = Judge(cluster, ONE_CLUSTER, OF_TOPIC)
each_judge = pytest.mark.parametrize("name", JUDGES)


@each_judge
def test_perfect_constant_and_random_vectors(name):
    judge = JUDGES[name]
    assert judge.score(judge.perfect).mean() == pytest.approx(1)
    constant = judge.score(np.ones((COUNT, 4), np.float32)).mean()
    assert constant == pytest.approx(judge.guessing, abs=1e-9)
    random = np.mean([judge.score(draw(seed)).mean() for seed in range(8)])
    assert random == pytest.approx(judge.guessing, abs=0.07)


@each_judge
@pytest.mark.parametrize("vectors", [draw(), draw_tied()], ids=["dense", "tied"])
def test_the_order_of_texts_and_the_names_of_classes_play_no_role(name, vectors):
    judge, order = JUDGES[name], np.random.default_rng(5).permutation(COUNT)
    expected = judge.score(vectors)
    np.testing.assert_allclose(judge.score(vectors, order), expected, atol=1e-12)
    if name.startswith(("compare, texts", "news")):  # pairs have a class that is positive
        turned = judge.score(vectors, order, (2, 0, 1))
        np.testing.assert_allclose(turned, expected, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, judge in JUDGES.items() if judge.by_cosine])
def test_cosines_know_no_lengths_and_no_axes_and_rows_may_be_sparse(name):
    random, judge = np.random.default_rng(6), JUDGES[name]
    lengths = 2.0 ** random.integers(-3, 4, (COUNT, 1)).astype(np.float32)
    for vectors in (draw(), draw_tied()):
        expected = judge.score(vectors)
        for same in (vectors * lengths, sparse.csr_array(vectors)):
            np.testing.assert_allclose(judge.score(same), expected, atol=1e-12)
    turned = draw() @ np.linalg.qr(random.normal(size=(6, 6)))[0]
    np.testing.assert_allclose(judge.score(turned), judge.score(draw()), atol=1e-12)


@each_judge
def test_nan_is_never_ranked_or_read(name):
    vectors = draw()
    vectors[5, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        JUDGES[name].score(vectors)


class Letters(Model):
    """Counts of a few letters: many texts have the same vector."""

    def embed(self, texts):
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], "f4")


OWN = [" ".join(np.random.default_rng(n).choice([*"abcdefgh"], 8)) + f" t{n} u{n}" for n in ROWS]
KINDS = {
    "halves": None,
    "clustering": [("clusters", (f"{n}",), f"{n % 7}") for n in ROWS],
    "retrieval": [("relevant", (f"{n}", f"{(n + 7) % COUNT}"), "") for n in ROWS],
    "classification": [("train", (f"{n}",), "abc"[n % 3]) for n in ROWS],
    "pairs": [("train", (f"{n}", f"{(5 * n + 1) % COUNT}"), "ab"[n % 2]) for n in ROWS],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_persons_texts_are_judged_alike_whatever_their_order_and_names(kind, tmp_path):
    """The other time the file is shuffled, classes are renamed, and pairs are turned."""
    models, means = {BASE: Letters(Store(tmp_path))}, []
    for order in (ROWS, np.random.default_rng(8).permutation(COUNT)):
        texts, again = {f"{row}": OWN[row] for row in order}, order is not ROWS
        groups = [f"g{row // 3}" for row in order]
        contents = np.array([*map(content, texts.values())], np.uint64)
        pool = judging.Pool(np.array([*texts.values()], dtype=object), contents, groups)
        if kind == "halves":
            measure = judging.judge_halves(pool, lambda _: models)
        else:
            examples = pd.DataFrame(KINDS[kind], columns=["split", "ids", "label"]).loc[order]
            if again and kind in ("classification", "pairs"):
                examples = examples.replace({"label": {"a": "c", "c": "a"}})
                examples["ids"] = [ids[::-1] for ids in examples["ids"]]
            name = "classification" if kind == "pairs" else kind
            task = Task(name, texts, examples.reset_index(drop=True), folds=5)
            measure = judging.judge_task("own", task, pool, lambda _: models)
        means.append((measure.scores[BASE].mean(), measure.chance))
    assert means[0] == pytest.approx(means[1], abs=1e-12)
