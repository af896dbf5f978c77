"""The eight mini tasks: real text from gensim's files in the roles of the thesis' eight.

| task | example | label |
|---|---|---|
| ARXIV | a passage | which of the eleven longest articles it is from |
| IMDB | a review sentence | its sentiment; five folds over all 200, as the thesis validates IMDB |
| OC | two passages | same article or not |
| AAN | passages of two articles | do they link to the same page |
| S2ORC | a sentence that links to a page, a passage of another article | does it link to the page too |
| PAN | a passage, a part of a suspicious document | does the part hold an obfuscated copy of the passage |
| WINES | the 50 Lee stories | for each, those that people rated similar |
| GAMES | all passages | for each test passage, the passages of its article |

Passages, their splits and what is masked in them: `passage_pool`. Negatives match the positives (`pairs`).
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lib.data.builders import Examples
from lib.data.builders.mini import gensim_files, passage_pool
from lib.data.builders.mini.pairs import NO, YES, Pair, balanced, both_orders, round_robin
from lib.data.builders.mini.passage_pool import Passage
from lib.data.task_files import SPLITS

if TYPE_CHECKING:
    from lib.config.schema import MiniBuild

RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar; 47 of 50 stories have one
# Texts that one task alone uses are few, because every student embeds them: sentences (S2ORC), suspicious texts (PAN).
CONTEXTS = {"train": 120, "validation": 90, "test": 60}
CONTEXT_WORDS = range(10, 41)
SUSPICIOUS = {"train": 20, "validation": 16, "test": 12}  # documents
PARTS, COPIES = 4, 2  # parts of a suspicious document, passages copied into a part
COPY_WORDS = 20  # words of a copied stretch
HOST_WORDS = 10  # words of the document's own before the copies, and after them
Texts = dict[str, tuple[str, str]]  # {id: (text, group)}
Groups = Callable[[str, np.random.Generator], list[list[Pair]]]  # of a split and a generator: positives


class MiniTasks:
    """The tasks that are made of passages; each draws from a generator of its own, whatever else is drawn."""

    def __init__(self, settings: MiniBuild):
        self.passages = passage_pool.build(settings.pool_articles, settings.passage_words, settings.seed)
        self.by_id = {passage.id: passage for passage in self.passages}
        self.of_split = {split: [p for p in self.passages if p.split == split] for split in SPLITS}
        self.seed = settings.seed
        self.wanted = dict(zip(SPLITS, (settings.train_pairs, *[settings.validation_pairs] * 2), strict=True))

    def topics(self) -> Examples:
        """ARXIV."""
        topics = list(dict.fromkeys(p.article for p in self.passages))[: passage_pool.TOPICS]
        return {
            split: [((p.id,), p.article) for p in here if p.article in topics] for split, here in self.of_split.items()
        }

    def same_article(self) -> Examples:
        """OC."""

        def groups(split: str, rng: np.random.Generator) -> list[list[Pair]]:
            articles = _by_article(self.of_split[split]).values()
            return [list(itertools.combinations([p.id for p in group], 2)) for group in articles]

        return self._balanced("OC", groups, lambda a, b: self.by_id[a].article == self.by_id[b].article)

    def shared_links(self) -> Examples:
        """AAN."""

        def groups(split: str, rng: np.random.Generator) -> list[list[Pair]]:
            pairs = itertools.combinations(self.of_split[split], 2)
            return [[(a.id, b.id) for a, b in pairs if a.article != b.article and a.targets & b.targets]]

        return self._balanced("AAN", groups, self._linked)

    def citations(self) -> tuple[Texts, Examples]:
        """S2ORC."""
        texts = self._texts()

        def groups(split: str, rng: np.random.Generator) -> list[list[Pair]]:
            here = self.of_split[split]
            partners: dict[str, list[Pair]] = {}
            for passage in here:
                for number, (text, targets) in enumerate(passage.sentences):
                    if targets and len(text.split()) in CONTEXT_WORDS:
                        context = f"{passage.id}/sentence-{number}"
                        others = [p.id for p in here if p.article != passage.article and p.targets & targets]
                        if others:
                            partners[context] = [(context, other) for other in others]
                            texts[context] = text, passage.article
            order = [list(partners)[index] for index in rng.permutation(len(partners))]
            kept = sorted(order, key=lambda context: -len(partners[context]))[: CONTEXTS[split]]
            return [partners[context] for context in kept]

        def related(first: str, second: str) -> bool:  # either may be the context, since both orders occur
            return (first in self.by_id) == (second in self.by_id) or self._linked(first, second)

        return texts, self._balanced("S2ORC", groups, related)

    def copies(self) -> tuple[Texts, Examples]:
        """PAN. Suspicious documents have four parts; each part copies two passages of an article into its own words.

        A positive is a part and a passage it copies, a negative the same passage and the next part of the document,
        which copies from another article. So every part and every passage is in as many negatives as positives.
        """
        rng = self._rng("PAN")
        texts = self._texts()
        examples = {}
        for split in SPLITS:
            groups = _by_article(self.of_split[split])
            pairs: list[tuple[Pair, str]] = []
            titles: list[str] = []
            for number in range(SUSPICIOUS[split]):
                if len(titles) < PARTS + 1:
                    titles = [list(groups)[index] for index in rng.permutation(len(groups))]
                host, *copied = (titles.pop() for _ in range(PARTS + 1))
                document = f"suspicious/{split}-{number}"
                parts = [f"{document}/{part}" for part in range(PARTS)]
                for part, article in enumerate(copied):
                    sources = [groups[article][index] for index in rng.permutation(len(groups[article]))[:COPIES]]
                    own = groups[host][rng.integers(len(groups[host]))]
                    texts[parts[part]] = _suspicious(sources, own, rng), document
                    for passage in sources:
                        for other, label in ((parts[part], YES), (parts[(part + 1) % PARTS], NO)):
                            pairs += [((other, passage.id), label), ((passage.id, other), label)]
            pairs = pairs[: self.wanted[split] // 4 * 4]
            examples[split] = [pairs[index] for index in rng.permutation(len(pairs))]
        return texts, examples

    def same_article_related(self) -> dict[str, list[str]]:
        """GAMES."""
        same = _by_article(self.passages)
        return {p.id: [q.id for q in same[p.article] if q.id != p.id] for p in self.of_split["test"]}

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(role.encode())])

    def _texts(self) -> Texts:
        return {passage.id: (passage.text, passage.article) for passage in self.passages}

    def _linked(self, first: str, second: str) -> bool:
        """Whether two passages, or sentences of them, are of one article or link to the same page."""
        a, b = (self.by_id[text_id.split("/sentence")[0]] for text_id in (first, second))
        return a.article == b.article or bool(a.targets & b.targets)

    def _balanced(self, role: str, groups: Groups, related: Callable[[str, str], bool]) -> Examples:
        """Both orders of the positives that `groups` makes for a split, and as many negatives."""
        rng = self._rng(role)
        return {
            split: balanced(both_orders(round_robin(groups(split, rng), rng)), self.wanted[split], related, rng)
            for split in SPLITS
        }


def rated_stories() -> tuple[dict[str, str], dict[str, list[str]]]:
    """WINES: the 50 stories by id, and ids that people rated above 0.5 of 1 with a story, where there are any."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    ratings = ratings + ratings.T  # the file holds each pair once
    ids = [f"lee/{number:02d}" for number in range(len(ratings))]
    relevant = {ids[row]: [ids[column] for column in np.flatnonzero(ratings[row] > RELATED)] for row in range(len(ids))}
    stories = dict(zip(ids, gensim_files.lines(gensim_files.STORIES), strict=True))
    return stories, {source: targets for source, targets in relevant.items() if targets}


def _suspicious(copied: list[Passage], host: Passage, rng: np.random.Generator) -> str:
    """Words of a host passage around obfuscated copies of a stretch of each passage."""
    words = host.text.split()
    copies = [_obfuscated(passage.text.split(), rng) for passage in copied]
    return " ".join([*words[:HOST_WORDS], *copies, *words[HOST_WORDS : 2 * HOST_WORDS]])


def _obfuscated(source: list[str], rng: np.random.Generator) -> str:
    """A stretch of the words with a fifth lost and neighbours exchanged, until no eight words in a row are left."""
    start = int(rng.integers(max(1, len(source) - COPY_WORDS)))
    stretch = source[start : start + COPY_WORDS]
    while True:
        kept = [word for word in stretch if rng.random() > 0.2]
        places = np.arange(len(kept)) + rng.uniform(0, 3, len(kept))  # moves a word by two places at most
        copy = " ".join(kept[index] for index in np.argsort(places, kind="stable"))
        if not gensim_files.shingles(copy) & gensim_files.shingles(" ".join(stretch)):
            return copy


def _by_article(passages: list[Passage]) -> dict[str, list[Passage]]:
    groups: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        groups[passage.article].append(passage)
    return groups
