"""The published news pairs as a dataset folder: the shared task's URLs and the contest's pages.

    write_dataset(archives, pairs, folder)

`archives` is a folder of the Telegram contest's `.tar.gz` files, or of unpacked folders, with one
HTML page per document; the name holds month and day in four digits (`20200525.tar.gz`). `pairs` is
a folder with `ru_clustering_<day>*.tsv` from the organisers' repository, with the columns
first_url, second_url and quality (OK or BAD). Documents of the three annotated days have their side
as group; those of other days are the texts to distil on.
"""

import csv
import gzip
import tarfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd

from lib.data.files import write_lines

DAYS = {"0525": "train", "0527": "public", "0529": "private"}
LABELS = {"OK": "yes", "BAD": "no"}  # of a pair's quality


class _Page(HTMLParser):
    """The `<meta property=...>` of a page, and its paragraphs."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.properties = dict[str | None, str | None]()
        self.inside = False
        self.words = list[str]()
        self.feed(content.decode("utf-8", errors="replace"))

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


def _read_contents(place: Path) -> Iterator[bytes]:
    if place.is_dir():
        yield from (path.read_bytes() for path in sorted(place.rglob("[!.]*.html")))
    elif place.name.endswith((".tar.gz", ".tgz")):
        with gzip.open(place) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".html"):
                    yield archive.extractfile(member).read()


def _read_documents(archives: Path, sides: dict[str, str]) -> Iterator[dict[str, str]]:
    """The first page of every URL, those of annotated days first; `sides` gets {URL: side}."""
    places = archives.glob("[!.]*")  # macOS adds `._20200525.tar.gz` to an archive
    days = {place: next((day for day in DAYS if day in place.name), "") for place in places}
    for place in sorted(days, key=lambda place: (not days[place], place)):
        for content in _read_contents(place):
            page = _Page(content)
            url, title = (page.properties.get(f"og:{name}") or "" for name in ("url", "title"))
            text = " ".join("".join(page.words).split())
            if url and text and url not in sides:
                sides[url] = side = DAYS.get(days[place], "")
                yield {"id": url, "text": f"{title} {text}".strip(), "title": title, "group": side}


def write_dataset(archives: Path, pairs: Path, folder: Path) -> list[str]:
    """Write the dataset folder.

    Pairs with a URL that is missing from the archive of their day are left out. Returns these URLs,
    which `missing_urls.txt` lists.
    """
    sides: dict[str, str] = {}
    write_lines(folder / "documents.jsonl", _read_documents(archives, sides))
    missing: dict[str, None] = {}
    for day, side in DAYS.items():
        file = sorted(pairs.glob(f"ru_clustering_{day}*.tsv"))[-1]  # the corrected version
        kept = []
        options = {"sep": "\t", "quoting": csv.QUOTE_NONE, "dtype": str, "keep_default_na": False}
        columns = ["first_url", "second_url", "quality"]
        table = pd.read_csv(file, usecols=columns, **options)[columns]
        for a, b, quality in table.itertuples(index=False):
            if quality not in LABELS:
                raise ValueError(f"{file}: quality {quality!r} of {a} and {b} is not OK or BAD")
            absent = [url for url in (a, b) if sides.get(url) != side]
            missing |= dict.fromkeys(absent)
            if not absent:
                kept.append({"a": a, "b": b, "label": LABELS[quality]})
        write_lines(folder / "tasks" / "pairs" / f"{side}.jsonl", kept)
    listed = "".join(f"{url}\n" for url in missing)
    (folder / "missing_urls.txt").write_text(listed, encoding="utf-8")
    return list(missing)
