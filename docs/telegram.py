"""The published news pairs as a dataset folder: the shared task's URLs and the contest's pages.

    python docs/telegram.py archives pairs telegram

`archives` is a folder of the Telegram contest's `.tar.gz` files with one HTML page per document,
unpacked or not, named `20200525.tar.gz`. `pairs` is one of `ru_clustering_<day>*.tsv` from the
organisers' repository: first_url, second_url, quality (OK or BAD). Documents of the annotated days
have their side as group; those of other days are the texts to distil on.
"""

import csv
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from bs4 import BeautifulSoup

from lib.data.files import write_lines

DAYS = {"0525": "train", "0527": "public", "0529": "private"}
LABELS = {"OK": "yes", "BAD": "no"}  # of a pair's quality


def write_dataset(archives: Path, pairs: Path, folder: Path) -> list[str]:
    """Write the dataset folder; returns URLs without a text in their day's archives, whose
    pairs are left out.
    """
    sides: dict[str, str] = {}
    write_lines(folder / "documents.jsonl", _read_documents(archives, sides))
    missing = set[str]()
    for day, side in DAYS.items():
        file = sorted(pairs.glob(f"ru_clustering_{day}*.tsv"))[-1]  # the corrected version
        table = pd.read_csv(file, sep="\t", quoting=csv.QUOTE_NONE, dtype=str, na_filter=False)
        if wrong := {*table["quality"]} - {*LABELS}:
            raise ValueError(f"{file}: expected the qualities OK and BAD, found {min(wrong)!r}")
        ends = table[["first_url", "second_url"]].set_axis(["a", "b"], axis=1)
        present = ends.isin([url for url, own in sides.items() if own == side])
        missing.update(ends.to_numpy()[~present.to_numpy()])
        kept = ends.assign(label=table["quality"].map(LABELS))[present.all(axis=1)]
        write_lines(folder / "tasks" / "pairs" / f"{side}.jsonl", kept.to_dict("records"))
    listed = "".join(f"{url}\n" for url in sorted(missing))
    (folder / "missing_urls.txt").write_text(listed, encoding="utf-8")
    return sorted(missing)


def _read_documents(archives: Path, sides: dict[str, str]) -> Iterator[dict[str, str]]:
    """The first page of every URL, those of annotated days first; `sides` gets {URL: side}."""
    places = archives.glob("[!.]*")  # macOS adds `._20200525.tar.gz` to an archive
    days = {place: next((day for day in DAYS if day in place.name), "") for place in places}
    for place in sorted(days, key=lambda place: (not days[place], place)):
        for url, title, text in map(_read_page, _read_contents(place)):
            if url and text and url not in sides:
                sides[url] = side = DAYS.get(days[place], "")
                yield {"id": url, "text": f"{title} {text}".strip(), "title": title, "group": side}


def _read_contents(place: Path) -> Iterator[bytes]:
    if place.is_dir():
        yield from (path.read_bytes() for path in sorted(place.rglob("[!.]*.html")))
    elif place.name.endswith((".tar.gz", ".tgz")):
        with tarfile.open(place, mode="r|gz") as archive:
            for member in archive:
                if member.isfile() and member.name.endswith(".html"):
                    yield archive.extractfile(member).read()


def _read_page(content: bytes) -> tuple[str, str, str]:
    """The URL, title and text of a page; empty if it has none."""
    page = BeautifulSoup(content.decode("utf-8", errors="replace"), "html.parser")
    metas = [page.find("meta", property=f"og:{name}") for name in ("url", "title")]
    url, title = (meta.get("content", "") if meta else "" for meta in metas)
    for paragraph in page("p"):
        paragraph.insert(0, " ")
    # A paragraph that is not closed contains those after it.
    texts = [paragraph.get_text() for paragraph in page("p") if not paragraph.find_parent("p")]
    return url, title, " ".join("".join(texts).split())


if __name__ == "__main__":
    missing = write_dataset(*map(Path, sys.argv[1:]))
    print(
        f"{len(missing)} addresses of pairs have no text in their day's archives: missing_urls.txt"
    )
