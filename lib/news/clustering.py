"""Clusters of documents, their threshold, and how well they match the events."""

import numpy as np
from scipy.cluster import hierarchy
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.metrics.pairwise import cosine_distances

from lib.news.events import Side

NEAR_ONE_CLUSTER = 0.02  # a model whose F1 is within this of one cluster's is marked as collapsed


def link(vectors: np.ndarray | csr_array) -> np.ndarray:
    """The (documents - 1, 4) merges of average linkage by cosine distance.

    A sparse row of zeros, a document without known words, has distance 1 to all others. scipy
    refuses a dense one.
    """
    if issparse(vectors):
        distances = squareform(cosine_distances(vectors), checks=False)
    else:
        distances = np.maximum(pdist(vectors, "cosine"), 0)
    return hierarchy.linkage(distances, "average")


def choose_threshold(merges: np.ndarray, side: Side) -> float:
    """The distance at which cutting the tree gives the best F1 on the side's labelled pairs.

    It is halfway between the best merge height, the lowest of equally good ones, and the next.
    """
    heights = np.unique(merges[:, 2])
    low, high = np.sort(side.pairs).T
    place = low * len(side.texts) - low * (low + 1) // 2 + high - low - 1  # in the condensed form
    joined = hierarchy.cophenet(merges)[place]
    # Of the pairs joined at or below each height: how many are positive, and how many in all.
    right = np.searchsorted(np.sort(joined[side.positive]), heights, "right")
    total = np.searchsorted(np.sort(joined), heights, "right")
    best = int(np.argmax(2 * right / (total + side.positive.sum())))
    return float(heights[best : best + 2].mean())


def score(clusters: np.ndarray, side: Side) -> dict[str, float]:
    """How well clusters (documents,) match a side.

    On the labelled pairs: `f1`, `precision` and `recall`, from 0 to 1, and `one_cluster`, the F1 of
    a single cluster, 2p / (1 + p) with a share p of positives. `f1_all` is F1 on all pairs, NaN if
    not all events are known. `collapsed`: there is one cluster, or F1 is near `one_cluster`.
    """
    same = np.equal(*clusters[side.pairs].T)
    right, share = (same & side.positive).sum(), side.positive.mean()
    f1, single = 2 * right / (same.sum() + side.positive.sum()), 2 * share / (1 + share)
    count = len(np.unique(clusters))
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
    return {
        "f1": f1,
        "precision": right / max(same.sum(), 1),
        "recall": right / side.positive.sum(),
        "cluster_size": len(clusters) / count,
        "f1_all": 2 * hit / (2 * hit + wrong + missed) if side.complete else np.nan,
        "one_cluster": single,
        "collapsed": count == 1 or bool(abs(f1 - single) <= NEAR_ONE_CLUSTER),
    }


def draw_pairs(side: Side, draws: int, seed: int) -> np.ndarray:
    """(draws, pairs) float64: how often each pair counts when events are redrawn (bootstrap).

    A positive pair counts as often as its event is drawn, a negative one as often as its first
    event times as often as its second.
    """
    names, events = np.unique(side.events, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(seed).multinomial(len(names), shares, draws)
    first, second = events[side.pairs].T
    return (counts[:, first] * np.where(side.positive, 1, counts[:, second])).astype(float)


def score_draws(clusters: np.ndarray, side: Side, weights: np.ndarray) -> np.ndarray:
    """(draws,) F1 with the weights of `draw_pairs`; threshold and clusters stay the same."""
    same = np.equal(*clusters[side.pairs].T)
    columns = np.stack([same & side.positive, same, side.positive], 1)
    hit, predicted, actual = (weights @ columns).T
    return 2 * hit / np.maximum(predicted + actual, 1)
