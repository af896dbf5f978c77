"""Downloads files once, and resumes: from a commit on the hub, a Zenodo record, or a URL.

Files of the hub are in its own cache (`HF_HOME`), all others in one folder.
"""

import hashlib
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from huggingface_hub import errors, file_download, snapshot_download
from huggingface_hub.utils import get_session

from lib.store import write_whole

_FAILURES = (OSError, RuntimeError, ValueError, errors.HTTPError, zipfile.BadZipFile)


def fetch_all(sources: Mapping[str, str], root: Path) -> None:
    """Download all missing files; ValueError with a line for each one that fails.

    `sources` is {file name: its URL, or the API address of the Zenodo record that contains it}; of
    a place on the hub, see `fetch_hub`, name and URL are the same. Other files go to `root`.
    """
    problems = []
    for name, url in sources.items():
        try:
            _ = fetch_hub(url) if name == url else fetch_file(root, name, url)
        except _FAILURES as error:
            problems.append(f"missing: {name}: {' '.join(str(error).split())[:250]}")
    if problems:
        raise ValueError("\n".join(problems))


def fetch_hub(place: str) -> list[Path]:
    """The files of a place on the hub, `hf://[datasets/]<id>@<commit>/<pattern>[,<pattern>]`.

    Raises an error of the hub, or `ValueError` if a file is missing from a numbered set.
    """
    form = "hf://(?:(dataset)s/)?([^@]+)@([^/]+)/(.+)"
    kind, repository, commit, named = re.fullmatch(form, place).groups()
    patterns = named.split(",")
    folder = snapshot_download(repository, repo_type=kind, revision=commit, allow_patterns=patterns)
    files = sorted(path for pattern in patterns for path in Path(folder).glob(pattern))
    parts = {int(match[1]) for path in files if (match := re.search(r"-of-(\d+)\.", path.name))}
    if not files or parts - {len(files)}:  # else half a corpus would pass as the whole
        count = max(parts, default="its")
        raise ValueError(f"{place}: {len(files)} of {count} files are there; build again")
    return files


def fetch_file(root: Path, name: str, url: str) -> Path:
    """The file `name`, from anywhere in `root` or downloaded from `url`; see `fetch_all`."""
    if not any(root.rglob(name)):
        for file in _list_files(url, root, name):
            _download(*file)
    if not (paths := sorted(root.rglob(name))):
        raise ValueError(f"{name}: neither in {root} nor in {url.replace('/api/', '/')}")
    return paths[0]


def _list_files(url: str, root: Path, name: str) -> Iterator[tuple[str, Path, int | None, str]]:
    """Yield (URL, path, bytes, checksum) of every file of a Zenodo record, or of a single URL."""
    if "/api/records/" not in url:
        yield url, root / name, None, ""
        return
    answer = get_session().get(url, follow_redirects=True).raise_for_status().json()
    for file in answer["files"]:
        path = root / url.rpartition("/")[2] / Path(file["key"]).name
        yield file["links"]["self"], path, file["size"], file["checksum"]


def _download(url: str, path: Path, size: int | None, checksum: str) -> None:
    """Download a file, resuming from its `.part` after an interruption, and unpack a .zip."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("ab" if size else "wb") as file:
        file_download.http_get(url, file, resume_size=file.tell(), expected_size=size)
    with part.open("rb") as file:
        if checksum and f"md5:{hashlib.file_digest(file, 'md5').hexdigest()}" != checksum:
            part.unlink()
            raise ValueError(f"{url} does not have the {checksum} of its record; build again")
    if path.suffix == ".zip":
        with zipfile.ZipFile(part) as archive:
            for member in archive.infolist():
                if not member.is_dir():
                    with archive.open(member) as file:
                        target = path.parent / Path(member.filename).name
                        write_whole(target, lambda copy, f=file: shutil.copyfileobj(f, copy))
    os.replace(part, path)
