"""Downloads, each once: files of the hub at a commit, those of a Zenodo record, single files of other servers.

Hub files lie in the hub's own cache (`HF_HOME`), the others in one folder, whose `SHA256SUMS` holds a file's SHA-256
from the first time it was read on. The hub's library gets both, and goes on with what was cut off.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants, errors, file_download, snapshot_download
from huggingface_hub.utils import get_session

from lib.data.written_once import sha256
from lib.store.files import write_atomically

SUMS = "SHA256SUMS"
_MISSING = "missing: ...:"
_FAILURES = (OSError, RuntimeError, ValueError, errors.HTTPError, zipfile.BadZipFile)
_unreached: list[
    BaseException
] = []  # why the hub did not answer: it takes half a minute to find out, once a build


def everything(sources: Mapping[str, str], root: Path, target: Path, room: int) -> None:
    """Download what is missing and check all of it; `ValueError` with a line for each source that fails.

    sources: {file name: URL of the file, or of the API of the Zenodo record that holds it}, files that go to `root`; a
    place of the hub, see `hub`, is both. For each byte of the hub's `room` bytes are written to `target`. That all fits
    on the disks is checked before anything comes.
    """
    _unreached.clear()
    cache, needed, problems = (
        Path(constants.HF_HUB_CACHE),
        Counter[Path](),
        dict[tuple[str, str], list[str]](),
    )
    for url in dict.fromkeys(
        url for name, url in sources.items() if name == url or not _found(root, name)
    ):
        with contextlib.suppress(
            *_FAILURES
        ):  # without network nothing can be asked; what is missing is told below
            if url.startswith("hf://"):
                files = _snapshot(url, dry_run=True)
                needed[cache] += sum(file.file_size for file in files if file.will_download)
                needed[target] += sum(file.file_size for file in files) * room
            else:
                needed[root] += 2 * sum(
                    size or 0 for _, _, size, _ in _listed(url, root, "")
                )  # packed, unpacked
    for folder in needed:
        folder.mkdir(parents=True, exist_ok=True)
    for folder in needed:
        count = sum(
            needed[other] for other in needed if other.stat().st_dev == folder.stat().st_dev
        )
        if count > (free := shutil.disk_usage(folder).free):
            raise ValueError(
                f"{folder}: {count / 1e9:.1f} GB are needed on its disk, {free / 1e9:.1f} GB are free"
            )
    for name, url in sources.items():
        try:
            hub(url) if name == url else pinned(root, name, url)
        except ValueError as error:
            told = str(error).replace(f"missing: {name}:", _MISSING, 1)
            problems.setdefault((url, told), []).append(name)
    if problems:
        lines = (
            told.replace(_MISSING, f"missing: {', '.join(of)}:", 1)
            for (_, told), of in problems.items()
        )
        raise ValueError("\n".join(lines))


def hub(place: str) -> list[Path]:
    """The files of `hf://[datasets/]<id>@<commit>/<pattern>[,<pattern>]`, downloaded where the cache lacks them.

    `ValueError` if one cannot be had, is missing in a numbered set, or has another checksum than its name says.
    """
    cache = constants.HF_HUB_CACHE
    try:
        files = _snapshot(place)
    except errors.RevisionNotFoundError:
        raise ValueError(
            f"{place}: the hub has no such commit any more; name another in its place"
        ) from None
    except _FAILURES as error:
        told = f"missing: {place}: build where there is a network, then copy {cache} from there"
        raise ValueError(f"{told} ({_line(*_unreached or [error])})") from error
    parts = {int(match[1]) for path in files if (match := re.search(r"-of-(\d+)\.", path.name))}
    if not files or parts - {len(files)}:
        raise ValueError(
            f"missing: {place}: {len(files)} of {max(parts, default='its')} files are there; build again"
        )
    for blob in map(
        Path.resolve, files
    ):  # a large file is stored under its SHA-256, a small one as git names it
        check = {64: sha256, 40: git_sha1}.get(
            len(blob.name) if re.fullmatch("[0-9a-f]*", blob.name) else 0
        )
        if check is None:  # a text that is the same for all of them is told once
            warnings.warn(
                f"{cache}: files without a checksum as name, as copied links, are not verified",
                stacklevel=1,
            )
        elif (digest := check(blob)) != blob.name:
            raise ValueError(
                f"{place}: the {check.__name__} of {blob} is {digest}; delete the file and build again"
            )
    return files


def git_sha1(path: Path) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % path.stat().st_size + path.read_bytes()).hexdigest()


def _snapshot(place: str, dry_run: bool = False) -> list[Any]:
    kind, repository, commit, named = re.fullmatch(
        "hf://(?:(dataset)s/)?([^@]+)@([^/]+)/(.+)", place
    ).groups()
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
        if isinstance(cause, errors.HTTPError) and not isinstance(
            cause, errors.HfHubHTTPError
        ):  # not an answer
            _unreached[:] = [cause]
        raise
    return (
        snapshot
        if dry_run
        else sorted(path for pattern in patterns for path in Path(snapshot).glob(pattern))
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the hub library's line for every second try: what does not come is told once, at the end."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def pinned(root: Path, name: str, url: str) -> Path:
    """The file `name`, wherever in `root` it lies, else from `url`, see `everything`.

    `ValueError` if it is not to be had, or is not the one that was first read.
    """
    path, recorded = _found(root, name), sums(root)
    try:
        for file in [] if path else _listed(url, root, name):
            _download(*file)
        if (path := path or _found(root, name)) is None:
            raise ValueError("it does not hold the file")
    except _FAILURES as error:
        page = url.replace("/api/", "/")
        raise ValueError(
            f"missing: {name}: expected in {root}, from {page} ({_line(error)})"
        ) from error
    digest = sha256(path)
    if recorded.setdefault(name, digest) != digest:
        told = f"{path}: its sha256 is {digest}, {root / SUMS} says {recorded[name]}"
        raise ValueError(
            f"{told}; delete the file and build again, or the line if the file is right"
        )
    write_atomically(
        root / SUMS, "".join(f"{recorded[key]}  {key}\n" for key in sorted(recorded)).encode()
    )
    return path


def _listed(url: str, root: Path, name: str) -> list[tuple[str, Path, int | None, str]]:
    """(URL, path, bytes, checksum) of every file of a Zenodo record; another URL is a file, of unknown size."""
    if "/api/records/" not in url:
        return [(url, root / name, None, "")]
    answer = get_session().get(url, follow_redirects=True).raise_for_status().json()
    listed = [
        (file, root / url.rpartition("/")[2] / Path(file["key"]).name) for file in answer["files"]
    ]
    return [(file["links"]["self"], path, file["size"], file["checksum"]) for file, path in listed]


def _download(url: str, path: Path, size: int | None, checksum: str) -> None:
    """Get a file, going on with the `.part` of a download that was cut off, and unpack a .zip. checksum: `md5:...`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    with part.open("ab" if size else "wb") as file, _quiet():
        file_download.http_get(url, file, resume_size=file.tell(), expected_size=size)
    with part.open("rb") as file:
        if checksum and f"md5:{hashlib.file_digest(file, 'md5').hexdigest()}" != checksum:
            part.unlink()
            raise ValueError(
                f"what came from {url} has not the {checksum} of its record; build again"
            )
    os.replace(part, path)
    if path.suffix == ".zip":
        zipfile.ZipFile(path).extractall(path.parent)


def sums(root: Path) -> dict[str, str]:
    """{name: SHA-256} of the files that have been read, as `sha256sum` or a person writes it."""
    lines, recorded = (
        (root / SUMS).read_text(encoding="utf-8").splitlines() if (root / SUMS).is_file() else [],
        {},
    )
    for number, line in enumerate(lines, start=1):
        if match := re.fullmatch(r"\s*([0-9a-fA-F]{64})\s+\*?(?:\./)?(\S+)\s*", line):
            recorded[match[2]] = match[1].lower()
        elif line.strip():
            raise ValueError(
                f"{root / SUMS}:{number}: expected 64 hex digits and a name, got {line[:80]!r}"
            )
    return recorded


def _found(root: Path, name: str) -> Path | None:
    return min(root.rglob(name), default=None)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160]
