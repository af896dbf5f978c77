"""The published news pairs as a dataset folder: the shared task's URLs and the contest's pages.

    write_dataset(archives, pairs, folder)

`archives` is a folder of the Telegram contest's `.tar.gz` files, or of unpacked folders, with one
HTML page per document; the name holds month and day in four digits (`20200525.tar.gz`). `pairs` is
a folder with `ru_clustering_<day>*.tsv` from the organisers' repository, with the columns
first_url, second_url and quality (OK or BAD). Documents of the three annotated days have their side
as group; those of other days are the texts to distil on.
"""

import csv
import json
import tempfile
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from lib.data.archives import open_archive
from lib.data.builders.writing import write_folder, write_lines
from lib.data.dataset_folder import list_unread

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


def read_pages(archives: Path) -> Iterator[tuple[str, bytes]]:
    """(day, content) of every HTML page.

    Raises
    ------
    ValueError
        If an archive is damaged, or if the folder has none.
    """
    endings = (".tar.gz", ".tgz")
    places = sorted(archives.glob("[!.]*"))  # macOS adds `._20200525.tar.gz` to an archive
    places = [path for path in places if path.is_dir() or path.name.endswith(endings)]
    if not places:
        raise ValueError(
            f"{archives}: expected .tar.gz archives of the Telegram contest, or folders, found none"
        )
    if unread := list_unread(archives, (), places):
        warnings.warn(f"{archives}: not read: {', '.join(unread)}", stacklevel=2)
    for place in places:
        day = next((day for day in DAYS if day in place.name), "")
        if place.is_dir():
            yield from ((day, path.read_bytes()) for path in sorted(place.rglob("[!.]*.html")))
            continue
        with open_archive(place) as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".html"):
                    yield day, archive.extractfile(member).read()


def read_annotations(pairs: Path, day: str) -> list[dict[str, str]]:
    """The annotated pairs of a day: two URLs, `a` and `b`, and the `label`.

    Raises
    ------
    ValueError
        If there is no file, or with the file and the line that is wrong.
    """
    files = sorted(pairs.glob(f"ru_clustering_{day}*.tsv"))
    if not files:
        raise ValueError(
            f"{pairs}: expected ru_clustering_{day}*.tsv of the shared task's repository"
        )
    rows, file = [], files[-1]  # the last is the corrected version
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8 ({error.reason} at byte {error.start})") from error
    reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    for number, values in enumerate(reader, start=2):
        a, b, quality = (values.get(name) for name in ("first_url", "second_url", "quality"))
        if quality not in _LABELS or not (a and b):
            raise ValueError(f"{file}:{number}: expected two URLs and OK or BAD, got {quality!r}")
        rows.append({"a": a, "b": b, "label": _LABELS[quality]})
    if not rows:
        raise ValueError(f"{file}: expected pairs below a line of names, found none")
    return rows


def write_dataset(archives: Path, pairs: Path, folder: Path) -> list[str]:
    """Write the dataset folder.

    Returns
    -------
    list of str
        URLs that are missing from the archives of their day; their pairs are left out. They are
        also listed in the folder's `missing_urls.txt`, and counted in its README.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # For all pages, which may not fit in memory.
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=folder) as pages:
        chosen, told = _keep_pages(archives, pages)
        missing, counts = dict[str, None](), [told]
        for day, side in DAYS.items():
            annotated, kept = read_annotations(pairs, day), []
            for row in annotated:
                urls = row["a"], row["b"]
                absent = [url for url in urls if chosen.get(url, (0, ""))[1] != side]
                missing.update(dict.fromkeys(absent))
                if not absent:
                    kept.append(row)
            counts.append(f"{side}: {len(kept)} of {len(annotated)} pairs")
            write_lines(folder / "tasks" / "pairs" / f"{side}.jsonl", kept)
        counts.append(
            f"{len(missing)} URLs of pairs are in no archive of their day (missing_urls.txt)"
        )
        pages.seek(0)
        rows = ((number, json.loads(line)) for number, line in enumerate(pages))
        documents = (row for number, row in rows if chosen.get(row["id"], (-1,))[0] == number)
        write_folder(folder, documents, "News of the Telegram contest", "; ".join(counts))
    listed = "".join(f"{url}\n" for url in missing)
    (folder / "missing_urls.txt").write_text(listed, encoding="utf-8")
    return list(missing)


def _keep_pages(archives: Path, pages) -> tuple[dict[str, tuple[int, str]], str]:
    """Write all pages as lines; returns {URL: (number of its page, side)}, and what is left out.

    If a URL has several pages, the first is taken; a page of an annotated day goes before others.
    """
    chosen, number, blank = dict[str, tuple[int, str]](), -1, 0
    for number, (day, content) in enumerate(read_pages(archives)):
        url, title, text = parse_page(content) or ("", "", "")
        side = DAYS.get(day, "")
        row = {"id": url, "text": f"{title} {text}".strip(), "title": title, "group": side}
        pages.write(json.dumps(row) + "\n")
        blank += not url
        if url and (url not in chosen or side):
            chosen[url] = number, side
    repeated = number + 1 - blank - len(chosen)
    told = f"left out {blank} without an address or a text and {repeated} of an address known"
    return chosen, f"of {number + 1} pages {told}"
