"""Events: sides, pairs, what is distilled on; and the published pairs joined with an archive that the test writes."""

import io
import json
import pickle
import tarfile
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from lib.config import profiles
from lib.data.builders.mini import gensim_files
from lib.data.dataset_folder import Documents
from lib.experiments.bench import Bench
from lib.news import events, reports, telegram
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
        assert (np.sort(side.pairs) == side.pairs).all() and len({*map(tuple, side.pairs)}) == len(
            side.pairs
        )
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
        else:  # six stories repeat a sentence or two of a story on another side, which they were filed beside
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


def test_a_long_document_costs_no_more_for_each_of_its_windows(tmp_path):
    """With 10^6 words counted anew for each window, one reading took half an hour."""
    folder(tmp_path, [{"id": "book", "text": "word " * 10**6}], [])
    began = time.process_time()
    drawn = draw(tmp_path / "own", dict.fromkeys(events.SIDES, NOTHING), 16, 1000)
    assert {*drawn} == {" ".join(16 * ["word"])} and len(drawn) == 1100
    assert time.process_time() - began < 60


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


PAGE = """<html><head><meta property="og:url" content="{url}"/><meta property="og:title" content="Заголовок &amp; {n}"/>
<meta property="article:published_time" content="2020-05-25T10:00:00+00:00"/></head>
<body><article><h1>Заголовок</h1><p>Первый <b>абзац</b> {n}.</p><p>Второй.</p></article></body></html>"""


def archive(path, urls):
    with tarfile.open(path, "w:gz") as tar:
        for n, url in enumerate(urls):
            content = PAGE.format(url=url, n=n).encode()
            member = tarfile.TarInfo(f"20200525/00/{n}.html")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


@pytest.fixture
def contest(tmp_path):
    archives, pairs = tmp_path / "archives", tmp_path / "pairs"
    archives.mkdir()
    pairs.mkdir()
    for day in ("0525", "0527", "0529", "0511"):
        archive(
            archives / f"2020{day}.tar.gz", [f"https://{day}.ru/{n}?a=1&amp;b=2" for n in range(4)]
        )
        url = f"https://{day}.ru/{{}}?a=1&b=2".format
        rows = [
            (url(0), url(1), "OK"),
            (url(0), url(2), "BAD"),
            (url(3), "https://gone.ru/1", "OK"),
        ]
        text = "".join(
            "\t".join(row) + "\n" for row in [("first_url", "second_url", "quality"), *rows]
        )
        if day != "0511":
            (pairs / f"ru_clustering_{day}_urls.tsv").write_text(text)
    return archives, pairs, tmp_path / "data" / "telegram"


def test_the_published_pairs_are_joined_by_url(contest):
    archives, pairs, target = contest
    assert telegram.write_dataset(archives, pairs, target) == ["https://gone.ru/1"]
    assert (target / "missing_urls.txt").read_text() == "https://gone.ru/1\n"
    assert "train: 2 of 3 pairs" in (target / "README.md").read_text()
    sides = read(target / "tasks/pairs")
    for side in sides.values():
        assert (
            len(side.texts) == 4
            and side.pairs.tolist() == [[0, 1], [0, 2]]
            and side.positive.tolist() == [True, False]
        )
        assert side.events[0] == side.events[1] and len(set(side.events)) == 3 and not side.complete
    assert sides["train"].texts[1] == "Заголовок & 1 Первый абзац 1. Второй."
    with pytest.raises(
        ValueError, match="wanted"
    ):  # every text of the public and private days is left out, here all
        draw(target, sides, words=24, documents=3)


def test_of_pages_of_one_address_the_annotated_one_is_kept_and_few_are_in_memory(contest):
    archives, pairs, target = contest
    again = archives / "20200599"  # not annotated, and read behind the rest
    again.mkdir()
    for number, url in enumerate(
        ["https://0525.ru/0?a=1&amp;b=2", *(f"https://more.ru/{n // 2}" for n in range(400))]
    ):
        page = PAGE.format(url=url, n=number).replace("Второй", "Другой " * 2000)
        (again / f"{number:03d}.html").write_text(page, encoding="utf-8")
    tracemalloc.start()
    telegram.write_dataset(archives, pairs, target)
    assert tracemalloc.get_traced_memory()[1] < 2e6  # all texts are 10 MB
    tracemalloc.stop()
    rows = [json.loads(line) for line in (target / "documents.jsonl").open(encoding="utf-8")]
    kept = {row["id"]: row for row in rows}
    assert len(kept) == len(rows) == 16 + 200 and {row["group"] for row in rows} == {
        "",
        *events.SIDES,
    }
    assert "Другой" not in kept["https://0525.ru/0?a=1&b=2"]["text"]  # that of the annotated day
    assert kept["https://more.ru/7"]["title"] == "Заголовок & 15"  # the first of two
    assert {path.name for path in target.iterdir()} == {
        "documents.jsonl",
        "README.md",
        "missing_urls.txt",
        "tasks",
    }


def test_a_damaged_archive_and_other_bad_files(contest):
    archives, pairs, target = contest
    damaged = archives / "20200527.tar.gz"
    damaged.write_bytes(damaged.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"20200527.tar.gz: the archive is cut off or damaged"):
        telegram.write_dataset(archives, pairs, target)
    damaged.unlink()
    missing = telegram.write_dataset(archives, pairs, target)
    assert (
        len(missing) == 5
    )  # of the absent day, and the one that is nowhere: counted, not dropped in silence
    (pairs / "ru_clustering_0525_urls.tsv").write_text(
        "first_url\tsecond_url\tquality\na\tb\tMAYBE\n"
    )
    with pytest.raises(
        ValueError, match=r"0525_urls.tsv:2: expected two URLs and OK or BAD, got 'MAYBE'"
    ):
        telegram.write_dataset(archives, pairs, target)
    (pairs / "ru_clustering_0525_urls.tsv").write_text("first_url\tsecond_url\tquality\n")
    with pytest.raises(
        ValueError, match="0525_urls.tsv: expected pairs below a line of names, found none"
    ):
        telegram.write_dataset(archives, pairs, target)
    (pairs / "ru_clustering_0525_urls.tsv").write_bytes(
        b"first_url\tsecond_url\tquality\n\xff\tb\tOK\n"
    )
    with pytest.raises(ValueError, match="0525_urls.tsv: not UTF-8"):
        telegram.write_dataset(archives, pairs, target)
    (pairs / "ru_clustering_0525_urls.tsv").unlink()
    with pytest.raises(ValueError, match="expected ru_clustering_0525"):
        telegram.write_dataset(archives, pairs, target)
    with pytest.raises(ValueError, match="expected .tar.gz archives .* found none"):
        telegram.write_dataset(pairs, pairs, target)
    with pytest.raises(ValueError, match="nowhere: expected .tar.gz archives"):
        telegram.write_dataset(archives / "nowhere", pairs, target)


def test_no_flipped_bit_and_no_cut_of_an_archive_goes_unseen(contest):
    archives, _, _ = contest
    damaged = archives / "20200527.tar.gz"
    content = damaged.read_bytes()
    assert len(list(telegram.read_pages(archives))) == 16
    first = (
        content.index(b"\0", 10) + 1
    )  # behind gzip's header, whose time and name say nothing about the pages
    for place in range(first, len(content), 3):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match="20200527.tar.gz: the archive is cut off or damaged"):
            list(telegram.read_pages(archives))
    for end in (len(content) - 1, len(content) - 9, len(content) // 2, 5, 0):
        damaged.write_bytes(content[:end])
        with pytest.raises(ValueError, match="20200527.tar.gz: the archive is cut off or damaged"):
            list(telegram.read_pages(archives))


def test_a_page_whose_address_is_no_utf8_is_read():
    content = PAGE.format(url="https://a.ru", n=1).encode().replace(b"a.ru", b"a\xff.ru")
    assert telegram.parse_page(content)[0] == "https://a\ufffd.ru"


def test_paragraphs_that_nothing_closes_stay_apart_and_what_stands_between_is_left_out():
    head = '<META content="A &amp; B" property="og:title"><meta property="og:url" content="https://a.ru">'
    body = "<p>One<p>two</p>no text<p>th<b>ree</b>"
    assert telegram.parse_page((head + body).encode()) == ("https://a.ru", "A & B", "One two three")
    assert telegram.parse_page(body.encode()) is None and telegram.parse_page(head.encode()) is None


def test_pair_files_name_documents_of_their_side(contest):
    archives, pairs, target = contest
    telegram.write_dataset(archives, pairs, target)
    file = target / "tasks/pairs/public.jsonl"
    good = {"a": "https://0527.ru/0?a=1&b=2", "b": "https://0527.ru/1?a=1&b=2", "label": "yes"}
    for wrong, told in (
        ({"b": "https://0529.ru/1?a=1&b=2"}, "0529.ru/1.* is no document of the side public"),
        ({"label": "maybe"}, "got 'maybe'"),
        ({"a": [good["a"]]}, "is no document"),
        ({"label": ["yes"]}, "label yes or no"),
    ):
        file.write_text(json.dumps(good | wrong) + "\n")
        with pytest.raises(ValueError, match=f"public.jsonl:1: .*{told}"):
            read(target / "tasks/pairs")
    file.unlink()
    with pytest.raises(ValueError, match=r"public.jsonl is missing"):
        read(target / "tasks/pairs")
