"""Writing tiny dataset folders, and a profile that reads them."""

import gzip
import json
import lzma

import pytest

from lib.config import profiles

PACK = {".gz": gzip.compress, ".xz": lzma.compress}


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    """Nothing is read from, or left in, the checkout's artifact root."""
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return tmp_path / "artifacts"


@pytest.fixture
def write():
    return _write


@pytest.fixture
def own():
    return _own


def _write(path, *rows):
    """A file of the rows: text as it is, bytes as they are, anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        row
        if isinstance(row, bytes)
        else (row if isinstance(row, str) else json.dumps(row)).encode()
        for row in rows
    ]
    path.write_bytes(PACK.get(path.suffix, bytes)(b"\n".join(lines)))


def _own(corpus, tasks, **settings):
    """A profile whose corpus and tasks are a person's own folders; THESIS_DATA names their root."""
    sizes = {
        "corpus.train_documents": 24,
        "corpus.validation_documents": 6,
        "training.documents": 12,
    }
    sizes |= {"training.cca_batch_size": 6, "final.documents": 12}
    return profiles.load(
        "lab", overrides={"corpus.folders": corpus, "tasks.folders": tasks, **sizes, **settings}
    )
