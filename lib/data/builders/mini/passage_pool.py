"""The pool of Wikipedia passages that six of the mini tasks share, so that a student embeds each text once.

Passages are runs of sentences of one section, of about `passage_words` words. Each belongs to one split for all tasks.
What a label could be read from is masked with a plain "X" in the pool itself, hence in every task:

* in a passage of an article, every word of four letters or more of that article's title;
* in every passage, the whole title of any pool article;
* in a passage that links to a shared page, that page's title and every anchor the dump uses for it.

A shared page is a link target that 2 to 5 of the dump's articles link to. There are only 89 links between the articles
themselves, too few for a citation task; pages that nearly every article links to (countries) say nothing about
relatedness.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lib.data.builders.mini import gensim_files
from lib.data.builders.mini.wikitext import Paragraph
from lib.data.task_files import SPLITS

MASK = "X"
SHARED_BY = range(2, 6)  # articles that link to a page, for it to count as shared
TOPICS = 11  # classes of ARXIV: the longest articles
# Passages per article and split. Topics have more of them, because ARXIV has no other examples.
TOPIC_QUOTA = {"train": 12, "validation": 7, "test": 5}
QUOTA = {"train": 4, "validation": 3, "test": 3}

_SENTENCE_BORDER = re.compile(r"(?<=[.!?])[\"”’)\]]*\s+(?=[\"“(\[]?[A-Z0-9])")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|St|Dr|Mr|Mrs|Ms|Jr|Sr|Gen|Col|Lt|Capt|Prof|vs|ca?|cf|no|vol|pp?|ed|e\.g|i\.e|etc|al)\.)$", re.I
)


class Sentence(NamedTuple):
    """A sentence and the shared pages it links to."""

    text: str
    targets: frozenset[str]


_Cut = list[Sentence]  # a passage before masking
_Place = tuple[str, int]  # an article and the position of a passage in it


@dataclass(frozen=True)
class Passage:
    """A masked passage of the pool; `targets` are the shared pages it links to."""

    id: str
    article: str
    split: str
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def targets(self) -> frozenset[str]:
        return frozenset().union(*(sentence.targets for sentence in self.sentences))


@functools.cache
def shared_targets() -> dict[str, frozenset[str]]:
    """{shared page: its title and all anchors the dump uses for it, lower-case}; forms of two letters and more."""
    linking: dict[str, set[str]] = defaultdict(set)
    forms: dict[str, set[str]] = defaultdict(set)
    for article in gensim_files.articles():
        for paragraph in article.paragraphs:
            for link in paragraph.links:
                linking[link.target].add(article.title)
                forms[link.target].add(paragraph.text[link.start : link.end].lower())
    return {
        target: frozenset(form for form in (_plain(target), *forms[target]) if len(form) >= 2)
        for target in sorted(linking)
        if len(linking[target]) in SHARED_BY
    }


def build(articles: int, passage_words: int, seed: int) -> list[Passage]:
    """The pool: passages of the `articles` longest articles, in the order article, split, position.

    Passages are chosen so that within a split many pairs of articles share a link target; the rest is random.

    Raises:
        ValueError: more articles than hold enough passages of that length.
    """
    candidates = _candidates(articles, passage_words)
    chosen = _choose(candidates, np.random.default_rng(seed))
    mask_titles = _pattern(map(_plain, candidates))
    passages = []
    for title, cuts in candidates.items():
        mask_own = _pattern(word for word in re.findall(r"\w+", _plain(title)) if len(word) >= 4)
        for split in SPLITS:
            for position in sorted(chosen[title, split]):
                forms = set().union(*(shared_targets()[t] for _, targets in cuts[position] for t in targets))
                patterns = (mask_titles, _pattern(forms), mask_own)
                sentences = tuple(Sentence(_mask(text, patterns), targets) for text, targets in cuts[position])
                passages.append(Passage(f"wiki/{title}/{position:03d}", title, split, sentences))
    return passages


def _candidates(count: int, passage_words: int) -> dict[str, list[_Cut]]:
    """{title: passages} of the longest articles by prose; lists are no articles about something."""
    words = {a.title: sum(len(p.text.split()) for p in a.paragraphs) for a in gensim_files.articles()}
    candidates: dict[str, list[_Cut]] = {}
    for title in sorted(words, key=lambda title: (-words[title], title)):
        cuts = list(_cut(gensim_files.pool_paragraphs()[title], passage_words))
        if len(cuts) >= sum(_quota(len(candidates)).values()) and not title.startswith("List of"):
            candidates[title] = cuts
        if len(candidates) == count:
            return candidates
    raise ValueError(
        f"pool_articles: {count} articles with enough passages of {passage_words} words are wanted, the dump holds "
        f"{len(candidates)}; lower pool_articles or passage_words"
    )


def _quota(rank: int) -> dict[str, int]:
    return TOPIC_QUOTA if rank < TOPICS else QUOTA


def _cut(paragraphs: list[Paragraph], passage_words: int) -> Iterator[_Cut]:
    """Passages as lists of sentences; within a section, leftovers under 70 % dropped."""
    current: _Cut = []
    section = None
    for paragraph in [*paragraphs, Paragraph("", "\n", ())]:  # a last section that ends the others
        if paragraph.section != section:
            if _words(current) >= 0.7 * passage_words:
                yield current
            current, section = [], paragraph.section
        for sentence in _sentences(paragraph):
            if _words([sentence]) > passage_words:
                continue
            if _words([*current, sentence]) > 1.25 * passage_words:
                yield current
                current = []
            current.append(sentence)
            if _words(current) >= 0.9 * passage_words:
                yield current
                current = []


def _words(sentences: _Cut) -> int:
    return sum(len(text.split()) for text, _ in sentences)


def _sentences(paragraph: Paragraph) -> Iterator[Sentence]:
    start, length = 0, len(paragraph.text)
    for end, after in [*(match.span() for match in _SENTENCE_BORDER.finditer(paragraph.text)), (length, length)]:
        if end < length and _ABBREVIATION.search(paragraph.text[start:end]):
            continue
        targets = {link.target for link in paragraph.links if start <= link.start < after}
        if text := paragraph.text[start:after].strip():
            yield Sentence(text, frozenset(targets & shared_targets().keys()))
        start = after


def _choose(candidates: dict[str, list[_Cut]], rng: np.random.Generator) -> dict[tuple[str, str], set[int]]:
    """{(article, split): positions of its passages}.

    Greedy: the splits take turns, each taking the passage that shares a page with most passages it already has (then,
    with most that are still free) among articles with a place left. When nothing shares a page any more, places are
    filled at random.
    """
    quota = {(title, split): _quota(rank)[split] for rank, title in enumerate(candidates) for split in SPLITS}
    neighbours = _neighbours(candidates)
    order = sorted(neighbours)
    free = [order[index] for index in rng.permutation(len(order))]  # ties go to the first, so to a random one
    taken: dict[str, set[_Place]] = {split: set() for split in SPLITS}
    while any(quota[title, split] for title, _ in free for split in SPLITS):
        for split in SPLITS:
            allowed = [place for place in free if quota[place[0], split]]
            if allowed:
                unused = set(free)
                gains = [5 * len(neighbours[n] & taken[split]) + len(neighbours[n] & unused) for n in allowed]
                best = allowed[gains.index(max(gains))]
                taken[split].add(best)
                free.remove(best)
                quota[best[0], split] -= 1
    chosen = {key: {position for title, position in taken[key[1]] if title == key[0]} for key in quota}
    used = set().union(*taken.values())
    for title, passages in candidates.items():
        rest = [position for position in rng.permutation(len(passages)).tolist() if (title, position) not in used]
        for split in SPLITS:
            chosen[title, split].update(rest[: quota[title, split]])
            rest = rest[quota[title, split] :]
    return chosen


def _neighbours(candidates: dict[str, list[_Cut]]) -> dict[_Place, set[_Place]]:
    """{place: those of other articles that link to a page it links to}; passages without any are out."""
    linking: dict[str, list[_Place]] = defaultdict(list)
    for title, passages in candidates.items():
        for position, sentences in enumerate(passages):
            for target in frozenset().union(*(targets for _, targets in sentences)):
                linking[target].append((title, position))
    neighbours: dict[_Place, set[_Place]] = defaultdict(set)
    for nodes in linking.values():
        for node in nodes:
            neighbours[node].update(other for other in nodes if other[0] != node[0])
    return {node: others for node, others in neighbours.items() if others}


def _plain(title: str) -> str:
    """A title without its disambiguation: "Android (robot)" is written Android."""
    return re.sub(r"\s*\([^)]*\)$", "", title).lower()


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Matches any form as whole words; forms of four letters and more with an ending of up to three ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "s?") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies)})(?!\w)" if ordered else r"(?!)", re.I)


def _mask(text: str, patterns: Iterable[re.Pattern]) -> str:
    return functools.reduce(lambda masked, pattern: pattern.sub(MASK, masked), patterns, text)
