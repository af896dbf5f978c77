"""The page `index.html`: search by words, the nearest texts of each, and a map of all, offline."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from sklearn.manifold import TSNE
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MinMaxScaler

from lib.teachers.rows import scale_rows
from lib.texts import shorten_text

MOST, CHARACTERS = 3000, 2000  # texts on a page, and characters of each
NEIGHBOURS, COLOURS = 10, 8  # of a text; of classes, which have none if they are more


def render_page(
    name: str, rows: Sequence[tuple[Any, ...]], vectors: np.ndarray, facts: Mapping[str, Any]
) -> str:
    """The page as HTML, of at least two texts with a name and their vectors, (texts, dim).

    `rows` are title, text, and class or None. `facts` are `documents`, how many there are in all,
    `verdict`, and `scores`, rows of the table.
    """
    titles, texts, labels = zip(*rows, strict=True)
    unit = scale_rows(np.asarray(vectors, dtype=np.float32))
    neighbours = NearestNeighbors(n_neighbors=min(NEIGHBOURS, len(unit) - 1)).fit(unit)
    tsne = TSNE(perplexity=min(30, (len(unit) - 1) / 3), init="random", random_state=0)
    places = MinMaxScaler((0, 1000)).fit_transform(tsne.fit_transform(unit))
    numbers, classes = pd.factorize(np.array(labels, dtype=object), sort=True)
    if len(classes) > COLOURS:
        numbers, classes = np.full(len(texts), -1), classes[:0]
    data = {
        "titles": [shorten_text(title, 120) for title in titles],
        "texts": [shorten_text(text[: 2 * CHARACTERS], CHARACTERS) for text in texts],
        "near": neighbours.kneighbors(return_distance=False).tolist(),
        "map": np.rint(places).astype(int).tolist(),
        "classes": classes.tolist(),
        "class": numbers.tolist(),
    }
    content = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    source = Path(__file__).with_name("page.html.j2").read_text(encoding="utf-8")
    template = jinja2.Template(source, autoescape=True, undefined=jinja2.StrictUndefined)
    return template.render(name=name, data=content, shown=len(texts), each=CHARACTERS, **facts)
