"""The published pairs, joined with an archive that the test writes."""

import io
import json
import tarfile
import tracemalloc

import pytest

from lib.news import chapter
from lib.recipes import telegram

PAGE = """<html><head><meta property="og:url" content="{url}"/>
<meta property="og:title" content="Заголовок &amp; {n}"/></head>
<body><article><h1>Заголовок</h1><p>Первый <b>абзац</b> {n}.</p><p>Второй.</p></article>
</body></html>"""


@pytest.fixture
def contest(tmp_path):
    archives, pairs = tmp_path / "archives", tmp_path / "pairs"
    archives.mkdir()
    pairs.mkdir()
    for day in ("0525", "0527", "0529", "0511"):
        urls = [f"https://{day}.ru/{n}?a=1&b=2" for n in range(4)]
        with tarfile.open(archives / f"2020{day}.tar.gz", "w:gz") as tar:
            for n, url in enumerate(urls):
                content = PAGE.format(url=url.replace("&", "&amp;"), n=n).encode()
                member = tarfile.TarInfo(f"20200525/00/{n}.html")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        rows = [("first_url", "second_url", "quality"), (urls[0], urls[1], "OK")]
        rows += [(urls[0], urls[2], "BAD"), (urls[3], "https://gone.ru/1", "OK")]
        if day != "0511":
            text = "".join("\t".join(row) + "\n" for row in rows)
            (pairs / f"ru_clustering_{day}_urls.tsv").write_text(text)
    return archives, pairs, tmp_path / "data" / "telegram"


def test_the_published_pairs_are_joined_by_url(contest):
    archives, pairs, target = contest
    for name in ("._20200525.tar.gz", ".DS_Store"):  # of macOS
        (archives / name).write_bytes(b"\0\5\26\7")
    assert telegram.write_dataset(archives, pairs, target) == ["https://gone.ru/1"]
    assert (target / "missing_urls.txt").read_text() == "https://gone.ru/1\n"
    sides = chapter.read_sides(target / "tasks/pairs", 0.5, 0)
    for side in sides.values():
        assert side.pairs.tolist() == [[0, 1], [0, 2]]
        assert side.positive.tolist() == [True, False] and len(side.texts) == 4
        assert side.events[0] == side.events[1] and len(set(side.events)) == 3 and not side.complete
    assert sides["train"].texts[1] == "Заголовок & 1 Первый абзац 1. Второй."


def test_of_pages_of_one_address_the_annotated_one_is_kept_and_few_are_in_memory(contest):
    archives, pairs, target = contest
    (again := archives / "20200599").mkdir()  # not annotated, and read behind the rest
    urls = ["https://0525.ru/0?a=1&amp;b=2", *(f"https://more.ru/{n // 2}" for n in range(400))]
    for number, url in enumerate(urls):
        page = PAGE.format(url=url, n=number).replace("Второй", "Другой " * 2000)
        (again / f"{number:03d}.html").write_text(page, encoding="utf-8")
    tracemalloc.start()
    telegram.write_dataset(archives, pairs, target)
    assert tracemalloc.get_traced_memory()[1] < 2e6  # all texts are 10 MB
    tracemalloc.stop()
    rows = [json.loads(line) for line in (target / "documents.jsonl").open(encoding="utf-8")]
    kept = {row["id"]: row for row in rows}
    assert len(kept) == len(rows) == 16 + 200
    assert {row["group"] for row in rows} == {"", *chapter.SIDES}
    assert "Другой" not in kept["https://0525.ru/0?a=1&b=2"]["text"]  # that of the annotated day
    assert kept["https://more.ru/7"]["title"] == "Заголовок & 15"  # the first of two


def test_a_bad_pair_names_its_file(contest):
    archives, pairs, target = contest
    file = pairs / "ru_clustering_0527_urls.tsv"
    file.write_text(file.read_text().replace("BAD", "GOOD"))
    with pytest.raises(ValueError, match=f"^{file}: .*GOOD"):
        telegram.write_dataset(archives, pairs, target)
