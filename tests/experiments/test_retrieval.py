"""What single test examples of retrieval are, and that intervals from them are as wide as they should be."""

import numpy as np
import pytest

from lib.config import profiles
from lib.data import sources
from lib.evaluation import metrics
from lib.experiments import embeddings, keys, runs, text_sets
from lib.statistics.intervals import from_examples, task_scores

MODELS = ["SBERT", "Longformer"]


@pytest.fixture
def retrieve(monkeypatch):
    """Retrieval by two models, with their vectors and a task's arrays as given; every text is a group of its own."""

    def retrieved(arrays, vectors, top=None):
        monkeypatch.setattr(runs, "embed", lambda *arguments: None)
        monkeypatch.setattr(runs, "_row", lambda pair, task, metric, split, value, profile: {
            "model": pair[0].identity, "seed": pair[1], "task": task, "metric": metric, "value": value
        })  # fmt: skip
        monkeypatch.setattr(runs, "_chance", lambda *arguments: 0.1)
        monkeypatch.setattr(
            embeddings, "of", lambda variant, *_: {"tasks": vectors[variant.kind == "base"]}
        )
        monkeypatch.setattr(text_sets, "task", lambda name, profile: arrays)
        monkeypatch.setattr(text_sets, "groups", lambda rows, profile: rows)
        return runs.retrieve(
            MODELS, profile=profiles.load("mini"), seeds=[0], tasks=["WINES"], top=top
        )

    return retrieved


@pytest.mark.parametrize(
    ("top", "value", "scores"),
    [(None, 0.75, [0.5625, 0.5625, 1.125]), (1, 0.5, [0.125, 0.125, 1.25])],
)
def test_a_query_with_each_target_is_an_example(retrieve, top, value, scores):
    """By hand: from text 0 the order is 1, 2, 3, 4, from text 1 it is 2, 0, 3, 4. Targets 2 and 4 of text 0 have the
    precisions 1 / 2 and 2 / 4, target 2 of text 1 has 1. With two queries and three pairs, those of text 0 weigh 3 / 4
    each, the one of text 1 3 / 2."""
    degrees = np.deg2rad([0.0, 10.0, 16.0, 40.0, 70.0])
    vectors = np.stack([np.cos(degrees), np.sin(degrees)], axis=1)
    arrays = {"candidates": np.arange(5), "sources": np.array([0, 1])}
    arrays |= {"targets_0": np.array([4, 2]), "targets_1": np.array([2])}
    row = retrieve(arrays, [vectors, vectors], top).iloc[0]
    assert row["value"] == value and row["scores"] == pytest.approx(scores)
    assert (
        row["queries"] == 2
        and np.mean(scores) == value
        and row["groups"].tolist() == [[0, 2], [0, 4], [1, 2]]
    )


def test_files_are_looked_at_once_for_all_models(retrieve, monkeypatch):
    looks, rank = [], metrics.rank
    monkeypatch.setattr(sources, "fingerprint", lambda *arguments: looks.append(1) or "files")
    monkeypatch.setattr(
        metrics, "rank", lambda *given: keys.tasks(profiles.load("mini")) and rank(*given)
    )
    arrays = {"candidates": np.arange(3), "sources": np.array([0]), "targets_0": np.array([1])}
    retrieve(arrays, [np.eye(3), np.eye(3)])
    assert len(looks) == 1


def test_precisions_at_targets_average_to_average_precision():
    rng = np.random.default_rng(0)
    for _ in range(50):
        ranking, targets = (
            rng.permutation(12).tolist(),
            sorted(rng.choice(14, 4, replace=False).tolist()),
        )
        assert runs._precisions(targets, ranking).mean() == pytest.approx(
            metrics.average_precision(targets, ranking)
        )


def test_an_interval_counts_that_a_text_is_a_target_of_many(retrieve):
    """Fifty stories are queries and targets in turn, and two models read them equally well: over new draws of stories
    the difference of their MAP scatters nearly as its standard error says. Grouped by query alone, that was .62 of the
    truth for MAP and .76 for MRR."""
    rng = np.random.default_rng(0)
    found: dict[str, list] = {"MAP": [], "MRR": []}
    for _ in range(120):
        stories = rng.standard_normal((50, 6))
        directions = stories / np.linalg.norm(stories, axis=1, keepdims=True)
        cosines = directions @ directions.T - 3 * np.eye(50)
        near = cosines > np.quantile(cosines[cosines > -1.5], 0.887)
        sources = np.flatnonzero(near.any(1))
        arrays = {"candidates": np.arange(50), "sources": sources}
        arrays |= {
            f"targets_{number}": np.flatnonzero(near[source])
            for number, source in enumerate(sources)
        }
        frame = retrieve(
            arrays, [stories + 0.6 * rng.standard_normal(stories.shape) for _ in range(2)]
        )
        for metric, rows in frame.groupby("metric"):
            evidence = from_examples(task_scores(rows), given=MODELS)
            error = evidence.errors(np.array([[1.0, -1.0]]))[0][0]
            found[metric].append((evidence.scores[0] - evidence.scores[1], error))
    ratio = {}
    for metric, pairs in found.items():
        difference, error = np.array(pairs).T
        ratio[metric] = np.sqrt(np.mean(error**2)) / np.std(difference)
    assert 0.8 <= ratio["MAP"] <= 1.1 and 0.78 <= ratio["MRR"] <= 1.1, ratio
