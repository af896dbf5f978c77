"""Archives (.tar.gz), read from the first file to the checksum at their end."""

import contextlib
import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def open_archive(path: Path) -> Iterator[tarfile.TarFile]:
    """An archive as a stream, whose files are read in turn and nothing else meanwhile.

    Raises
    ------
    ValueError
        In one line: the archive is cut off or damaged. Some damage is only found at the end, so
        what was read counts only then.
    """
    try:
        # gzip compares its checksum at the end, which tarfile's own reading of gzip does not reach.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            yield archive
            while stream.read(2**20):
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        told = f"the archive is cut off or damaged ({error}); copy it again"
        raise ValueError(f"{path}: {told}") from error
