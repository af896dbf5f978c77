"""The eight mini tasks: real text from gensim's files in the roles of the thesis' eight.

Long is above the structural teacher's limit; each task has about the share of Table 5.4 above it.
A plain "X" masks in all passages the title of any article that tasks use, and every longer word of
the passage's own title.
"""

import itertools
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from lib.config.schema import MiniBuild
from lib.data.builders.mini import gensim_files
from lib.data.builders.mini.gensim_files import Section
from lib.data.builders.writing import Examples
from lib.data.task_files import SPLITS

NO, YES = "no", "yes"  # the classes of every pair task
MASK = "X"
TOPICS = 11  # classes of ARXIV
# Tokens of a passage; the structural teacher's limit is 48.
SHORT, LONG, TOPIC = (24, 48), (49, 80), (60, 100)
# What is cut of each section that an article gives: a length and a use. OC and S2ORC pair short
# passages with long ones and with mixed ones, of which a third is short. Of the largest articles
# AAN has more, so that a head can learn them.
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
    """Sentences of one section that follow each other, masked.

    `use` is a split of ARXIV or AAN, "paired" or "mixed"; or "copies", a text of PAN, whose section
    is the article that its first and last words are from.
    """

    id: str
    text: str
    article: str
    section: str
    long: bool
    use: str


class MiniTasks:
    """The tasks that are made of passages; each draws from a generator of its own.

    Attributes
    ----------
    topics : list of Passage
        The passages of ARXIV.
    articles : dict
        {title: passages} of the other articles, which the pair tasks share.
    split : dict
        {title: split} of these: of four next in size, two are for training.
    used : dict
        How many sentences of a section are taken.
    """

    def __init__(self, settings: MiniBuild):
        self.settings, self.used = settings, dict[Section, int]()
        in_order = itertools.groupby(gensim_files.sections(), lambda section: section.article)
        sections = {title: list(held) for title, held in in_order}
        words = {title: _count_words(held) for title, held in sections.items()}
        titles = [title for title in words if not title.startswith("List of")]
        titles.sort(key=lambda title: (-words[title], title))
        # "Android (robot)" is masked as "android".
        plain = {title: re.sub(r"\s*\([^)]*\)$", "", title).lower() for title in titles}
        self._titles = _pattern(plain[title] for title in titles if words[title] >= 300)
        self.topics: list[Passage] = []
        for title in titles[:TOPICS]:
            self.topics += self._topic(sections[title])
        self.articles: dict[str, list[Passage]] = {}
        for title in titles[TOPICS:]:
            if len(self.articles) < settings.articles:
                deep = len(self.articles) < DEEP_SHARE * settings.articles
                if passages := self._article(sections[title], DEEP if deep else SECTION):
                    self.articles[title] = passages
        if (count := len(self.articles)) < settings.articles:
            told = f"the dump holds no more than {count} with enough passages"
            raise ValueError(f"build.articles: {told}")
        turns = itertools.cycle(("train", "validation", "train", "test"))
        self.split = dict(zip(self.articles, turns, strict=False))
        self.by_id = {p.id: p for p in itertools.chain(self.topics, *self.articles.values())}

    def topic(self) -> Examples:
        """ARXIV: which of the eleven longest articles is a long passage from? Splits share none."""
        return {
            split: [((p.id,), p.article) for p in self.topics if p.use == split] for split in SPLITS
        }

    def same_article(self) -> Examples:
        """OC: are two passages, one in eight of them long, of one article? Splits share none."""
        positives = defaultdict(list)
        for number, (title, passages) in enumerate(self.articles.items()):
            paired = [p for p in passages if p.use == "paired"]
            count = len(paired) // 10 + (number % 3 == 0)  # one text in eight
            longs = [p for p in passages if p.long][:count]
            positives[self.split[title]] += itertools.combinations(longs + paired, 2)
        return self._balanced("OC", positives, lambda a, b: a.article != b.article)

    def same_section(self) -> Examples:
        """AAN: are two short passages of an article of one section? Splits share no passage."""
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
        """S2ORC: are a short and a mostly long passage of one section, or of two articles?"""
        positives = defaultdict(list)
        for title, passages in self.articles.items():
            paired, mixed = ([p for p in passages if p.use == use] for use in ("paired", "mixed"))
            pairs = itertools.product(paired, mixed)
            positives[self.split[title]] += [(a, b) for a, b in pairs if a.section == b.section]
        return self._balanced(
            "S2ORC", positives, lambda a, b: a.use != b.use and a.article != b.article
        )

    def copied(self) -> tuple[list[Passage], Examples]:
        """PAN: does a text hold an obfuscated copy of a passage? The texts, and the examples.

        Each text borrows from three passages of its article, inside words of another article.
        """
        rng, texts, positives = self._rng("PAN texts"), list[Passage](), defaultdict(list)
        for split in SPLITS:
            titles = [title for title in self.articles if self.split[title] == split]
            for title, host in zip(titles, titles[1:] + titles[:1], strict=True):
                candidates = [passage for passage in self.articles[title] if passage.use == "mixed"]
                for own in self.articles[host][: COPIES * len(candidates) // COPIED]:
                    chosen = shuffled(candidates, rng)[:COPIED]
                    copies = [_obfuscated(passage.text.split(), rng) for passage in chosen]
                    words = own.text.split()
                    before, after = words[:HOST_WORDS], words[HOST_WORDS : 2 * HOST_WORDS]
                    text, text_id = " ".join([*before, *copies, *after]), f"copies/{title}/{own.id}"
                    texts.append(Passage(text_id, text, title, host, True, "copies"))
                    positives[split] += [(texts[-1], passage) for passage in chosen]

        def allowed(a: Passage, b: Passage) -> bool:
            apart = {a.article, a.section}.isdisjoint((b.article, b.section))
            return a.use != b.use and apart

        return texts, self._balanced("PAN", positives, allowed)

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
            told = f"{sections[0].article} holds {len(passages)} of {len(recipe)}"
            raise ValueError(f"build.topic_passages: {told}")
        return passages

    def _article(self, sections: list[Section], recipe: Recipe) -> list[Passage]:
        """The passages of as many sections as are wanted; none if fewer than two suffice."""
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
        """Passages of these lengths and uses as far as the section goes; how many sentences."""
        own = _pattern(word for word in re.findall(r"\w+", section.article) if len(word) >= 4)
        texts = [own.sub(MASK, self._titles.sub(MASK, sentence)) for sentence in section.sentences]
        borders = np.cumsum([0, *gensim_files.tokens(texts)])
        name, passages, start = f"{section.article}/{section.name}", list[Passage](), 0
        while start < len(texts) and len(passages) < len(recipe):
            (least, most), use = recipe[len(passages)]
            stop = int(np.searchsorted(borders, borders[start] + least))
            if stop < len(borders) and borders[stop] - borders[start] <= most:
                text_id, text = f"wiki/{name}/{len(passages):02d}", " ".join(texts[start:stop])
                long = least > SHORT[0]
                passages.append(Passage(text_id, text, section.article, name, long, use))
                start = stop
            else:
                start += 1  # no passage of that length begins with this sentence
        return passages, start

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _balanced(
        self, role: str, positives: dict[str, list], allowed: Callable[[Passage, Passage], bool]
    ) -> Examples:
        rng, examples = self._rng(role), {}
        for split in SPLITS:
            train = split == "train"
            wanted = self.settings.train_pairs if train else self.settings.validation_pairs
            pairs = balance(positives[split], wanted, allowed, rng)
            examples[split] = [((a.id, b.id), label) for (a, b), label in pairs]
        return examples


def _count_words(sections: Iterable[Section]) -> int:
    return sum(len(sentence.split()) for section in sections for sentence in section.sentences)


def balance(
    positives: Sequence[tuple[T, T]],
    wanted: int,
    allowed: Callable[[T, T], bool],
    rng: np.random.Generator,
) -> list[tuple[tuple[T, T], str]]:
    """About `wanted` pairs, half of them positive, in random order, as are their two texts.

    A negative joins the first text of one positive with the second of another, so that nothing can
    be read from one text alone. The few positives whose first text finds no partner that is
    `allowed` are left out.
    """
    drawn = shuffled(positives, rng)[: wanted // 2]
    kept = [pair if rng.random() < 0.5 else pair[::-1] for pair in drawn]
    left = Counter(shuffled([second for _, second in kept], rng))
    examples, joined = list[tuple[tuple[T, T], str]](), set[frozenset[T]]()
    for first, second in kept:
        free = [text for text in left if left[text] and allowed(first, text)]
        if fits := [text for text in free if frozenset((first, text)) not in joined]:
            partner = max(fits, key=left.__getitem__)  # so that hardly a text is left over
            left[partner] -= 1
            joined.add(frozenset((first, partner)))
            examples += [((first, second), YES), ((first, partner), NO)]
    return shuffled(examples, rng)


def shuffled(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    """The values in a random order."""
    return [values[index] for index in rng.permutation(len(values))]


def rated_stories() -> tuple[dict[str, str], dict[str, list[str]]]:
    """WINES: the 50 stories by id, and the ids that people rated above 0.5 of 1 with a story."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    alike = ratings + ratings.T > RELATED  # the file holds each pair once
    lines = gensim_files.lines(gensim_files.STORIES)
    stories = {f"lee/{number:02d}": text for number, text in enumerate(lines)}
    similar = {}
    for story, row in zip(stories, alike, strict=True):
        if any(row):
            similar[story] = list(itertools.compress(stories, row))
    return stories, similar


def _obfuscated(source: list[str], rng: np.random.Generator) -> str:
    """A stretch of words, a fifth lost, neighbours exchanged until no eight in a row are left."""
    length = int(rng.choice(COPY_WORDS))
    stretch = source[int(rng.integers(max(1, len(source) - length))) :][:length]
    while True:
        kept = [word for word in stretch if rng.random() > 0.2]
        # Moves a word by two places at most.
        places = np.arange(len(kept)) + rng.uniform(0, 3, len(kept))
        copy = " ".join(kept[index] for index in np.argsort(places, kind="stable"))
        if not gensim_files.shingles(copy) & gensim_files.shingles(" ".join(stretch)):
            return copy


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Matches any form as whole words; one of four letters and more with an ending ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "s?") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies) or '(?!)'})(?!\w)", re.I)
