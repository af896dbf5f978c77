"""Events: sides, pairs, triplets, and windows to distil on."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

from lib import texts as lib_texts
from lib.config import profiles
from lib.data.builders.mini import gensim_files
from lib.data.dataset_folder import Documents
from lib.experiments.bench import Bench
from lib.news import events, reports
from lib.news.bench import NewsBench

SEED = profiles.load("mini").corpus.seed


@pytest.fixture(scope="module")
def mini():
    return NewsBench(Bench.load("mini"))


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))


def read(task, positives=0.5):
    return events.read_sides(task, positives, SEED)


def folder(tmp_path, rows, clusters):
    tasks = tmp_path / "own" / "tasks" / "events"
    tasks.mkdir(parents=True)
    (tmp_path / "own" / "documents.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows)
    )
    (tasks / "clusters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in clusters))


def test_minis_sides_have_the_promised_numbers(mini):
    for side in mini.sides.values():
        assert 225 <= len(side.texts) <= 245 and 210 <= side.positive.sum() <= 240
        assert side.positive.mean() == pytest.approx(0.46, abs=0.002)
        assert 90 <= len(set(side.events)) <= 100 and side.complete
        assert (np.sort(side.pairs) == side.pairs).all()
        assert len({*map(tuple, side.pairs)}) == len(side.pairs)
        assert (
            side.positive == (side.events[side.pairs[:, 0]] == side.events[side.pairs[:, 1]])
        ).all()


def test_no_story_is_on_two_sides(mini):
    groups = [set(side.groups) for side in mini.sides.values()]
    assert not groups[0] & groups[1] and not groups[0] & groups[2] and not groups[1] & groups[2]
    assert sum(map(len, groups)) == len(reports.list_stories())


def test_nothing_of_a_tested_story_is_distilled_on(mini):
    texts = mini.texts["distilled"]
    assert len(texts) == 11 * mini.profile.news.documents // 10 == len(set(texts))
    distilled = set().union(*(gensim_files.shingles(text) for text in texts))
    stories = reports.list_stories()
    for name, side in mini.sides.items():
        runs = [gensim_files.shingles(" ".join(stories[group])) for group in set(side.groups)]
        shares = np.array([len(own & distilled) / len(own) for own in runs])
        if name == "train":
            assert (shares > 0.2).mean() > 0.9
        else:  # six stories repeat a sentence or two of a story on another side
            assert shares.max() < 0.05 and (shares > 0).sum() <= 3


def test_the_pairs_repeat(mini):
    again = NewsBench(mini.bench).sides
    assert all((again[name].pairs == side.pairs).all() for name, side in mini.sides.items())


def test_topics_are_dealt_to_the_sides_and_pairs_stay_within_them(tmp_path):
    rows = [
        {"id": f"{topic}_{n}", "text": f"text {topic} {n}"}
        for topic in (1, 2, 3, 10)
        for n in range(6)
    ]
    folder(
        tmp_path,
        rows,
        [{"id": row["id"], "label": f"{row['id'][:-2]}_{row['id'][-1] in '012'}"} for row in rows],
    )
    sides = read(tmp_path / "own/tasks/events")
    assert [len(side.texts) for side in sides.values()] == [12, 6, 6]  # topics 1 and 10, 2, 3
    for side in sides.values():
        topics = np.array([text.split()[1] for text in side.texts])
        assert (topics[side.pairs[:, 0]] == topics[side.pairs[:, 1]]).all()
        assert side.positive.mean() == 0.5


def test_gold_that_cannot_be(tmp_path):
    rows = [{"id": f"{topic}{n}", "text": f"text {topic} {n}"} for topic in "abc" for n in range(2)]
    clusters = [{"id": row["id"], "label": f"{row['id'][0]}_x"} for row in rows]
    folder(tmp_path, rows, clusters)
    gold = tmp_path / "own/tasks/events"
    with pytest.raises(ValueError, match="the side train has no negative pair"):
        read(gold)
    task = tmp_path / "own/tasks/events/clusters.jsonl"
    task.write_text(
        "".join(
            json.dumps(row | {"label": f"{row['id'][0]}_{row['id']}"}) + "\n" for row in clusters
        )
    )
    with pytest.raises(ValueError, match="the side train has no positive pair"):
        read(gold)
    task.write_text(task.read_text().replace('"a0"', '"z9"', 1))
    with pytest.raises(ValueError, match="id 'z9' is no document of this folder"):
        read(gold)
    task.write_text("".join(json.dumps(row) + "\n" for row in clusters[:4]))
    with pytest.raises(
        ValueError, match="no event of the side private|expected at least three topics"
    ):
        read(gold)


def test_a_document_without_words_is_left_out_and_said(tmp_path):
    rows = [
        {"id": f"{topic}_{n}", "text": f"text {topic} {n}"} for topic in (1, 2, 3) for n in range(5)
    ]
    rows[0]["text"] = " "
    folder(
        tmp_path,
        rows,
        [{"id": row["id"], "label": f"{row['id'][:-2]}_{row['id'][-1] in '012'}"} for row in rows],
    )
    with pytest.warns(UserWarning, match="own/tasks/events: .*1"):
        sides = read(tmp_path / "own/tasks/events")
    assert [len(side.texts) for side in sides.values()] == [4, 5, 5]


def test_a_document_without_words_costs_its_pairs_and_is_said(tmp_path):
    sides = [(side, f"{side}{n}") for side in events.SIDES for n in range(4)]
    rows = [{"id": name, "text": f"text {name}", "group": side} for side, name in sides]
    rows[3]["text"] = "\u200b"
    folder(tmp_path, rows, [])
    (tmp_path / "own/tasks/events/clusters.jsonl").unlink()
    for side in events.SIDES:
        ends = [(0, 1, "yes"), (0, 2, "no"), (0, 3, "yes")]
        pairs = [{"a": f"{side}{a}", "b": f"{side}{b}", "label": label} for a, b, label in ends]
        lines = "".join(json.dumps(row) + "\n" for row in pairs)
        (tmp_path / f"own/tasks/events/{side}.jsonl").write_text(lines)
    with pytest.warns(UserWarning, match="own/tasks/events: train: .*1"):
        sides = read(tmp_path / "own/tasks/events")
    assert [len(side.texts) for side in sides.values()] == [3, 4, 4]
    assert [side.pairs.tolist() for side in sides.values()][:2] == [
        [[0, 1], [0, 2]],
        [[0, 1], [0, 2], [0, 3]],
    ]


NOTHING = events.Side((), (), np.zeros((0, 2), int), np.zeros(0, bool), np.zeros(0, int), True)


def draw(place, sides, words, documents):
    settings = {"words": words, "documents": documents, "seed": SEED}
    rows = events.draw_windows([Documents(place)], sides, **settings)
    return events.Windows((place,), rows)


def test_too_few_windows_say_how_many_there_are(tmp_path):
    folder(tmp_path, [{"id": "a", "text": "word " * 90}], [])
    with pytest.raises(ValueError, match="hold 9 windows of 10 words, 1100 are wanted"):
        draw(tmp_path / "own", dict.fromkeys(events.SIDES, NOTHING), 10, 1000)


def test_windows_are_words_of_their_documents(tmp_path):
    """All of them, and once: a last one from half the words on, or if it is the whole document."""
    words = [f"w{n}" for n in range(25)]
    rows = [{"id": f"{n}", "text": "  ".join(words[:n]) + "\n"} for n in (3, 4, 7, 9, 13, 14, 23)]
    rows += [
        {"id": "blank", "text": " "},
        {"id": "no token", "text": " ".join(9 * ["\u200b"] + words[:9])},
        {"id": "tested", "text": " ".join(words[:7]) + " "},
    ]
    folder(tmp_path, rows, [])
    sides = dict.fromkeys(events.SIDES, NOTHING)
    sides["public"] = replace(NOTHING, texts=(rows[2]["text"], "else"))
    drawn = draw(tmp_path / "own", sides, words=9, documents=9)
    expected = [words[:3], words[:4], *5 * [words[:9]]]
    expected += [words[9:14], words[9:18], words[18:23]]  # not words[9:13], of 13
    assert sorted(drawn) == sorted(" ".join(part) for part in expected) != [*drawn]
    assert [*drawn[2:4]] == [drawn[2], drawn[3]]
    again = pickle.loads(pickle.dumps(drawn))
    assert "folders" not in vars(again) and [*again] == [*drawn]


def test_windows_hold_as_many_words_in_a_script_without_spaces(tmp_path):
    text = "北京市政府今天宣布新的交通计划将在明年开始实施" * 16
    folder(tmp_path, [{"id": "a", "text": text}], [])
    drawn = draw(tmp_path / "own", dict.fromkeys(events.SIDES, NOTHING), 16, 20)
    assert {*map(len, drawn)} == {16} and all(window in text for window in drawn)


def test_a_long_document_costs_no_more_for_each_of_its_windows(tmp_path, monkeypatch):
    """With 10^6 words counted anew for each window, one reading took half an hour."""
    folder(tmp_path, [{"id": "book", "text": "word " * 10_000}], [])
    split, read = lib_texts.split_words, list[int]()

    def note_length(text):
        read.append(len(text))
        return split(text)

    for module in (events, lib_texts):
        monkeypatch.setattr(module, "split_words", note_length)
    drawn = draw(tmp_path / "own", dict.fromkeys(events.SIDES, NOTHING), 16, 500)
    assert {*drawn} == {" ".join(16 * ["word"])} and len(drawn) == 550
    assert sum(read) <= 2 * 50_000


def test_triplets_of_pairs():
    pairs = np.array([[0, 1], [0, 2], [0, 3], [4, 3], [5, 6]])
    positive = np.array([True, True, False, False, True])
    side = events.Side(("",) * 7, ("",) * 7, pairs, positive, np.zeros(7, int), False)
    rows = events.draw_triplets(side, seed=0).tolist()
    # 0 has two positives and one negative, 3 and 4 are their own, the others have no negative.
    assert [row[:2] for row in rows] == [[0, 1], [0, 2], [3, 3], [4, 4]]
    assert [row[2] for row in rows[:2]] == [3, 3] and rows[2][2] in (0, 4) and rows[3][2] == 3


def test_every_mini_report_is_of_its_storys_sentences(tmp_path):
    written = reports.write_reports(0, tmp_path) / "documents.jsonl"
    rows = [json.loads(line) for line in written.open(encoding="utf-8")]
    for name, sentences in reports.list_stories().items():
        texts = [row["text"] for row in rows if row["group"] == name]
        assert len(texts) == min(4, max(1, len(sentences) // 3))
        assert sorted(" ".join(sentences).split()) == sorted(" ".join(texts).split())
    assert "Source: " in (written.parent / "README.md").read_text(encoding="utf-8")
