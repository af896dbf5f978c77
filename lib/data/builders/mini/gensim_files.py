"""The real texts inside gensim's wheel, divided once between the distillation corpus and the mini tasks.

gensim ships its own test data: 106 articles of English Wikipedia with their wikitext, 300 news stories (Lee
background), 50 more with human similarity ratings (Lee, Pincombe and Welsh 2005), and 200 review sentences with their
sentiment (Pang and Lee 2005).

A student must not be trained on what it is tested on. So every section of every article belongs to one side, dealt by a
checksum of its title: up to a quarter of an article is corpus, the rest is pool, the text tasks may use. The division
depends on no setting, which keeps any corpus clean of any task. Corpus paragraphs that repeat eight words in a row
of the pool are removed.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lib.data.builders.mini.wikitext import Article, Paragraph, read_dump

DUMP = "enwiki-latest-pages-articles1.xml-p000000010p000030302-shortened.bz2"
NEWS, STORIES, RATINGS, REVIEWS = "lee_background.cor", "lee.cor", "similarities0-1.txt", "pang_lee_polarity.cor"
SHINGLE = 8  # words in a row that count as the same text
CORPUS_SHARE = 0.25  # of an article's words, at most
# Above this share of repeated shingles a text is a copy: some stories were filed twice with a sentence changed, and
# articles such as "Politics of Angola" repeat paragraphs of "Angola".
COPY_SHARE = 0.2

# Words per Wikipedia document of the mini corpus, as shares of documents and words, interpolated linearly. The shape
# follows Figure 4.1: most documents short, a long tail, one in a hundred over 2,000 tokens. Small enough that the 300
# documents a student sees stay near 60,000 tokens; news stories, taken whole, are 200 words on average.
PASSAGE_WORDS = [[0, 0.3, 0.5, 0.75, 0.92, 0.97, 0.984, 0.985, 1], [40, 80, 100, 125, 170, 260, 400, 1600, 1950]]
# Documents end at paragraph borders, this far from the wanted length at most if any run of paragraphs allows it.
_LENGTH_TOLERANCE = 0.15
Row = dict[str, str]  # a document, ready to be written


def path(name: str) -> Path:
    """Where gensim keeps the file `name`; `ValueError` if it was installed without its test data."""
    from gensim.test.utils import datapath  # slow to import

    file = Path(datapath(name))
    if not file.is_file():
        raise ValueError(f"{file} is missing: gensim came without its test data; install the wheel from PyPI")
    return file


def shingles(text: str) -> set[bytes]:
    """Checksums of all runs of eight words, ignoring case and punctuation; of the whole text if it is shorter."""
    words = re.findall(r"\w+", text.lower())
    runs = (" ".join(words[start : start + SHINGLE]) for start in range(max(1, len(words) - SHINGLE + 1)))
    # 64 bits: with 32, half a million runs would collide a few dozen times.
    return {hashlib.blake2b(run.encode(), digest_size=8).digest() for run in runs}


def without_copies(texts: Iterable[str]) -> list[int]:
    """Indices of the texts that copy no earlier one: at most a fifth of their shingles occurred before."""
    seen: set[bytes] = set()
    kept = []
    for index, text in enumerate(texts):
        runs = shingles(text)
        if len(runs & seen) <= COPY_SHARE * len(runs):
            kept.append(index)
            seen |= runs
    return kept


@functools.cache
def articles() -> tuple[Article, ...]:
    """The dump's articles, copied paragraphs removed, in file order. Parsing takes about 2 s, once per process."""
    dump = list(read_dump(path(DUMP)))
    owners = [(number, paragraph) for number, article in enumerate(dump) for paragraph in article.paragraphs]
    kept: list[list[Paragraph]] = [[] for _ in dump]
    for index in without_copies(paragraph.text for _, paragraph in owners):
        number, paragraph = owners[index]
        kept[number].append(paragraph)
    return tuple(Article(article.title, tuple(rest)) for article, rest in zip(dump, kept, strict=True))


def corpus_sections(article: Article) -> set[str]:
    """Top-level sections of an article that are dealt to the distillation corpus, subsections included.

    Sections come in the order of their checksums; each is taken if the corpus stays within its share of the words.
    """
    words: Counter[str] = Counter()
    for paragraph in article.paragraphs:
        words[_top(paragraph)] += len(paragraph.text.split())
    dealt, taken = set(), 0
    for top in sorted(words, key=lambda name: (zlib.crc32(f"{article.title}/{name}".encode()), name)):
        if taken + words[top] <= CORPUS_SHARE * words.total():
            dealt.add(top)
            taken += words[top]
    return dealt


def _top(paragraph: Paragraph) -> str:
    return paragraph.section.split(" / ")[0]


@functools.cache
def pool_paragraphs() -> dict[str, list[Paragraph]]:
    """Per article title, the paragraphs that tasks may use, in the article's order."""
    dealt = {article.title: corpus_sections(article) for article in articles()}
    return {a.title: [p for p in a.paragraphs if _top(p) not in dealt[a.title]] for a in articles()}


def corpus_runs() -> list[tuple[str, list[str]]]:
    """(title, paragraphs) of the corpus' side of every article, in order; nothing shared with the pool."""
    taken = set().union(*(shingles(p.text) for paragraphs in pool_paragraphs().values() for p in paragraphs))
    runs = []
    for article in articles():
        dealt = corpus_sections(article)
        texts = [p.text for p in article.paragraphs if _top(p) in dealt and not shingles(p.text) & taken]
        runs += [(article.title, texts)] if texts else []
    return runs


def corpus_passages(count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """(title, text) of `count` passages of the corpus' side: paragraphs of an article that follow each other.

    Their lengths are the quantiles of one fixed distribution, met as well as paragraph borders allow.

    Raises:
        ValueError: the articles hold fewer passages.
    """
    runs = corpus_runs()
    runs = [runs[index] for index in rng.permutation(len(runs))]
    passages: list[tuple[str, str]] = []
    for wanted in np.interp((np.arange(count) + 0.5) / count, *PASSAGE_WORDS)[::-1]:  # longest first: runs are whole
        best = (float("inf"), 0, 0, 0)  # error, run, first and last paragraph
        for index, (_, paragraphs) in enumerate(runs):
            error, start, end = _nearest(paragraphs, wanted)
            best = min(best, (error, index, start, end))
            if error <= _LENGTH_TOLERANCE:
                break
        if not runs:
            held = f"the Wikipedia sample holds no more than {len(passages)} passages"
            raise ValueError(f"{held}, {count} are wanted; ask for fewer documents")
        _, index, start, end = best
        title, paragraphs = runs.pop(index)
        passages.append((title, "\n".join(paragraphs[start:end])))
        # What is left goes to the back, so that other articles come first.
        runs += [(title, rest) for rest in (paragraphs[:start], paragraphs[end:]) if rest]
    return passages


def _nearest(paragraphs: list[str], wanted: float) -> tuple[float, int, int]:
    """(relative error, start, end) of the first slice of paragraphs near `wanted` words, else of the nearest."""
    borders = list(itertools.accumulate((len(paragraph.split()) for paragraph in paragraphs), initial=0))
    best = (float("inf"), 0, 1)
    for start in range(len(paragraphs)):
        goal = borders[start] + wanted
        after = min(bisect.bisect_left(borders, goal, lo=start + 1), len(paragraphs))
        end = min((after - 1, after), key=lambda index: (index <= start, abs(borders[index] - goal)))
        best = min(best, (abs(borders[end] - goal) / wanted, start, end))
        if best[0] <= _LENGTH_TOLERANCE:
            break
    return best


def corpus_texts(documents: int, seed: int) -> tuple[list[Row], list[Row]]:
    """The two corpus folders: passages of Wikipedia articles, and the 289 of the 300 news stories that are no copies.

    Passages fill up to `documents` (of 580: 291), at least half. Every prefix has the length distribution of the whole.
    No passage, review or story of the mini tasks is in it.

    Raises:
        ValueError: more documents than the files hold.
    """
    rng = np.random.default_rng(seed)
    stories = lines(NEWS)
    news = [{"id": f"{n:03d}", "text": stories[index]} for n, index in enumerate(without_copies(stories))]
    passages = enumerate(corpus_passages(documents - min(len(news), documents // 2), rng))
    wikipedia = [{"id": f"{a}/{n:03d}", "text": text, "title": a, "group": a} for n, (a, text) in passages]
    return _representative(wikipedia, rng), _representative(news, rng)


def _representative(documents: list[Row], rng: np.random.Generator, rounds: int = 10) -> list[Row]:
    """A shuffle of which every tenth has the lengths of the whole: each ten next in length are dealt to ten rounds."""
    ranked = sorted(documents, key=lambda document: (len(document["text"]), document["id"]))
    dealt: list[list[Row]] = [[] for _ in range(rounds)]
    for start in range(0, len(ranked), rounds):
        for document, place in zip(ranked[start : start + rounds], rng.permutation(rounds), strict=False):
            dealt[place].append(document)
    return [part[index] for part in dealt for index in rng.permutation(len(part))]


def reviews() -> list[tuple[str, str]]:
    """(label, sentence) of the 200 review sentences; labels "neg", "pos", in file order."""
    parts = (line.partition(" ") for line in lines(REVIEWS))
    return [(label.removeprefix("__label__"), " ".join(text.split())) for label, _, text in parts]


def lines(name: str) -> list[str]:
    """The lines of the file `name`: one story each, the 50 in the order of their ratings, or one review."""
    return [line.strip() for line in path(name).read_text(encoding="latin-1").splitlines()]
