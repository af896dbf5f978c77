"""The eight mini tasks: real text from gensim's files in the roles of the thesis' eight.

| task | example | label |
|---|---|---|
| ARXIV | a long passage | which of the eleven longest articles it is from |
| IMDB | a review sentence | its sentiment; five folds over all 200, as the thesis validates IMDB |
| OC | two passages, one in eight of them long | same article or not |
| AAN | two short passages of one article | same section or not |
| S2ORC | a short passage, another that is mostly long | same section, or different articles |
| PAN | a passage, a text that borrows from three | does the text hold an obfuscated copy of the passage |
| WINES | the 50 Lee stories | for each, those that people rated similar |
| GAMES | all passages | for each passage of a test article, the others of its article |

A short passage fits the structural teacher's limit, a long one does not; so each task has about the share of texts
above the limit that Table 5.4 gives for its role. Splits of OC, S2ORC and PAN share no article, those of ARXIV and AAN
no passage. What would give an article away is masked with a plain "X" in all passages: the title of any article that
tasks use, and every word of four letters or more of the passage's own title.
"""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lib.data.build import Examples
from lib.data.build.mini import gensim_files
from lib.data.build.mini.gensim_files import Section
from lib.data.task_files import SPLITS

if TYPE_CHECKING:
    from lib.config.schema import MiniBuild

NO, YES = "no", "yes"  # the classes of every pair task
MASK = "X"
TOPICS = 11  # classes of ARXIV
SHORT, LONG, TOPIC = (24, 48), (49, 80), (60, 100)  # tokens of a passage; the structural teacher's limit is 48
SECTIONS = 2  # of an article that pair tasks use
LONGS = 2  # long passages of a section
SHORTS = {"train": 6, "validation": 0, "test": 0}  # short passages of a section, by the split of AAN they serve
DEEP_SHORTS = {"train": 8, "validation": 4, "test": 4}  # of the articles that AAN uses
DEEP_SHARE = 0.4  # of the articles
PAIRED = 5  # short passages of a section that OC and S2ORC pair; the next serves S2ORC as an unusually short passage
BORROWING = 4  # texts that borrow from an article (PAN), each from COPIED of its passages
COPIED = 3
COPY_WORDS = range(8, 18)  # of a copied stretch
HOST_WORDS = 5  # words of another article before the copies, and after them
RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar; 47 of 50 stories have one
Pair = tuple[str, str]


class Passage(NamedTuple):
    """Sentences of one section that follow each other, masked. `split` is that of ARXIV or AAN."""

    id: str
    text: str
    article: str
    section: str
    split: str
    long: bool


class MiniTasks:
    """The tasks that are made of passages; each draws from a generator of its own, whatever else is drawn.

    Attributes:
        topics: the passages of ARXIV. passages: those of the other articles, which the pair tasks share.
        used: how many sentences of a section are taken, so that the corpus takes others.
    """

    def __init__(self, settings: MiniBuild):
        self.settings, self.used = settings, Counter[Section]()
        self.by_article: dict[str, list[Passage]] = {}
        by_title = {
            title: list(group) for title, group in itertools.groupby(gensim_files.sections(), lambda s: s.article)
        }
        words = {t: sum(len(text.split()) for s in group for text in s.sentences) for t, group in by_title.items()}
        self._titles = sorted((t for t in words if not t.startswith("List of")), key=lambda t: (-words[t], t))
        self._mask_titles = _pattern(_plain(title) for title in self._titles if words[title] >= 300)
        rng = self._rng("passages")
        self.topics = [p for title in self._titles[:TOPICS] for p in self._topic(by_title[title], rng)]
        deep = round(DEEP_SHARE * settings.articles)
        for title in self._titles[TOPICS:]:
            if len(self.by_article) < settings.articles:
                shorts = DEEP_SHORTS if len(self.by_article) < deep else SHORTS
                if passages := self._article(by_title[title], shorts, rng):
                    self.by_article[title] = passages
        if len(self.by_article) < settings.articles:
            held = f"the dump holds {len(self.by_article)} articles with enough passages"
            raise ValueError(f"build.articles: {held}, {settings.articles} are wanted; ask for fewer")
        self.passages = [passage for group in self.by_article.values() for passage in group]
        # Of four articles next in size, two are for training.
        dealt = dict(zip(self.by_article, itertools.cycle(("train", "validation", "train", "test")), strict=False))
        self.articles = {split: [title for title in dealt if dealt[title] == split] for split in SPLITS}

    def topic(self) -> Examples:
        """ARXIV."""
        return {split: [((p.id,), p.article) for p in self.topics if p.split == split] for split in SPLITS}

    def same_article(self) -> Examples:
        """OC."""
        chosen: dict[str, list[str]] = {}
        for number, (title, passages) in enumerate(self.by_article.items()):
            longs = [p.id for p in passages if p.long][: 1 + (number % 3 == 0)]
            chosen[title] = longs + [p.id for group in _by_section(passages) for p in _shorts(group)[:PAIRED]]
        article = {text_id: title for title, ids in chosen.items() for text_id in ids}
        positives = {
            split: [list(itertools.chain.from_iterable(itertools.combinations(chosen[t], 2) for t in titles))]
            for split, titles in self.articles.items()
        }
        return self._balanced("OC", positives, lambda a, b: article[a] != article[b])

    def same_section(self) -> Examples:
        """AAN."""
        section = {p.id: p.section for p in self.passages}
        positives: dict[str, list[list[Pair]]] = {split: [] for split in SPLITS}
        for split, passages in itertools.product(SPLITS, self.by_article.values()):
            groups = [[p.id for p in group if p.split == split and not p.long] for group in _by_section(passages)]
            if any(p.split == "test" for p in passages):
                positives[split].append([pair for group in groups for pair in itertools.combinations(group, 2)])
        return self._balanced("AAN", positives, lambda a, b: section[a] != section[b])

    def section_of(self) -> Examples:
        """S2ORC."""
        of = {p.id: p for p in self.passages}
        longer = set()
        positives: dict[str, list[list[Pair]]] = {split: [[]] for split in SPLITS}
        for split, titles in self.articles.items():
            for group in itertools.chain.from_iterable(_by_section(self.by_article[title]) for title in titles):
                shorts = [p.id for p in _shorts(group)]
                passages = [p.id for p in group if p.long] + shorts[PAIRED : PAIRED + 1]
                positives[split][0] += itertools.product(shorts[:PAIRED], passages)
                longer.update(passages)
        return self._balanced(
            "S2ORC", positives, lambda a, b: (a in longer) != (b in longer) and of[a].article != of[b].article
        )

    def copied(self) -> tuple[dict[str, tuple[str, str]], Examples]:
        """PAN, and {id: (text, article)} of the texts that borrow: obfuscated stretches inside words of another article."""
        rng = self._rng("PAN texts")
        texts: dict[str, tuple[str, str]] = {}
        sources: dict[str, tuple[str, str]] = {}  # of a text that borrows: the articles it is made of
        positives: dict[str, list[list[Pair]]] = {split: [[]] for split in SPLITS}
        for split, titles in self.articles.items():
            for title, host in zip(titles, [*titles[1:], titles[0]], strict=True):
                candidates = [p for group in _by_section(self.by_article[title]) for p in group if p.long]
                candidates += [_shorts(group)[PAIRED] for group in _by_section(self.by_article[title])]
                for number in range(BORROWING):
                    chosen = [candidates[index] for index in rng.permutation(len(candidates))[:COPIED]]
                    own = self.by_article[host][number].text.split()
                    copies = [_obfuscated(passage.text.split(), rng) for passage in chosen]
                    text_id = f"copies/{title}/{number}"
                    text = " ".join([*own[:HOST_WORDS], *copies, *own[HOST_WORDS : 2 * HOST_WORDS]])
                    texts[text_id], sources[text_id] = (text, title), (title, host)
                    positives[split][0] += [(text_id, passage.id) for passage in chosen]
        article = {p.id: p.article for p in self.passages}

        def unrelated(a: str, b: str) -> bool:
            text, passage = (a, b) if a in texts else (b, a)
            return (a in texts) != (b in texts) and article[passage] not in sources[text]

        return texts, self._balanced("PAN", positives, unrelated)

    def related(self) -> dict[str, list[str]]:
        """GAMES."""
        tested = {title: [p.id for p in self.by_article[title]] for title in self.articles["test"]}
        return {source: [i for i in ids if i != source] for ids in tested.values() for source in ids}

    def _topic(self, sections: list[Section], rng: np.random.Generator) -> list[Passage]:
        """Passages of a topic, from one section after the other; the splits get as many each."""
        held: list[Passage] = []
        wanted = len(SPLITS) * self.settings.topic_passages
        for section in _shuffled(sections):
            cut, taken = self._cut(section, [TOPIC] * (wanted - len(held)), partly=True)
            if cut:
                self.used[section] = taken
            held += [self._passage(section, number, text, "", TOPIC) for number, text in enumerate(cut)]
        if len(held) < wanted:
            title = sections[0].article
            raise ValueError(f"build.topic_passages: {title} holds {len(held)} passages, {wanted} are wanted")
        splits = rng.permutation([split for split in SPLITS for _ in range(self.settings.topic_passages)]).tolist()
        return [passage._replace(split=split) for passage, split in zip(held, splits, strict=True)]

    def _article(self, sections: list[Section], shorts: dict[str, int], rng: np.random.Generator) -> list[Passage]:
        """The passages of two sections, or none if the article has no two that are long enough."""
        splits = [split for split, count in shorts.items() for _ in range(count)]
        held: dict[Section, tuple[list[Passage], int]] = {}
        for section in _shuffled(sections):
            ranges = [SHORT] * len(splits) + [LONG] * LONGS
            order = rng.permutation(len(ranges)).tolist()
            cut, taken = self._cut(section, [ranges[index] for index in order])
            if cut and len(held) < SECTIONS:
                dealt = iter(rng.permutation(splits).tolist())
                held[section] = (
                    [
                        self._passage(section, n, text, "" if ranges[i] == LONG else next(dealt), ranges[i])
                        for n, (i, text) in enumerate(zip(order, cut, strict=True))
                    ],
                    taken,
                )
        if len(held) < SECTIONS:
            return []
        self.used.update({section: taken for section, (_, taken) in held.items()})
        return [passage for passages, _ in held.values() for passage in passages]

    def _cut(self, section: Section, ranges: Sequence[tuple[int, int]], partly: bool = False) -> tuple[list[str], int]:
        """A masked passage for each range of tokens, and how many sentences that took; none if the section is short."""
        own = _pattern(word for word in re.findall(r"\w+", _plain(section.article)) if len(word) >= 4)
        texts = [own.sub(MASK, self._mask_titles.sub(MASK, sentence)) for sentence in section.sentences]
        ends = np.cumsum([0, *gensim_files.tokens(texts)]) if texts else np.zeros(1)
        passages: list[str] = []
        start = 0
        for low, high in ranges:
            while start < len(texts):  # a sentence is skipped if no passage that begins with it has the length
                stop = int(np.searchsorted(ends, ends[start] + low))
                if stop < len(ends) and ends[stop] - ends[start] <= high:
                    passages.append(" ".join(texts[start:stop]))
                    start = stop
                    break
                start += 1
        return (passages, start) if partly or len(passages) == len(ranges) else ([], 0)

    def _passage(self, section: Section, number: int, text: str, split: str, length: tuple[int, int]) -> Passage:
        text_id = f"wiki/{section.article}/{section.name}/{number:02d}"
        return Passage(text_id, text, section.article, f"{section.article}/{section.name}", split, length != SHORT)

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _balanced(
        self, role: str, positives: dict[str, list[list[Pair]]], allowed: Callable[[str, str], bool]
    ) -> Examples:
        rng, examples = self._rng(role), {}
        for split, groups in positives.items():
            wanted = self.settings.train_pairs if split == "train" else self.settings.validation_pairs
            rows = [row for group in groups for row in balanced(group, wanted // len(groups), allowed, rng)]
            examples[split] = [rows[index] for index in rng.permutation(len(rows))]
        return examples


def balanced(
    positives: Sequence[Pair], wanted: int, allowed: Callable[[str, str], bool], rng: np.random.Generator
) -> list[tuple[Pair, str]]:
    """About `wanted` pairs, half of them positive, in random order within a pair, none in both orders.

    A negative joins the first text of one positive with the second of another, so each text occurs as often in
    negatives as in positives, on the same side: nothing can be read from one text alone. A positive whose first text
    finds no partner that is `allowed` in a negative is left out.
    """
    kept = [positives[index] for index in rng.permutation(len(positives))[: wanted // 2]]
    kept = [pair if rng.random() < 0.5 else pair[::-1] for pair in kept]
    firsts, seconds = [a for a, _ in kept], [kept[index][1] for index in rng.permutation(len(kept))]
    for _ in range(20):  # a few sweeps of exchanges settle all but impossible cases
        pairs = Counter(frozenset(pair) for pair in zip(firsts, seconds, strict=True))
        bad = [
            place
            for place, pair in enumerate(zip(firsts, seconds, strict=True))
            if not allowed(*pair) or pairs[frozenset(pair)] > 1
        ]
        for place in bad:
            for other in rng.permutation(len(firsts)):
                new = frozenset((firsts[place], seconds[other])), frozenset((firsts[other], seconds[place]))
                valid = allowed(firsts[place], seconds[other]) and allowed(firsts[other], seconds[place])
                if valid and new[0] != new[1] and not pairs[new[0]] and not pairs[new[1]]:
                    for end in (place, other):
                        pairs[frozenset((firsts[end], seconds[end]))] -= 1
                    seconds[place], seconds[other] = seconds[other], seconds[place]
                    pairs.update(new)
                    break
    examples: list[tuple[Pair, str]] = []
    seen: set[frozenset[str]] = set()
    for positive, negative in zip(kept, zip(firsts, seconds, strict=True), strict=True):
        if allowed(*negative) and frozenset(negative) not in seen:
            seen.add(frozenset(negative))
            examples += [(positive, YES), (negative, NO)]
    return examples


def rated_stories() -> tuple[dict[str, str], dict[str, list[str]]]:
    """WINES: the 50 stories by id, and ids that people rated above 0.5 of 1 with a story, where there are any."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    ratings = ratings + ratings.T  # the file holds each pair once
    ids = [f"lee/{number:02d}" for number in range(len(ratings))]
    relevant = {ids[row]: [ids[column] for column in np.flatnonzero(ratings[row] > RELATED)] for row in range(len(ids))}
    stories = dict(zip(ids, gensim_files.lines(gensim_files.STORIES), strict=True))
    return stories, {source: targets for source, targets in relevant.items() if targets}


def _shuffled(sections: Iterable[Section]) -> list[Section]:
    return sorted(sections, key=lambda section: zlib.crc32(f"{section.article}/{section.name}".encode()))


def _by_section(passages: Sequence[Passage]) -> list[list[Passage]]:
    return [list(group) for _, group in itertools.groupby(passages, key=lambda passage: passage.section)]


def _shorts(passages: Iterable[Passage]) -> list[Passage]:
    return [passage for passage in passages if not passage.long and passage.split == "train"]


def _obfuscated(source: list[str], rng: np.random.Generator) -> str:
    """A stretch of the words with a fifth lost and neighbours exchanged, until no eight words in a row are left."""
    length = int(rng.choice(COPY_WORDS))
    start = int(rng.integers(max(1, len(source) - length)))
    stretch = source[start : start + length]
    while True:
        kept = [word for word in stretch if rng.random() > 0.2]
        places = np.arange(len(kept)) + rng.uniform(0, 3, len(kept))  # moves a word by two places at most
        copy = " ".join(kept[index] for index in np.argsort(places, kind="stable"))
        if not gensim_files.shingles(copy) & gensim_files.shingles(" ".join(stretch)):
            return copy


def _plain(title: str) -> str:
    """A title without its disambiguation: "Android (robot)" is written Android."""
    return re.sub(r"\s*\([^)]*\)$", "", title).lower()


@functools.cache
def _compiled(forms: tuple[str, ...]) -> re.Pattern:
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "s?") for form in forms)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies)})(?!\w)" if forms else r"(?!)", re.I)


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Matches any form as whole words; forms of four letters and more with an ending of up to three ("Alaskan")."""
    return _compiled(tuple(sorted(set(forms), key=lambda form: (-len(form), form))))
