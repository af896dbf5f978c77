"""The eight mini tasks: real text from gensim's files in the roles of the thesis' eight.

Long is above the structural teacher's limit; each task has about the share of Table 5.4 above it. A plain "X" masks in
all passages the title of any article that tasks use, and every longer word of the passage's own title.
"""

import itertools
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from lib.config.schema import MiniBuild
from lib.data.builders import Examples
from lib.data.builders.mini import gensim_files
from lib.data.builders.mini.gensim_files import Section
from lib.data.task_files import SPLITS

NO, YES = "no", "yes"  # the classes of every pair task
MASK = "X"
TOPICS = 11  # classes of ARXIV
SHORT, LONG, TOPIC = (
    (24, 48),
    (49, 80),
    (60, 100),
)  # tokens of a passage; the structural teacher's limit is 48
# What is cut of each section that an article gives: a length and a use. OC and S2ORC pair short passages with long ones
# and with mixed ones, of which a third is short. Of the largest articles AAN has more, so that a head can learn them.
SECTION = [(SHORT, "paired")] * 5 + [(SHORT, "mixed")] + [(LONG, "mixed")] * 2
DEEP = SECTION + [(SHORT, "train")] * 2 + [(SHORT, "validation")] * 4 + [(SHORT, "test")] * 4
DEEP_SHARE = 0.4  # of the articles
COPIES, COPIED = 2, 3  # times that PAN copies a passage on average, passages that a text copies
COPY_WORDS = range(8, 18)  # of a copied stretch
HOST_WORDS = 5  # words of another article before the copies, and after them
RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar
T = TypeVar("T")
Recipe = list[tuple[tuple[int, int], str]]


class Passage(NamedTuple):
    """Sentences of one section that follow each other, masked. use: a split of ARXIV or AAN, "paired" or "mixed"; or
    "copies", a text of PAN, whose section is the article that its first and last words are from."""

    id: str
    text: str
    article: str
    section: str
    long: bool
    use: str


class MiniTasks:
    """The tasks that are made of passages; each draws from a generator of its own, whatever else is drawn.

    topics: the passages of ARXIV. articles: {title: passages} of the others, which the pair tasks share. split: {title:
    split} of these: of four next in size, two are for training. used: how many sentences of a section are taken.
    """

    def __init__(self, settings: MiniBuild):
        self.settings, self.used = settings, dict[Section, int]()
        in_order = itertools.groupby(gensim_files.sections(), lambda section: section.article)
        sections = {title: list(held) for title, held in in_order}
        words = {
            t: sum(len(s.split()) for section in held for s in section.sentences)
            for t, held in sections.items()
        }
        titles = sorted(
            (t for t in words if not t.startswith("List of")), key=lambda t: (-words[t], t)
        )
        plain = {
            title: re.sub(r"\s*\([^)]*\)$", "", title).lower() for title in titles
        }  # "Android (robot)": android
        self._titles = _pattern(plain[title] for title in titles if words[title] >= 300)
        self.topics = [
            passage for title in titles[:TOPICS] for passage in self._topic(sections[title])
        ]
        self.articles: dict[str, list[Passage]] = {}
        for title in titles[TOPICS:]:
            if len(self.articles) < settings.articles:
                deep = len(self.articles) < DEEP_SHARE * settings.articles
                if passages := self._article(sections[title], DEEP if deep else SECTION):
                    self.articles[title] = passages
        if len(self.articles) < settings.articles:
            raise ValueError(
                f"build.articles: the dump holds no more than {len(self.articles)} with enough passages"
            )
        turns = itertools.cycle(("train", "validation", "train", "test"))
        self.split = dict(zip(self.articles, turns, strict=False))
        self.by_id = {p.id: p for p in itertools.chain(self.topics, *self.articles.values())}

    def topic(self) -> Examples:
        """ARXIV: which of the eleven longest articles a long passage is from; no passage is in two splits."""
        return {
            split: [((p.id,), p.article) for p in self.topics if p.use == split] for split in SPLITS
        }

    def same_article(self) -> Examples:
        """OC: are two passages, one in eight of them long, of one article? No article is in two splits."""
        positives = defaultdict(list)
        for number, (title, passages) in enumerate(self.articles.items()):
            paired = [p for p in passages if p.use == "paired"]
            longs = [p for p in passages if p.long][
                : len(paired) // 10 + (number % 3 == 0)
            ]  # one text in eight
            positives[self.split[title]] += itertools.combinations(longs + paired, 2)
        return self._balanced("OC", positives, lambda a, b: a.article != b.article)

    def same_section(self) -> Examples:
        """AAN: are two short passages of one article of the same section? No passage is in two splits."""
        positives = defaultdict(list)
        for passages in self.articles.values():
            deep = any(p.use == "test" for p in passages)
            for a, b in itertools.combinations([p for p in passages if deep and not p.long], 2):
                splits = {p.use if p.use in SPLITS else "train" for p in (a, b)}
                if a.section == b.section and len(splits) == 1:
                    positives[splits.pop()].append((a, b))
        return self._balanced(
            "AAN", positives, lambda a, b: a.article == b.article and a.section != b.section
        )

    def section_of(self) -> Examples:
        """S2ORC: are a short passage and one that is mostly long of one section, or of two articles?"""
        positives = defaultdict(list)
        for title, passages in self.articles.items():
            pairs = itertools.product(
                *([p for p in passages if p.use == use] for use in ("paired", "mixed"))
            )
            positives[self.split[title]] += [(a, b) for a, b in pairs if a.section == b.section]
        return self._balanced(
            "S2ORC", positives, lambda a, b: a.use != b.use and a.article != b.article
        )

    def copied(self) -> tuple[list[Passage], Examples]:
        """PAN: these texts, and: does one of them hold an obfuscated copy of a passage? Each borrows from three of
        its article, inside words of another one."""
        rng, texts, positives = self._rng("PAN texts"), list[Passage](), defaultdict(list)
        for split in SPLITS:
            titles = [title for title in self.articles if self.split[title] == split]
            for title, host in zip(titles, titles[1:] + titles[:1], strict=True):
                candidates = [passage for passage in self.articles[title] if passage.use == "mixed"]
                for own in self.articles[host][: COPIES * len(candidates) // COPIED]:
                    chosen = shuffled(candidates, rng)[:COPIED]
                    copies = [_obfuscated(passage.text.split(), rng) for passage in chosen]
                    words = own.text.split()
                    text = " ".join(
                        [*words[:HOST_WORDS], *copies, *words[HOST_WORDS : 2 * HOST_WORDS]]
                    )
                    texts.append(
                        Passage(f"copies/{title}/{own.id}", text, title, host, True, "copies")
                    )
                    positives[split] += [(texts[-1], passage) for passage in chosen]
        return texts, self._balanced(
            "PAN",
            positives,
            lambda a, b: (
                a.use != b.use and {a.article, a.section}.isdisjoint((b.article, b.section))
            ),
        )

    def related(self) -> dict[str, list[str]]:
        """GAMES: for each passage of a test article, the others of its article."""
        tested = [held for title, held in self.articles.items() if self.split[title] == "test"]
        return {
            source.id: [p.id for p in held if p != source] for held in tested for source in held
        }

    def _topic(self, sections: list[Section]) -> list[Passage]:
        """Passages of a topic, of one section after the other; the splits get as many each."""
        rng, passages = self._rng(sections[0].article), list[Passage]()
        recipe = shuffled([(TOPIC, split) for split in SPLITS] * self.settings.topic_passages, rng)
        for section in shuffled(sections, rng):
            cut, self.used[section] = self._cut(section, recipe[len(passages) :])
            passages += cut
        if len(passages) < len(recipe):
            raise ValueError(
                f"build.topic_passages: {sections[0].article} holds {len(passages)} of {len(recipe)}"
            )
        return passages

    def _article(self, sections: list[Section], recipe: Recipe) -> list[Passage]:
        """The passages of as many sections as are wanted, at least two; none if the article has no two long ones."""
        rng, passages, used = self._rng(sections[0].article), list[Passage](), {}
        for section in shuffled(sections, rng):
            if len(used) < self.settings.sections:
                cut, taken = self._cut(section, shuffled(recipe, rng))
                if len(cut) == len(recipe):
                    passages += cut
                    used[section] = taken
        if len(used) < 2:
            return []
        self.used |= used
        return passages

    def _cut(self, section: Section, recipe: Recipe) -> tuple[list[Passage], int]:
        """Passages of these lengths and uses as far as the section goes, and how many sentences that took."""
        own = _pattern(word for word in re.findall(r"\w+", section.article) if len(word) >= 4)
        texts = [own.sub(MASK, self._titles.sub(MASK, sentence)) for sentence in section.sentences]
        borders = np.cumsum([0, *gensim_files.tokens(texts)])
        name, passages, start = f"{section.article}/{section.name}", list[Passage](), 0
        while start < len(texts) and len(passages) < len(recipe):
            (least, most), use = recipe[len(passages)]
            stop = int(np.searchsorted(borders, borders[start] + least))
            if stop < len(borders) and borders[stop] - borders[start] <= most:
                text_id, text = f"wiki/{name}/{len(passages):02d}", " ".join(texts[start:stop])
                passages.append(
                    Passage(text_id, text, section.article, name, least > SHORT[0], use)
                )
                start = stop
            else:
                start += 1  # no passage of that length begins with this sentence
        return passages, start

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _balanced(
        self, role: str, positives: dict[str, list], allowed: Callable[[Passage, Passage], bool]
    ) -> Examples:
        rng, wanted = (
            self._rng(role),
            (self.settings.train_pairs, *[self.settings.validation_pairs] * 2),
        )
        drawn = {
            split: balanced(positives[split], n, allowed, rng)
            for split, n in zip(SPLITS, wanted, strict=True)
        }
        return {
            split: [((a.id, b.id), label) for (a, b), label in rows]
            for split, rows in drawn.items()
        }


def balanced(
    positives: Sequence[tuple[T, T]],
    wanted: int,
    allowed: Callable[[T, T], bool],
    rng: np.random.Generator,
) -> list[tuple[tuple[T, T], str]]:
    """About `wanted` pairs, half of them positive; their order, and that of their two texts, is random. A negative
    joins the first text of one positive with the second of another, so that nothing can be read from one text alone.
    The few positives whose first text finds no partner that is `allowed` are left out."""
    kept = [
        pair if rng.random() < 0.5 else pair[::-1]
        for pair in shuffled(positives, rng)[: wanted // 2]
    ]
    left = Counter(shuffled([second for _, second in kept], rng))
    examples, joined = list[tuple[tuple[T, T], str]](), set[frozenset[T]]()
    for first, second in kept:
        if fits := [
            b for b in left if left[b] and allowed(first, b) and frozenset((first, b)) not in joined
        ]:
            partner = max(fits, key=left.__getitem__)  # so that hardly a text is left over
            left[partner] -= 1
            joined.add(frozenset((first, partner)))
            examples += [((first, second), YES), ((first, partner), NO)]
    return shuffled(examples, rng)


def shuffled(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    """The values in a random order."""
    return [values[index] for index in rng.permutation(len(values))]


def rated_stories() -> tuple[dict[str, str], dict[str, list[str]]]:
    """WINES: the 50 stories by id, and ids that people rated above 0.5 of 1 with a story, where there are any."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    alike = ratings + ratings.T > RELATED  # the file holds each pair once
    stories = {
        f"lee/{number:02d}": text
        for number, text in enumerate(gensim_files.lines(gensim_files.STORIES))
    }
    similar = {
        a: list(itertools.compress(stories, row))
        for a, row in zip(stories, alike, strict=True)
        if any(row)
    }
    return stories, similar


def _obfuscated(source: list[str], rng: np.random.Generator) -> str:
    """A stretch of the words with a fifth lost and neighbours exchanged, until no eight words in a row are left."""
    length = int(rng.choice(COPY_WORDS))
    stretch = source[int(rng.integers(max(1, len(source) - length))) :][:length]
    while True:
        kept = [word for word in stretch if rng.random() > 0.2]
        places = np.arange(len(kept)) + rng.uniform(
            0, 3, len(kept)
        )  # moves a word by two places at most
        copy = " ".join(kept[index] for index in np.argsort(places, kind="stable"))
        if not gensim_files.shingles(copy) & gensim_files.shingles(" ".join(stretch)):
            return copy


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Matches any form as whole words; forms of four letters and more with an ending of up to three ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "s?") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies) or '(?!)'})(?!\w)", re.I)
