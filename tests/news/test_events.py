"""Documents and events: sides, pairs, triplets, and windows to distil on."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from lib.data.dataset_folder import Documents
from lib.data.files import write_lines
from lib.experiments.bench import Bench
from lib.news import chapter
from lib.news.chapter import News, Side
from lib.recipes import gensim_files

NOTHING = Side((), (), np.zeros((0, 2), int), np.zeros(0, bool), np.zeros(0, int), True)


def write_folder(root, documents, **files):
    """A folder `own` with a task `events`, which has these files."""
    write_lines(root / "own/documents.jsonl", documents)
    for name, rows in files.items():
        write_lines(root / f"own/tasks/events/{name}.jsonl", rows)
    return root / "own/tasks/events"


def write_topics(root, topics, count, named=2):
    """A folder with so many documents of each topic, in turn of so many events."""
    places = [(topic, number) for topic in topics for number in range(count)]
    rows = [{"id": f"{topic}_{n}", "text": f"text {topic} {n}"} for topic, n in places]
    clusters = [{"id": f"{topic}_{n}", "label": f"{topic}_{n % named}"} for topic, n in places]
    return write_folder(root, rows, clusters=clusters)


def test_nothing_of_a_tested_story_is_distilled_on():
    mini, stories = News(Bench.load("mini")), gensim_files.list_stories()
    groups = [set(side.groups) for side in mini.sides.values()]
    assert sum(map(len, groups)) == len(set.union(*groups)) == len(stories), "no story is shared"
    assert len(mini.windows) == 11 * mini.profile.news.documents // 10 == len(set(mini.windows))
    distilled = set().union(*(gensim_files.shingles(text) for text in mini.windows))
    shares = []
    for story in groups[1] | groups[2]:
        own = gensim_files.shingles(" ".join(stories[story]))
        shares.append(len(own & distilled) / len(own))
    # Six stories repeat a sentence or two of a story on another side.
    assert max(shares) < 0.05 and np.count_nonzero(shares) <= 6
    assert mini.sides["public"].positive.mean() == pytest.approx(0.46, abs=0.002)


def test_topics_are_dealt_to_the_sides_and_pairs_stay_within_them(tmp_path):
    task = write_topics(tmp_path, (1, 2, 3, 10), 6)
    sides = chapter.read_sides(task, 0.5, 42)
    assert [len(side.texts) for side in sides.values()] == [12, 6, 6]  # topics 1 and 10, 2, 3
    for side in sides.values():
        topics = np.array([text.split()[1] for text in side.texts])
        assert np.equal(*topics[side.pairs.T]).all() and side.positive.mean() == 0.5


@pytest.mark.parametrize("named", [1, 4])
def test_events_that_cannot_be_scored(tmp_path, named):
    with pytest.raises(ValueError, match="needs positive and negative pairs"):
        chapter.read_sides(write_topics(tmp_path, (1, 2, 3), 4, named), 0.5, 42)


def test_a_side_of_pairs_joins_what_positive_pairs_connect(tmp_path):
    answers = ((0, 1, "yes"), (0, 2, "no"), (1, 3, "yes"))
    rows, files = [], {}
    for side in chapter.SIDES:
        rows += [{"id": f"{side}{n}", "text": f"text {n}", "group": side} for n in range(4)]
        files[side] = [{"a": f"{side}{a}", "b": f"{side}{b}", "label": c} for a, b, c in answers]
    for side in chapter.read_sides(write_folder(tmp_path, rows, **files), 0.5, 42).values():
        assert side.pairs.tolist() == [[0, 1], [0, 2], [1, 3]] and not side.complete
        assert side.positive.tolist() == [True, False, True]
        assert (side.events == side.events[0]).tolist() == [True, True, False, True]


def test_windows_are_words_of_their_documents(tmp_path):
    """All of them, and once: a last one from half the words on, or if it is the whole document."""
    words = [f"w{n}" for n in range(25)]
    rows = [{"id": f"{n}", "text": "  ".join(words[:n]) + "\n"} for n in (3, 4, 7, 9, 13, 14, 23)]
    others = {"blank": " ", "no token": " ".join(9 * ["\u200b"] + words[:9])}
    others["tested"] = " ".join(words[:7]) + " "
    rows += [{"id": name, "text": text} for name, text in others.items()]
    rows.append({"id": "group", "text": " ".join(words[5:14]), "group": "story"})
    write_folder(tmp_path, rows)
    public = replace(NOTHING, texts=(rows[2]["text"], "else"), groups=("story", ""))
    given = [Documents(tmp_path / "own")], {"public": public, "private": NOTHING}
    drawn = chapter.draw_windows(*given, words=9, count=10, seed=42)
    expected = [words[:3], words[:4], *5 * [words[:9]]]
    expected += [words[9:14], words[9:18], words[18:23]]  # not words[9:13], of 13
    assert len(drawn) == 10 and sorted(drawn) == sorted(" ".join(part) for part in expected)
    assert sorted(drawn) != [*drawn] == [*pickle.loads(pickle.dumps(drawn))]
    with pytest.raises(ValueError, match="windows of 10 words, 1100 are wanted"):
        chapter.draw_windows(*given, words=10, count=1100, seed=42)


def test_triplets_of_pairs():
    pairs = np.array([[0, 1], [0, 2], [0, 3], [4, 3], [5, 6]])
    positive = np.array([True, True, False, False, True])
    side = Side(("",) * 7, ("",) * 7, pairs, positive, np.zeros(7, int), False)
    rows = chapter.draw_triplets(side, seed=0).tolist()
    # 0 has two positives and one negative, 3 and 4 are their own, the others have no negative.
    assert [row[:2] for row in rows] == [[0, 1], [0, 2], [3, 3], [4, 4]]
    assert [row[2] for row in rows[:2]] == [3, 3] and rows[2][2] in (0, 4) and rows[3][2] == 3
