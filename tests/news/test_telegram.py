"""The published pairs, joined with an archive that the test writes."""

import io
import json
import tarfile
import tracemalloc

import pytest

from lib.data.dataset_folder import Documents
from lib.news import events, telegram


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))


PAGE = """<html><head><meta property="og:url" content="{url}"/>
<meta property="og:title" content="Заголовок &amp; {n}"/></head>
<body><article><h1>Заголовок</h1><p>Первый <b>абзац</b> {n}.</p><p>Второй.</p></article>
</body></html>"""


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
    sides = events.read_sides(target / "tasks/pairs", 0.5, 0)
    for side in sides.values():
        assert side.pairs.tolist() == [[0, 1], [0, 2]]
        assert side.positive.tolist() == [True, False] and len(side.texts) == 4
        assert side.events[0] == side.events[1] and len(set(side.events)) == 3 and not side.complete
    assert sides["train"].texts[1] == "Заголовок & 1 Первый абзац 1. Второй."
    settings = {"words": 24, "documents": 3, "seed": 0}
    with pytest.raises(ValueError, match="wanted"):  # no text of a tested day is distilled on
        events.draw_windows([Documents(target)], sides, **settings)


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
    assert len(kept) == len(rows) == 16 + 200
    assert {row["group"] for row in rows} == {"", *events.SIDES}
    assert "Другой" not in kept["https://0525.ru/0?a=1&b=2"]["text"]  # that of the annotated day
    assert kept["https://more.ru/7"]["title"] == "Заголовок & 15"  # the first of two
    assert len([*target.iterdir()]) == 4  # no file of all pages stays


def test_a_day_without_an_archive_is_counted(contest):
    archives, pairs, target = contest
    (archives / "20200527.tar.gz").unlink()
    missing = telegram.write_dataset(archives, pairs, target)
    assert len(missing) == 5  # of that day, and the one that is nowhere


def test_what_is_not_read_is_named_and_pages_that_are_left_out_are_counted(contest):
    archives, pairs, target = contest
    for name in ("._20200525.tar.gz", ".DS_Store"):
        (archives / name).write_bytes(b"\0\5\26\7")
    (archives / "20200530").mkdir()
    for name in ("blank.html", "._0.html"):
        (archives / "20200530" / name).write_text("<p>no address</p>")
    telegram.write_dataset(archives, pairs, target)
    told = (target / "README.md").read_text()
    assert "of 17 pages left out 1 without an address or a text and 0 of" in told
    (archives / "20200531.zip").write_bytes(b"PK")
    with pytest.warns(UserWarning, match="archives: not read: 20200531.zip"):
        telegram.write_dataset(archives, pairs, target)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"first_url\tsecond_url\tquality\na\tb\tMAYBE\n", "0525_urls.tsv:2: .*'MAYBE'"),
        (b"first_url\tsecond_url\tquality\n", "0525_urls.tsv: expected pairs"),
        (b"first_url\tsecond_url\tquality\n\xff\tb\tOK\n", "0525_urls.tsv: not UTF-8"),
        (None, "ru_clustering_0525"),
    ],
)
def test_pairs_that_cannot_be_read(content, told, contest):
    archives, pairs, target = contest
    file = pairs / "ru_clustering_0525_urls.tsv"
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=told):
        telegram.write_dataset(archives, pairs, target)


def test_a_folder_without_archives(contest):
    _, pairs, _ = contest
    for place in (pairs, pairs / "nowhere"):
        with pytest.raises(ValueError, match=f"{place.name}: expected .tar.gz archives"):
            list(telegram.read_pages(place))


def test_no_flipped_bit_and_no_cut_of_an_archive_goes_unseen(contest):
    archives, _, _ = contest
    damaged = archives / "20200527.tar.gz"
    content = damaged.read_bytes()
    assert len(list(telegram.read_pages(archives))) == 16
    first = content.index(b"\0", 10) + 1  # behind gzip's header: its time and name do not count
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
    head = '<META content="A &amp; B" property="og:title">'
    head += '<meta property="og:url" content="https://a.ru">'
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
        ({"a": [good["a"]]}, "Input should be a valid string"),
        ({"label": ["yes"]}, "label yes or no"),
    ):
        file.write_text(json.dumps(good | wrong) + "\n")
        with pytest.raises(ValueError, match=f"public.jsonl:1: .*{told}"):
            events.read_sides(target / "tasks/pairs", 0.5, 0)
    file.unlink()
    with pytest.raises(ValueError, match=r"public.jsonl is missing"):
        events.read_sides(target / "tasks/pairs", 0.5, 0)
