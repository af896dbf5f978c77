"""The published pairs, joined with the archives of a contest."""

import json
import tracemalloc

import pytest

from docs import telegram
from lib.news import chapter
from tests import thesis_files


@pytest.fixture
def contest(tmp_path):
    return (*thesis_files.telegram_files(tmp_path), tmp_path / "data" / "telegram")


def test_the_published_pairs_are_joined_by_url(contest):
    archives, pairs, target = contest
    for name in ("._20200525.tar.gz", ".DS_Store"):  # of macOS
        (archives / name).write_bytes(b"\0\5\26\7")
    assert telegram.write_dataset(archives, pairs, target) == ["https://gone.ru/1"]
    assert (target / "missing_urls.txt").read_text() == "https://gone.ru/1\n"
    sides = chapter.read_sides(target / "tasks/pairs", 0.5, 0)
    for side in sides.values():
        assert len(side.pairs) == 105 and not side.complete
        assert side.events.tolist() == [number // 4 for number in range(24)]
        assert side.positive.tolist() == [a // 4 == b // 4 for a, b in side.pairs]
    assert sides["train"].texts[1].startswith("Заголовок & 1 Первый абзац 1. ")
    lines = (target / "tasks/pairs/public.jsonl").read_text(encoding="utf-8").splitlines()
    (target / "tasks/pairs/public.jsonl").write_text("\n".join([*lines, lines[0]]))
    with pytest.raises(ValueError, match="public.jsonl: a pair is there twice"):
        chapter.read_sides(target / "tasks/pairs", 0.5, 0)


def test_of_pages_of_one_address_the_annotated_one_is_kept_and_few_are_in_memory(contest):
    archives, pairs, target = contest
    (again := archives / "20200599").mkdir()  # not annotated, and read behind the rest
    urls = ["https://news.ru/20200525/0", *(f"https://more.ru/{n // 2}" for n in range(400))]
    for number, url in enumerate(urls):
        page = thesis_files.PAGE.format(url=url, n=number, text="Другой " * 2000)
        (again / f"{number:03d}.html").write_text(page, encoding="utf-8")
    tracemalloc.start()
    telegram.write_dataset(archives, pairs, target)
    assert tracemalloc.get_traced_memory()[1] < 2e6  # all texts are 10 MB
    tracemalloc.stop()
    rows = [json.loads(line) for line in (target / "documents.jsonl").open(encoding="utf-8")]
    kept = {row["id"]: row for row in rows}
    assert len(kept) == len(rows) == 112 + 200
    assert {row["group"] for row in rows} == {"", *chapter.SIDES}
    annotated = kept["https://news.ru/20200525/0?a=1&b=2"]
    assert "Другой" not in annotated["text"]
    assert kept["https://more.ru/7?a=1&b=2"]["title"] == "Заголовок & 15"  # the first of two


def test_a_bad_pair_names_its_file(contest):
    archives, pairs, target = contest
    file = pairs / "ru_clustering_0527.tsv"
    file.write_text(file.read_text().replace("BAD", "GOOD"))
    with pytest.raises(ValueError, match=f"^{file}: .*GOOD"):
        telegram.write_dataset(archives, pairs, target)
