"""Writing tiny dataset folders."""

import gzip
import json
import lzma

import pytest

PACK = {".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture(autouse=True)
def apart(artifacts):
    """Nothing is read from, or left in, the checkout's artifact root, nor in a person's folders."""


@pytest.fixture
def write():
    """Writes a file of rows: text as it is, bytes as they are, anything else as JSON."""

    def write_rows(path, *rows):
        lines = []
        for row in rows:
            text = row if isinstance(row, (bytes, str)) else json.dumps(row)
            lines.append(text if isinstance(text, bytes) else text.encode())
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PACK.get(path.suffix, bytes)(b"\n".join(lines)))

    return write_rows
