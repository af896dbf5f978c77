"""Clusters of documents, their threshold, and how well they match the events.

Clusters come from average linkage of cosine distances.
"""

from dataclasses import dataclass

import numpy as np
import psutil
from scipy.cluster import hierarchy
from scipy.sparse import csr_array, issparse
from scipy.spatial.distance import pdist
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.metrics.pairwise import pairwise_distances_chunked
from sklearn.utils.extmath import row_norms

from lib.news.events import Side

NEAR_ONE_CLUSTER = 0.02  # a model whose F1 is within this of one cluster's is marked as collapsed
_CHUNK = 16  # MiB of distances from sparse vectors to all documents that are computed at a time
_COPIES = 3  # of the distances in memory at once: scipy's, its workspace, the heights of all pairs


@dataclass(frozen=True)
class Score:
    """How well clusters match a side.

    Attributes
    ----------
    f1, precision, recall : float
        On the labelled pairs, from 0 to 1.
    cluster_size : float
        Mean number of documents per cluster.
    f1_all : float
        F1 on all pairs of documents; NaN if not all events are known.
    one_cluster : float
        F1 of a single cluster: 2p / (1 + p) with a share p of positives.
    collapsed : bool
        Whether all documents are in one cluster, or F1 is within .02 of `one_cluster`.
    """

    f1: float
    precision: float
    recall: float
    cluster_size: float
    f1_all: float
    one_cluster: float
    collapsed: bool


def measure_distances(vectors: np.ndarray | csr_array) -> np.ndarray:
    """Cosine distances of all pairs, in scipy's condensed form.

    Parameters
    ----------
    vectors : (documents, dim), dense or sparse

    Raises
    ------
    ValueError
        For fewer than two documents, for NaN or infinity, for a zero vector, and for more documents
        than fit in memory.
    """
    count = vectors.shape[0]
    if count < 2:
        raise ValueError(f"clustering needs at least two documents, got {count}")
    lengths = row_norms(vectors.astype(np.float64, copy=False))
    if not np.isfinite(lengths).all():
        row = int(np.argmin(np.isfinite(lengths)))
        raise ValueError(f"the vector of document {row} holds NaN or infinity")
    if not lengths.all():
        row = int(lengths.argmin())
        raise ValueError(f"the vector of document {row} is zero: it has no cosine distance")
    fits = int((2 * psutil.virtual_memory().available / 8 / _COPIES) ** 0.5)
    if count > fits:
        raise ValueError(
            f"the distances of {count} documents do not fit in memory, those of {fits} would"
        )
    if not issparse(vectors):
        return np.maximum(pdist(vectors, "cosine"), 0)
    condensed, row, end = np.empty(count * (count - 1) // 2), 0, 0
    for chunk in pairwise_distances_chunked(vectors, metric="cosine", working_memory=_CHUNK):
        for near in chunk:
            row += 1
            start, end = end, end + count - row
            condensed[start:end] = near[row:]
    return condensed


def link(vectors: np.ndarray | csr_array) -> np.ndarray:
    """The (documents - 1, 4) merges of average linkage; vectors are as in `measure_distances`."""
    return hierarchy.linkage(measure_distances(vectors), "average")


def choose_threshold(merges: np.ndarray, side: Side) -> float:
    """The distance at which cutting the tree gives the best F1 on the side's labelled pairs.

    All merge heights are tried. The lowest of equally good ones is taken, and the cut is halfway to
    the next height. Raises `ValueError` if the side has no positive or no negative pair, or if the
    tree has another number of documents.
    """
    _check(len(merges) + 1, side)
    heights = np.unique(merges[:, 2])
    low, high = np.sort(side.pairs).T
    documents = len(side.texts)
    joined = hierarchy.cophenet(merges)[low * documents - low * (low + 1) // 2 + high - low - 1]
    # Of the pairs joined at or below each height: how many are positive, and how many in all.
    right = np.searchsorted(np.sort(joined[side.positive]), heights, "right")
    total = np.searchsorted(np.sort(joined), heights, "right")
    best = int(np.argmax(2 * right / (total + side.positive.sum())))
    return float(heights[best : best + 2].mean())


def cut(merges: np.ndarray, distance: float) -> np.ndarray:
    """(documents,) cluster of each document."""
    return hierarchy.fcluster(merges, distance, "distance")


def score(clusters: np.ndarray, side: Side) -> Score:
    """How well clusters (documents,) match a side; raises as `choose_threshold` does."""
    _check(len(clusters), side)
    same = _share_cluster(clusters, side)
    right, share = int((same & side.positive).sum()), float(side.positive.mean())
    recall, precision = right / side.positive.sum(), right / max(same.sum(), 1)
    f1, single = 2 * right / (same.sum() + side.positive.sum()), 2 * share / (1 + share)
    count = len(np.unique(clusters))
    (_, wrong), (missed, hit) = pair_confusion_matrix(side.events, clusters)
    f1_all = 2 * hit / (2 * hit + wrong + missed) if side.complete else np.nan
    collapsed = count == 1 or abs(f1 - single) <= NEAR_ONE_CLUSTER
    numbers = (f1, precision, recall, len(clusters) / count, f1_all, single)
    return Score(*map(float, numbers), collapsed=bool(collapsed))


def _share_cluster(clusters: np.ndarray, side: Side) -> np.ndarray:
    """(pairs,) whether the two documents of a labelled pair are in one cluster."""
    first, second = clusters[side.pairs].T
    return first == second


def _check(documents: int, side: Side) -> None:
    if documents != len(side.texts):
        raise ValueError(f"the side has {len(side.texts)} documents, but {documents} are clustered")
    for wanted, kind in ((True, "positive"), (False, "negative")):
        if wanted not in side.positive:
            raise ValueError(f"the side has no {kind} pair, so a threshold and F1 mean nothing")


def draw_pairs(side: Side, draws: int, seed: int) -> np.ndarray:
    """How often each pair counts when events are drawn with replacement (bootstrap).

    A positive pair counts as often as its event is drawn. The count of a negative pair is the
    product of the counts of its two events.

    Returns
    -------
    (draws, pairs) float64
    """
    names, events = np.unique(side.events, return_inverse=True)
    shares = np.full(len(names), 1 / len(names))
    counts = np.random.default_rng(seed).multinomial(len(names), shares, draws)
    first, second = events[side.pairs].T
    return (counts[:, first] * np.where(side.positive, 1, counts[:, second])).astype(float)


def score_draws(clusters: np.ndarray, side: Side, weights: np.ndarray) -> np.ndarray:
    """(draws,) F1 with the weights of `draw_pairs`; threshold and clusters stay the same."""
    same = _share_cluster(clusters, side)
    columns = np.stack([same & side.positive, same, side.positive], 1)
    hit, predicted, actual = (weights @ columns).T
    return 2 * hit / np.maximum(predicted + actual, 1)
