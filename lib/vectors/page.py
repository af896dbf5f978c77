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

MOST, CHARACTERS = 3000, 2000  # texts on a page, and characters of each
NEIGHBOURS = 10
COLOURS = 8  # at most so many classes have colours


class Entry(NamedTuple):
    """A text on the page; `label` is its class, or empty."""

    title: str
    text: str
    label: str = ""


def render_page(
    name: str, entries: Sequence[Entry], vectors: np.ndarray, facts: Mapping[str, Any]
) -> str:
    """The page as HTML, of texts with a name and their vectors, (entries, dim).

    `facts` are `documents`, the number of all texts; `verdict`; `scores`, rows of the table.
    """
    classes = sorted({entry.label for entry in entries} - {""})
    classes = classes if len(classes) <= COLOURS else []
    data = {
        "titles": [shorten_text(entry.title, 120) for entry in entries],
        "texts": [shorten_text(entry.text[: 2 * CHARACTERS], CHARACTERS) for entry in entries],
        "near": find_neighbours(vectors).tolist(),
        "map": np.rint(1000 * place_on_map(vectors)).astype(int).tolist(),
        "classes": classes,
        "class": [classes.index(e.label) if e.label in classes else -1 for e in entries],
    }
    loader, strict = jinja2.FileSystemLoader(Path(__file__).parent), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=strict)
    content = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    template = environment.get_template("page.html.j2")
    return template.render(name=name, data=content, shown=len(entries), each=CHARACTERS, **facts)


def find_neighbours(vectors: np.ndarray) -> np.ndarray:
    """(texts, neighbours) rows of the nearest other texts by cosine, nearest first."""
    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    return np.argsort(-cosines, axis=1, kind="stable")[:, : min(NEIGHBOURS, len(unit) - 1)]


def place_on_map(vectors: np.ndarray) -> np.ndarray:
    """(texts, 2) places from 0 to 1 by t-SNE, or by principal components if vectors are few."""
    from sklearn.manifold import TSNE

    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    left, sizes, _ = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=False)
    components = np.round(left[:, :50] * sizes[:50], 6)  # equal vectors get equal places
    places = np.pad(components, ((0, 0), (0, 2)))[:, :2]
    if len(np.unique(components, axis=0)) >= 5 and components.shape[1] >= 2:
        perplexity = min(30, (len(components) - 1) / 3)
        embedding = TSNE(perplexity=perplexity, init="pca", random_state=0)
        places = embedding.fit_transform(components)
    low, high = places.min(axis=0), places.max(axis=0)
    return (places - low) / np.where(high > low, high - low, 1)
