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

Passages, their splits and what is masked in them: `passages`. Negatives match the positives (`pairs`).
"""

from __future__ import annotations

import itertools
import zlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from lib.data.build.mini import gensim_files, passage_pool
from lib.data.build.mini.pairs import NO, YES, Pair, balanced, both_orders, round_robin
from lib.data.build.mini.passage_pool import Passage
from lib.tasks import SPLITS, Task, classification

RELATED = 0.5  # mean human rating (0 to 1) above which two Lee stories count as similar; 47 of 50 stories have one
# Texts that one task alone uses are few, because every student embeds them: sentences (S2ORC), suspicious texts (PAN).
CONTEXTS = {"train": 120, "validation": 90, "test": 60}
CONTEXT_WORDS = range(10, 41)
SUSPICIOUS = {"train": 20, "validation": 16, "test": 12}  # documents
PARTS, COPIES = 4, 2  # parts of a suspicious document, passages copied into a part
COPY_WORDS, HOST_WORDS = (
    20,
    10,
)  # words of a copied stretch; words of the document's own before the copies, and after them


def load(
    names: Sequence[str],
    *,
    pool_articles: int = 45,
    passage_words: int = 70,
    train_pairs: int = 3000,
    validation_pairs: int = 1000,
    seed: int = 42,
) -> dict[str, Task]:
    """The mini tasks `names`.

    Args:
        names: of ARXIV, IMDB, OC, AAN, S2ORC, PAN, WINES, GAMES.
        pool_articles: articles of the pool, the longest ones.
        passage_words: words of a passage, about.
        train_pairs: at most this many training pairs per pair task.
        validation_pairs: at most this many validation pairs, and test pairs, per pair task.
        seed: of the pool and of all draws; each task draws from a generator of its own, whatever else is loaded.

    Raises:
        ValueError: an unknown name; a pool that the articles cannot fill (`lib.data.build.mini.passage_pool`).
    """
    unknown = [name for name in names if name not in _TASKS]
    if unknown:
        raise ValueError(f"tasks: expected some of {', '.join(_TASKS)}, got {unknown[0]!r}")
    passages = passage_pool.build(pool_articles, passage_words, seed) if {*names} - {"IMDB", "WINES"} else []
    wanted = {"train": train_pairs, "validation": validation_pairs, "test": validation_pairs}
    return {
        name: _TASKS[name](passages, wanted, np.random.default_rng([seed, zlib.crc32(name.encode())])) for name in names
    }


def _arxiv(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    topics = passage_pool.topics(passages)
    examples = {
        split: [((p.id,), p.article) for p in passages if p.split == split and p.article in topics] for split in SPLITS
    }
    return classification("ARXIV", _texts(passages), examples)


def _imdb(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    reviews = gensim_files.reviews()
    texts = {f"review/{number:03d}": text for number, (_, text) in enumerate(reviews)}
    examples = {"train": [((text_id,), label) for text_id, (label, _) in zip(texts, reviews, strict=True)]}
    return classification("IMDB", texts, examples, folds=5)


def _oc(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    article = {p.id: p.article for p in passages}
    examples = {}
    for split in SPLITS:
        groups = [
            list(itertools.combinations([p.id for p in group], 2)) for group in _by_article(passages, split).values()
        ]
        positives = both_orders(round_robin(groups, rng))
        examples[split] = balanced(positives, wanted[split], lambda a, b: article[a] == article[b], rng)
    return classification("OC", _texts(passages), examples)


def _aan(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    by_id = {p.id: p for p in passages}

    def related(one: str, other: str) -> bool:
        a, b = by_id[one], by_id[other]
        return a.article == b.article or bool(a.targets & b.targets)

    examples = {}
    for split in SPLITS:
        here = [p for p in passages if p.split == split]
        linked = [
            (a.id, b.id) for a, b in itertools.combinations(here, 2) if a.article != b.article and a.targets & b.targets
        ]
        examples[split] = balanced(both_orders(round_robin([linked], rng)), wanted[split], related, rng)
    return classification("AAN", _texts(passages), examples)


def _s2orc(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    by_id = {p.id: p for p in passages}
    texts = _texts(passages)
    examples = {}
    for split in SPLITS:
        here = [p for p in passages if p.split == split]
        partners: dict[str, list[Pair]] = {}
        for passage in here:
            for number, sentence in enumerate(passage.sentences):
                if sentence.targets and len(sentence.text.split()) in CONTEXT_WORDS:
                    context = f"{passage.id}/sentence-{number}"
                    found = [p.id for p in here if p.article != passage.article and p.targets & sentence.targets]
                    if found:
                        partners[context] = [(context, other) for other in found]
                        texts[context] = sentence.text
        order = [list(partners)[index] for index in rng.permutation(len(partners))]
        kept = sorted(order, key=lambda context: -len(partners[context]))[: CONTEXTS[split]]

        def related(one: str, other: str) -> bool:  # either side may be the context, since both orders occur
            a, b = by_id[one.split("/sentence")[0]], by_id[other.split("/sentence")[0]]
            return (one in by_id) == (other in by_id) or a.article == b.article or bool(a.targets & b.targets)

        positives = both_orders(round_robin([partners[context] for context in kept], rng))
        examples[split] = balanced(positives, wanted[split], related, rng)
    return classification("S2ORC", texts, examples)


def _pan(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    """Suspicious documents have four parts; each part copies two passages of an article into words of its own.

    A positive is a part and a passage it copies, a negative the same passage and the next part of the document, which
    copies from another article. So every part and every passage is in as many negatives as positives.
    """
    texts = _texts(passages)
    examples = {}
    for split in SPLITS:
        groups = _by_article(passages, split)
        pairs: list[tuple[Pair, str]] = []
        titles: list[str] = []
        for document in range(SUSPICIOUS[split]):
            if len(titles) < PARTS + 1:
                titles = [list(groups)[index] for index in rng.permutation(len(groups))]
            host, *copied = (titles.pop() for _ in range(PARTS + 1))
            parts = [f"suspicious/{split}-{document}/{part}" for part in range(PARTS)]
            for part, article in enumerate(copied):
                sources = [groups[article][index] for index in rng.permutation(len(groups[article]))[:COPIES]]
                own = groups[host][rng.integers(len(groups[host]))]
                texts[parts[part]] = _suspicious(sources, own, rng)
                for passage in sources:
                    for other, label in ((parts[part], YES), (parts[(part + 1) % PARTS], NO)):
                        pairs += [((other, passage.id), label), ((passage.id, other), label)]
        pairs = pairs[: wanted[split] // 4 * 4]
        examples[split] = [pairs[index] for index in rng.permutation(len(pairs))]
    return classification("PAN", texts, examples)


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


def _wines(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    """Relevant: stories that people rated above 0.5 of 1 with the source; without any, a story is candidate only."""
    ratings = np.triu(np.loadtxt(gensim_files.path(gensim_files.RATINGS)), 1)
    ratings = ratings + ratings.T  # the file holds each pair once
    ids = [f"lee/{number:02d}" for number in range(len(ratings))]
    relevant = {ids[row]: [ids[column] for column in np.flatnonzero(ratings[row] > RELATED)] for row in range(len(ids))}
    sources = {source: targets for source, targets in relevant.items() if targets}
    note = (
        f"{len(ids) - len(sources)} of {len(ids)} stories have no story rated above {RELATED} and are candidates only"
    )
    return Task(
        "WINES", "retrieval", dict(zip(ids, gensim_files.stories(), strict=True)), relevant=sources, notes=(note,)
    )


def _games(passages: list[Passage], wanted: dict[str, int], rng: np.random.Generator) -> Task:
    same: dict[str, list[str]] = defaultdict(list)
    for passage in passages:
        same[passage.article].append(passage.id)
    relevant = {p.id: [other for other in same[p.article] if other != p.id] for p in passages if p.split == "test"}
    return Task("GAMES", "retrieval", _texts(passages), relevant=relevant)


_TASKS = {
    "ARXIV": _arxiv,
    "IMDB": _imdb,
    "OC": _oc,
    "AAN": _aan,
    "S2ORC": _s2orc,
    "PAN": _pan,
    "WINES": _wines,
    "GAMES": _games,
}


def _texts(passages: list[Passage]) -> dict[str, str]:
    return {passage.id: passage.text for passage in passages}


def _by_article(passages: list[Passage], split: str) -> dict[str, list[Passage]]:
    groups: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        if passage.split == split:
            groups[passage.article].append(passage)
    return dict(groups)
