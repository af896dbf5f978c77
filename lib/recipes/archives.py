"""Reads archives (.tar.gz) to the checksum at their end."""

import contextlib
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive as a stream, whose files must be read one after another.

    Raises `ValueError` if it is damaged, perhaps only at the end.
    """
    try:
        # gzip checks its checksum at the end, which tarfile does not reach when it unpacks gzip.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            yield archive
            while stream.read(2**20):
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}: the archive is damaged ({error}); copy it again") from error
