"""The two corpus folders of mini: passages of Wikipedia articles and whole Lee news stories."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lib.data.build.mini import gensim_files

Row = dict[str, str]


class Texts(NamedTuple):
    """Documents of the two folders, ready to be written."""

    wikipedia: list[Row]
    news: list[Row]


def texts(documents: int, seed: int) -> Texts:
    """All 289 stories that are no copies, and passages that fill up to `documents` (of 580: 291), at least half.

    Every prefix has the length distribution of the whole. No passage, review or story of the mini tasks is in it
    (`gensim_files`).

    Raises:
        ValueError: more documents than the files hold.
    """
    rng = np.random.default_rng(seed)
    news = [{"id": f"{number:03d}", "text": text} for number, text in enumerate(gensim_files.news())]
    passages = gensim_files.corpus_passages(documents - min(len(news), documents // 2), rng)
    wikipedia = [
        {"id": f"{title}/{number:03d}", "text": text, "title": title, "group": title}
        for number, (title, text) in enumerate(passages)
    ]
    return Texts(_representative(wikipedia, rng), _representative(news, rng))


def _representative(documents: list[Row], rng: np.random.Generator, rounds: int = 10) -> list[Row]:
    """A shuffle of which every tenth has the lengths of the whole: each ten next in length are dealt to ten rounds."""
    ranked = sorted(documents, key=lambda document: (len(document["text"]), document["id"]))
    dealt: list[list[Row]] = [[] for _ in range(rounds)]
    for start in range(0, len(ranked), rounds):
        group = ranked[start : start + rounds]
        for document, place in zip(group, rng.permutation(rounds), strict=False):
            dealt[place].append(document)
    return [part[index] for part in dealt for index in rng.permutation(len(part))]
