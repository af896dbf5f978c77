"""Downloads files once: from a commit on the hub, a Zenodo record, or other servers.

Files of the hub are in its own cache (`HF_HOME`). All others are in one folder, whose `seal.json`
records the SHA-256 of each file when it is first read. The hub's library downloads both kinds, and
resumes interrupted downloads.
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants, errors, file_download, snapshot_download
from huggingface_hub.utils import get_session

from lib.data.written_once import SEAL
from lib.store.files import check_room, sum_once, write_atomically
from lib.store.sealed import read_facts

_MISSING = "missing: ...:"
_FAILURES = (OSError, RuntimeError, ValueError, errors.HTTPError, zipfile.BadZipFile)
# Why the hub did not answer. It takes half a minute to find out, so a build tries only once.
_unreached: list[BaseException] = []


def fetch_all(sources: Mapping[str, str], root: Path, target: Path, room: int) -> None:
    """Download missing files and check all of them.

    Nothing is downloaded unless the disks have room for everything.

    Parameters
    ----------
    sources : dict
        {file name: URL of the file, or API address of the Zenodo record that contains it}. For a
        place on the hub (see `fetch_hub`), name and URL are the same.
    root : Path
        Folder for files that are not from the hub.
    target : Path
        Folder in which `room` bytes will be written for each byte from the hub.

    Raises
    ------
    ValueError
        With one line for each source that fails.
    OSError
        In one line, if a disk has too little room.
    """
    _unreached.clear()
    _check_disks(_count_bytes(sources, root, target, room))
    problems = dict[tuple[str, str], list[str]]()
    for name, url in sources.items():
        try:
            if name == url:
                fetch_hub(url)
            else:
                fetch_file(root, name, url)
        except ValueError as error:
            told = str(error).replace(f"missing: {name}:", _MISSING, 1)
            problems.setdefault((url, told), []).append(name)
    if problems:
        lines = []
        for (_, told), names in problems.items():
            lines.append(told.replace(_MISSING, f"missing: {', '.join(names)}:", 1))
        raise ValueError("\n".join(lines))


def _count_bytes(sources: Mapping[str, str], root: Path, target: Path, room: int) -> Counter[Path]:
    """Return {folder: bytes that it needs}; sources that cannot be reached are not counted."""
    needed = Counter[Path]()
    missing = [url for name, url in sources.items() if name == url or not _find(root, name)]
    for url in dict.fromkeys(missing):
        with contextlib.suppress(*_FAILURES):
            if url.startswith("hf://"):
                files = _snapshot(url, dry_run=True)
                coming = sum(file.file_size for file in files if file.will_download)
                needed[Path(constants.HF_HUB_CACHE)] += coming
                needed[target] += sum(file.file_size for file in files) * room
            else:  # packed and unpacked
                needed[root] += 2 * sum(size or 0 for _, _, size, _ in _list(url, root, ""))
    return needed


def _check_disks(needed: Counter[Path]) -> None:
    for folder in needed:
        folder.mkdir(parents=True, exist_ok=True)
    disks = {folder: folder.stat().st_dev for folder in needed}
    for folder, disk in disks.items():
        check_room(folder, sum(needed[other] for other in needed if disks[other] == disk))


def fetch_hub(place: str) -> list[Path]:
    """Return the files of a place on the hub, downloading those that are not in its cache.

    Parameters
    ----------
    place : str
        `hf://[datasets/]<id>@<commit>/<pattern>[,<pattern>]`

    Raises
    ------
    ValueError
        If a file cannot be downloaded, is missing from a numbered set, or does not have the
        checksum in its name.
    """
    cache = constants.HF_HUB_CACHE
    try:
        files = _snapshot(place)
    except errors.RevisionNotFoundError:
        told = "the hub no longer has this commit; name another one"
        raise ValueError(f"{place}: {told}") from None
    except _FAILURES as error:
        told = f"missing: {place}: build where there is a network, then copy {cache} from there"
        raise ValueError(f"{told} ({_line(*_unreached or [error])})") from error
    parts = {int(match[1]) for path in files if (match := re.search(r"-of-(\d+)\.", path.name))}
    if not files or parts - {len(files)}:
        told = f"{len(files)} of {max(parts, default='its')} files are there; build again"
        raise ValueError(f"missing: {place}: {told}")
    # Large files are stored under their SHA-256, small ones under their git hash.
    checks = {64: ("sha256", sum_once), 40: ("git_sha1", git_sha1)}
    for blob in map(Path.resolve, files):
        check = checks.get(len(blob.name)) if re.fullmatch("[0-9a-f]*", blob.name) else None
        if check is None:  # a text that is the same for all of them is shown once
            told = "files without a checksum as name, as copied links, are not verified"
            warnings.warn(f"{cache}: {told}", stacklevel=1)
        elif (digest := check[1](blob)) != blob.name:
            told = f"the {check[0]} of {blob} is {digest}; delete the file and build again"
            raise ValueError(f"{place}: {told}")
    return files


def git_sha1(path: Path) -> str:
    """Return the hash that git gives to the content of a file."""
    return hashlib.sha1(b"blob %d\0" % path.stat().st_size + path.read_bytes()).hexdigest()


def _snapshot(place: str, dry_run: bool = False) -> list[Any]:
    form = "hf://(?:(dataset)s/)?([^@]+)@([^/]+)/(.+)"
    kind, repository, commit, named = re.fullmatch(form, place).groups()
    patterns = named.split(",")
    options = {
        "repo_type": kind,
        "revision": commit,
        "allow_patterns": patterns,
        "dry_run": dry_run,
    }
    try:
        with _quiet():
            snapshot = snapshot_download(repository, local_files_only=bool(_unreached), **options)
    except _FAILURES as error:
        cause = error.__cause__ or error
        answered = isinstance(cause, errors.HfHubHTTPError)
        if isinstance(cause, errors.HTTPError) and not answered:
            _unreached[:] = [cause]
        raise
    if dry_run:
        return snapshot
    return sorted(path for pattern in patterns for path in Path(snapshot).glob(pattern))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the hub library's messages about retries. Failures are reported at the end."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def fetch_file(root: Path, name: str, url: str) -> Path:
    """Return the file `name`, from anywhere in `root` or downloaded from `url`; see `fetch_all`.

    Raises
    ------
    ValueError
        If the file cannot be downloaded, or has changed since it was first read.
    """
    path, recorded = _find(root, name), read_sums(root)
    try:
        for file in [] if path else _list(url, root, name):
            _download(*file)
        path = path or _find(root, name)
        if path is None:
            raise ValueError("it does not contain the file")
    except _FAILURES as error:
        page = url.replace("/api/", "/")
        told = f"expected in {root}, from {page} ({_line(error)})"
        raise ValueError(f"missing: {name}: {told}") from error
    digest, place = sum_once(path), path.relative_to(root).as_posix()
    was = _name_sums(recorded).get(name, digest)
    if was != digest:
        told = f"its sha256 is {digest}, but {root / SEAL} says {was}"
        remedy = "delete the file and build again, or its entry there if the file is right"
        raise ValueError(f"{path}: {told}; {remedy}")
    if place not in recorded:  # `write_seal` would also replace the checksums of other files
        content = json.dumps({"files": {**recorded, place: digest}}, indent=1)
        write_atomically(root / SEAL, content.encode())
    return path


def read_sums(root: Path) -> dict[str, str]:
    """Return {path below root: SHA-256} of the files that have been read."""
    facts = read_facts(root / SEAL)
    if facts is None:
        if (root / SEAL).exists():
            raise ValueError(f'{root / SEAL}: expected {{"files": {{path: sha256}}}}; delete it')
        return {}
    return facts["files"]


def find_sums(root: Path, names: Iterable[str]) -> dict[str, str | None]:
    """Return {file name: SHA-256, or None if the file has not been read yet}."""
    known = _name_sums(read_sums(root))
    return {name: known.get(name) for name in names}


def _name_sums(recorded: Mapping[str, str]) -> dict[str, str]:
    return {Path(place).name: digest for place, digest in recorded.items()}


def _list(url: str, root: Path, name: str) -> list[tuple[str, Path, int | None, str]]:
    """List (URL, path, bytes, checksum) of every file of a Zenodo record.

    Any other URL is a single file of unknown size.
    """
    if "/api/records/" not in url:
        return [(url, root / name, None, "")]
    answer = get_session().get(url, follow_redirects=True).raise_for_status().json()
    listed = []
    for file in answer["files"]:
        path = root / url.rpartition("/")[2] / Path(file["key"]).name
        listed.append((file["links"]["self"], path, file["size"], file["checksum"]))
    return listed


def _download(url: str, path: Path, size: int | None, checksum: str) -> None:
    """Download a file, resuming from its `.part` after an interruption, and unpack a .zip.

    checksum: `md5:...`, or empty.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("ab" if size else "wb") as file, _quiet():
        file_download.http_get(url, file, resume_size=file.tell(), expected_size=size)
    with part.open("rb") as file:
        if checksum and f"md5:{hashlib.file_digest(file, 'md5').hexdigest()}" != checksum:
            part.unlink()
            told = f"the file from {url} does not have the {checksum} of its record; build again"
            raise ValueError(told)
    os.replace(part, path)
    if path.suffix == ".zip":
        zipfile.ZipFile(path).extractall(path.parent)


def _find(root: Path, name: str) -> Path | None:
    return min(root.rglob(name), default=None)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
