"""The page `index.html`: search in the texts, the nearest texts of each, and a map of all.

It needs no network. Search is by words, because a browser has no encoder.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from lib.teachers.rows import scale_rows
from lib.texts import shorten_text

MOST, CHARACTERS = 3000, 2000  # texts on a page, and characters of each
NEIGHBOURS, COLOURS = 10, 8  # of a text; of classes, which have none if they are more


def render_page(
    name: str, texts: pd.DataFrame, vectors: np.ndarray, facts: Mapping[str, Any]
) -> str:
    """The page as HTML, of at least two texts with a name and their vectors, (texts, dim).

    `texts` have the columns title, text and label: the class, or None. `facts` are `documents`, the
    number of all texts; `verdict`; `scores`, rows of the table.
    """
    from sklearn.neighbors import NearestNeighbors

    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(unit) - 1)).fit(unit)
    numbers, classes = pd.factorize(texts["label"], sort=True)
    if len(classes) > COLOURS:
        numbers, classes = np.full(len(texts), -1), classes[:0]
    data = {
        "titles": [shorten_text(title, 120) for title in texts["title"]],
        "texts": [shorten_text(text[: 2 * CHARACTERS], CHARACTERS) for text in texts["text"]],
        "near": neighbours.kneighbors(return_distance=False).tolist(),
        "map": np.rint(1000 * place_on_map(unit)).astype(int).tolist(),
        "classes": classes.tolist(),
        "class": numbers.tolist(),
    }
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    source = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    template = jinja2.Template(source, autoescape=True, undefined=jinja2.StrictUndefined)
    return template.render(name=name, data=content, shown=len(texts), each=CHARACTERS, **facts)


def place_on_map(unit: np.ndarray) -> np.ndarray:
    """(texts, 2) places from 0 to 1 of rows of norm 1: by t-SNE, or of few by components."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    padded = np.pad(unit, ((0, 0), (0, 2)))
    components = PCA(min(50, *padded.shape), svd_solver="full").fit_transform(padded)
    components = np.round(components, 6)  # equal vectors get equal places
    places = components[:, :2]
    if len(np.unique(components, axis=0)) >= 5:
        perplexity = min(30, (len(components) - 1) / 3)
        places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(components)
    low, high = places.min(axis=0), places.max(axis=0)
    return (places - low) / np.where(high > low, high - low, 1)
