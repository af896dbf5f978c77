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

import itertools
import re
import zlib
from collections import defaultdict
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
SHALLOW = {"train": 6, "validation": 0, "test": 0}  # short passages of a section, by the split of AAN they serve
DEEP = {"train": 8, "validation": 4, "test": 4}  # of the articles that AAN uses
DEEP_SHARE = 0.4  # of the articles
PAIRED = 5  # short passages of a section that OC and S2ORC pair; the next serves S2ORC as an unusually short passage
BORROWING = 4  # texts that borrow from an article (PAN), each from COPIED of its passages
COPIED = 3
COPY_WORDS = range(8, 18)  # of a copied stretch
HOST_WORDS = 5  # words of another article before the copies, and after them
RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar; 47 of 50 stories have one
Pair = tuple[str, str]


class Passage(NamedTuple):
    """Sentences of one section that follow each other, masked. `split` is that of ARXIV or AAN, if it has one."""

    id: str
    text: str
    article: str
    section: str
    long: bool
    split: str = ""


class MiniTasks:
    """The tasks that are made of passages; each draws from a generator of its own, whatever else is drawn.

    Attributes:
        topics: the passages of ARXIV.
        articles: {title: passages} of the other articles, which the pair tasks share.
        of_split: {split: titles} of these articles: of four next in size, two are for training.
        used: how many sentences of a section are taken, so that the corpus takes others.
    """

    def __init__(self, settings: MiniBuild):
        self.settings, self.used = settings, dict[Section, int]()
        sections: dict[str, list[Section]] = defaultdict(list)
        for section in gensim_files.sections():
            sections[section.article].append(section)
        words = {t: sum(len(s.split()) for section in held for s in section.sentences) for t, held in sections.items()}
        titles = sorted((t for t in words if not t.startswith("List of")), key=lambda t: (-words[t], t))
        self._titles = _pattern(_plain(title) for title in titles if words[title] >= 300)
        rng = self._rng("passages")
        self.topics = [p for title in titles[:TOPICS] for p in self._topic(sections[title], rng)]
        self.articles: dict[str, list[Passage]] = {}
        for title in titles[TOPICS:]:
            if len(self.articles) < settings.articles:
                deep = len(self.articles) < DEEP_SHARE * settings.articles
                if passages := self._article(sections[title], DEEP if deep else SHALLOW, rng):
                    self.articles[title] = passages
        if len(self.articles) < settings.articles:
            held = f"the dump holds {len(self.articles)} articles with enough passages"
            raise ValueError(f"build.articles: {held}, {settings.articles} are wanted; ask for fewer")
        dealt = list(zip(self.articles, itertools.cycle(("train", "validation", "train", "test")), strict=False))
        self.of_split = {split: [title for title, dealt_to in dealt if dealt_to == split] for split in SPLITS}

    def topic(self) -> Examples:
        """ARXIV."""
        return {split: [((p.id,), p.article) for p in self.topics if p.split == split] for split in SPLITS}

    def same_article(self) -> Examples:
        """OC."""
        chosen: dict[str, list[str]] = {}
        for number, (title, passages) in enumerate(self.articles.items()):
            longs = [p.id for p in passages if p.long][: 1 + (number % 3 == 0)]
            chosen[title] = longs + [p.id for group in _by_section(passages) for p in _training(group)[:PAIRED]]
        article = {text_id: title for title, ids in chosen.items() for text_id in ids}
        positives = {
            split: [[pair for title in titles for pair in itertools.combinations(chosen[title], 2)]]
            for split, titles in self.of_split.items()
        }
        return self._balanced("OC", positives, lambda a, b: article[a] != article[b])

    def same_section(self) -> Examples:
        """AAN. Negatives join two sections of one article."""
        section = {p.id: p.section for passages in self.articles.values() for p in passages}
        positives: dict[str, list[list[Pair]]] = {split: [] for split in SPLITS}
        for split, passages in itertools.product(SPLITS, self.articles.values()):
            if any(p.split == "test" for p in passages):
                groups = [[p.id for p in group if p.split == split] for group in _by_section(passages)]
                positives[split].append([pair for group in groups for pair in itertools.combinations(group, 2)])
        return self._balanced("AAN", positives, lambda a, b: section[a] != section[b])

    def section_of(self) -> Examples:
        """S2ORC."""
        article: dict[str, str] = {}
        positives: dict[str, list[list[Pair]]] = {split: [[]] for split in SPLITS}
        for split, title in self._dealt_articles():
            for group in _by_section(self.articles[title]):
                shorts, mixed = [p.id for p in _training(group)[:PAIRED]], [p.id for p in _mixed(group)]
                positives[split][0] += itertools.product(shorts, mixed)
                article.update(dict.fromkeys(shorts, title))
                article.update(dict.fromkeys(mixed, title))
        mixed_ids = {b for groups in positives.values() for _, b in groups[0]}
        return self._balanced(
            "S2ORC", positives, lambda a, b: (a in mixed_ids) != (b in mixed_ids) and article[a] != article[b]
        )

    def copied(self) -> tuple[dict[str, tuple[str, str]], Examples]:
        """PAN, and {id: (text, article)} of the texts that borrow: obfuscated stretches inside another article."""
        rng = self._rng("PAN texts")
        texts: dict[str, tuple[str, str]] = {}
        made_of: dict[str, set[str]] = {p.id: {p.article} for held in self.articles.values() for p in held}
        positives: dict[str, list[list[Pair]]] = {split: [[]] for split in SPLITS}
        for split, title in self._dealt_articles():
            titles, passages = self.of_split[split], self.articles[title]
            host = titles[titles.index(title) - 1]
            candidates = [p for group in _by_section(passages) for p in _mixed(group)]
            for number in range(BORROWING):
                chosen = [candidates[index] for index in rng.permutation(len(candidates))[:COPIED]]
                own = self.articles[host][number].text.split()
                copies = [_obfuscated(passage.text.split(), rng) for passage in chosen]
                text_id = f"copies/{title}/{number}"
                texts[text_id] = " ".join([*own[:HOST_WORDS], *copies, *own[HOST_WORDS : 2 * HOST_WORDS]]), title
                made_of[text_id] = {title, host}
                positives[split][0] += [(text_id, passage.id) for passage in chosen]
        return texts, self._balanced(
            "PAN", positives, lambda a, b: (a in texts) != (b in texts) and not made_of[a] & made_of[b]
        )

    def related(self) -> dict[str, list[str]]:
        """GAMES."""
        tested = [[p.id for p in self.articles[title]] for title in self.of_split["test"]]
        return {source: [i for i in ids if i != source] for ids in tested for source in ids}

    def _topic(self, sections: list[Section], rng: np.random.Generator) -> list[Passage]:
        """Passages of a topic, of one section after the other; the splits get as many each."""
        passages: list[Passage] = []
        splits = [split for split in SPLITS for _ in range(self.settings.topic_passages)]
        for section in _shuffled(sections):
            cut, self.used[section] = self._cut(section, [TOPIC] * (len(splits) - len(passages)))
            passages += cut
        if len(passages) < len(splits):
            held = f"{sections[0].article} holds {len(passages)} passages"
            raise ValueError(f"build.topic_passages: {held}, {len(splits)} are wanted; ask for fewer")
        return [p._replace(split=split) for p, split in zip(passages, rng.permutation(splits).tolist(), strict=True)]

    def _article(self, sections: list[Section], shorts: dict[str, int], rng: np.random.Generator) -> list[Passage]:
        """The passages of two sections, or none if the article has no two that are long enough."""
        splits = [split for split, count in shorts.items() for _ in range(count)]
        passages, used = [], {}
        for section in _shuffled(sections):
            lengths = rng.permutation([SHORT] * len(splits) + [LONG] * LONGS).tolist()
            cut, taken = self._cut(section, lengths)
            if len(cut) == len(lengths):
                used[section] = taken
                dealt = iter(rng.permutation(splits).tolist())
                passages += [passage if passage.long else passage._replace(split=next(dealt)) for passage in cut]
            if len(used) == SECTIONS:
                self.used |= used
                return passages
        return []

    def _cut(self, section: Section, lengths: Sequence[Sequence[int]]) -> tuple[list[Passage], int]:
        """A passage of each length (least and most tokens) as far as the section goes, and the sentences that took."""
        own = _pattern(word for word in re.findall(r"\w+", _plain(section.article)) if len(word) >= 4)
        texts = [own.sub(MASK, self._titles.sub(MASK, sentence)) for sentence in section.sentences]
        borders = np.cumsum([0, *gensim_files.tokens(texts)])
        name, passages, start = f"{section.article}/{section.name}", list[Passage](), 0
        while start < len(texts) and len(passages) < len(lengths):
            low, high = lengths[len(passages)]
            stop = int(np.searchsorted(borders, borders[start] + low))
            if stop < len(borders) and borders[stop] - borders[start] <= high:
                text_id, text = f"wiki/{name}/{len(passages):02d}", " ".join(texts[start:stop])
                passages.append(Passage(text_id, text, section.article, name, low > SHORT[0]))
                start = stop
            else:
                start += 1  # no passage of that length begins with this sentence
        return passages, start

    def _dealt_articles(self) -> list[tuple[str, str]]:
        return [(split, title) for split, titles in self.of_split.items() for title in titles]

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _balanced(
        self, role: str, positives: dict[str, list[list[Pair]]], allowed: Callable[[str, str], bool]
    ) -> Examples:
        """Each split's pairs; negatives are found within each of its lists of positives."""
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
    negatives as in positives, on the same side: nothing can be read from one text alone. The few positives whose first
    text finds no partner that is `allowed` are left out.
    """
    kept = [positives[index] for index in rng.permutation(len(positives))[: wanted // 2]]
    kept = [pair if rng.random() < 0.5 else pair[::-1] for pair in kept]
    partners = [kept[index][1] for index in rng.permutation(len(kept))]
    examples: list[tuple[Pair, str]] = []
    joined: set[frozenset[str]] = set()
    for first, second in kept:
        fits = (i for i, b in enumerate(partners) if allowed(first, b) and frozenset((first, b)) not in joined)
        if (place := next(fits, None)) is not None:
            negative = (first, partners.pop(place))
            joined.add(frozenset(negative))
            examples += [((first, second), YES), (negative, NO)]
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


def _training(passages: Iterable[Passage]) -> list[Passage]:
    return [passage for passage in passages if passage.split == "train"]


def _mixed(passages: Sequence[Passage]) -> list[Passage]:
    """Of a section, the long passages and one short one that OC and S2ORC do not pair: a third fits the limit."""
    return [passage for passage in passages if passage.long] + _training(passages)[PAIRED : PAIRED + 1]


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


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Matches any form as whole words; forms of four letters and more with an ending of up to three ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "s?") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies)})(?!\w)" if ordered else r"(?!)", re.I)
