"""The published news pairs as a dataset folder: the shared task's URLs and the contest's pages.

    write_dataset(archives, pairs, folder)

`archives` is a folder of the Telegram contest's `.tar.gz` files, or of unpacked folders, with one
HTML page per document; the name holds month and day in four digits (`20200525.tar.gz`). `pairs` is
a folder with `ru_clustering_<day>*.tsv` from the organisers' repository, with the columns
first_url, second_url and quality (OK or BAD). Documents of the three annotated days have their side
as group; those of other days are the texts to distil on.
"""

import csv
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from lib.data.archives import open_archive
from lib.data.builders.writing import write_lines

DAYS = {"0525": "train", "0527": "public", "0529": "private"}
_LABELS = {"OK": "yes", "BAD": "no"}


class _Page(HTMLParser):
    """The properties of a page, in `<meta property=...>`, and its paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.properties = dict[str | None, str | None]()
        self.inside = False
        self.words = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "meta":
            self.properties.setdefault(values.get("property"), values.get("content"))
        if tag == "p":  # a new paragraph ends the last one, even if that was not closed
            self.inside = True
            self.words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.words.append(data)


def parse_page(content: bytes) -> tuple[str, str, str] | None:
    """URL, title and text of a page; None if it names no URL or has no text."""
    parser = _Page()
    parser.feed(content.decode("utf-8", errors="replace"))
    url, title = (parser.properties.get(f"og:{name}") or "" for name in ("url", "title"))
    text = " ".join("".join(parser.words).split())
    return (url, title, text) if url and text else None


def read_pages(archives: Path) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """(side, (URL, title, text)) of every HTML page that has an address and a text."""
    for place in sorted(archives.glob("[!.]*")):  # macOS adds `._20200525.tar.gz` to an archive
        side = next((DAYS[day] for day in DAYS if day in place.name), "")
        for content in _read_contents(place):
            if page := parse_page(content):
                yield side, page


def _read_contents(place: Path) -> Iterator[bytes]:
    if place.is_dir():
        yield from (path.read_bytes() for path in sorted(place.rglob("[!.]*.html")))
    elif place.name.endswith((".tar.gz", ".tgz")):
        with open_archive(place) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".html"):
                    yield archive.extractfile(member).read()


def read_annotations(pairs: Path, day: str) -> list[dict[str, str]]:
    rows, file = [], sorted(pairs.glob(f"ru_clustering_{day}*.tsv"))[-1]  # the corrected version
    lines = file.read_text(encoding="utf-8").split("\n")
    reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    for number, values in enumerate(reader, start=2):
        a, b, quality = (values.get(name) for name in ("first_url", "second_url", "quality"))
        if quality not in _LABELS or not (a and b):
            raise ValueError(f"{file}:{number}: expected two URLs and OK or BAD, got {quality!r}")
        rows.append({"a": a, "b": b, "label": _LABELS[quality]})
    return rows


def write_dataset(archives: Path, pairs: Path, folder: Path) -> list[str]:
    """Write the dataset folder. Pages are read twice, because all of them may not fit in memory.

    If a URL has several pages, the first is taken; a page of an annotated day goes before others.
    Pairs of URLs that are missing from the archives of their day are left out. Returns these URLs,
    which `missing_urls.txt` lists.
    """
    chosen: dict[str, tuple[int, str]] = {}  # URL -> number of its page, and side
    for number, (side, (url, _, _)) in enumerate(read_pages(archives)):
        if url not in chosen or side:
            chosen[url] = number, side
    missing: dict[str, None] = {}
    for day, side in DAYS.items():
        kept = []
        for row in read_annotations(pairs, day):
            absent = [url for url in (row["a"], row["b"]) if chosen.get(url, (0, ""))[1] != side]
            missing |= dict.fromkeys(absent)
            kept += [] if absent else [row]
        write_lines(folder / "tasks" / "pairs" / f"{side}.jsonl", kept)
    documents = (
        {"id": url, "text": f"{title} {text}".strip(), "title": title, "group": side}
        for number, (side, (url, title, text)) in enumerate(read_pages(archives))
        if chosen[url][0] == number
    )
    write_lines(folder / "documents.jsonl", documents)
    listed = "".join(f"{url}\n" for url in missing)
    (folder / "missing_urls.txt").write_text(listed, encoding="utf-8")
    return list(missing)
