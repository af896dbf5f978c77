"""The page `index.html`: search in the texts, the nearest texts of each, and a map of all.

It is one file that needs no network. Search is by words, because a browser has no encoder;
neighbours are by the vectors.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import numpy as np

from lib.teachers.rows import scale_rows
from lib.texts import shorten_text

MOST = 20_000  # texts on a page
CHARACTERS = 4_000_000  # of all texts on it, approximately
LEAST_EACH, MOST_EACH = 200, 2000  # characters of a text
NEIGHBOURS = 10
LANDMARKS = 3000  # texts that t-SNE places; the others are placed near their nearest landmarks
COLOURS = 8  # at most so many classes have colours
_BLOCK = 512  # rows of similarities in memory at once


class Entry(NamedTuple):
    """A text on the page; `label` is its class, or empty."""

    title: str
    text: str
    label: str = ""


def draw_rows(count: int, most: int = MOST) -> np.ndarray:
    """(drawn,) rows of texts: all, or a random `most`, by default those that a page shows."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


def count_characters(count: int) -> int:
    """How many characters of a text the page shows if it has `count` texts."""
    return max(LEAST_EACH, min(MOST_EACH, CHARACTERS // max(count, 1)))


def render_page(
    name: str, entries: Sequence[Entry], vectors: np.ndarray, facts: Mapping[str, Any]
) -> str:
    """The page as HTML, of texts with a name and their vectors, (entries, dim).

    `facts` are `documents`, the number of all texts; `verdict`; `scores`, rows of the table.
    """
    each = count_characters(len(entries))
    classes = sorted({entry.label for entry in entries} - {""})
    classes = classes if len(classes) <= COLOURS else []
    data = {
        "titles": [shorten_text(entry.title, 120) for entry in entries],
        "texts": [shorten_text(entry.text[: 2 * each], each) for entry in entries],
        "near": find_neighbours(vectors).tolist(),
        "map": np.rint(1000 * place_on_map(vectors)).astype(int).tolist(),
        "classes": classes,
        "class": [classes.index(e.label) if e.label in classes else -1 for e in entries],
    }
    loader, strict = jinja2.FileSystemLoader(Path(__file__).parent), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=strict)
    content = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    template = environment.get_template("page.html.j2")
    return template.render(name=name, data=content, shown=len(entries), each=each, **facts)


def find_neighbours(vectors: np.ndarray, count: int = NEIGHBOURS) -> np.ndarray:
    """(texts, count) rows of the nearest other texts by cosine, nearest first."""
    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    count = min(count, len(unit) - 1)
    nearest = np.empty((len(unit), count), dtype=np.int64)
    if not count:
        return nearest
    for start in range(0, len(unit), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ unit.T
        rows = np.arange(len(cosines))
        cosines[rows, start + rows] = -np.inf
        best = np.argpartition(-cosines, count - 1, axis=1)[:, :count]
        order = np.argsort(-np.take_along_axis(cosines, best, axis=1), axis=1, kind="stable")
        nearest[start : start + len(rows)] = np.take_along_axis(best, order, axis=1)
    return nearest


def place_on_map(vectors: np.ndarray) -> np.ndarray:
    """(texts, 2) places from 0 to 1 by t-SNE, or by principal components if vectors are few."""
    from sklearn.manifold import TSNE

    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    unit = unit - unit.mean(axis=0)
    landmarks = draw_rows(len(unit), LANDMARKS)
    left, sizes, _ = np.linalg.svd(unit[landmarks], full_matrices=False)
    components = np.round(left[:, :50] * sizes[:50], 6)  # equal vectors get equal places
    distinct = len(np.unique(components, axis=0))
    if distinct < 5 or components.shape[1] < 2:
        places = np.pad(components, ((0, 0), (0, 2)))[:, :2]
    else:
        perplexity = min(30, (len(components) - 1) / 3)
        embedding = TSNE(perplexity=perplexity, init="pca", random_state=0)
        places = embedding.fit_transform(components)
    if len(landmarks) < len(unit):
        places = _place_others(unit, landmarks, places)
    low, high = places.min(axis=0), places.max(axis=0)
    return (places - low) / np.where(high > low, high - low, 1)


def _place_others(unit: np.ndarray, landmarks: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Places of all texts: others than landmarks get the mean of their three nearest landmarks."""
    result = np.empty((len(unit), 2))
    scaled = scale_rows(unit)
    for start in range(0, len(unit), _BLOCK):
        cosines = scaled[start : start + _BLOCK] @ scaled[landmarks].T
        nearest = np.argpartition(-cosines, 3, axis=1)[:, :3]
        result[start : start + len(cosines)] = places[nearest].mean(axis=1)
    result[landmarks] = places
    return result
