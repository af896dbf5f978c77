"""A place for what is kept, and a collection of documents, for tests of vectors."""

import json

import numpy as np
import pytest

from lib.data.dataset_folder import Documents
from lib.vectors.judging import Collection

SUBJECTS = {
    "river": "river water boats sea harbour tide sail wind coast fish".split(),
    "court": "court judge jury trial law witness sentence appeal crime prison".split(),
}


def make_text(subject, number, sentences=6):
    generator = np.random.default_rng(number)
    words = (generator.choice(SUBJECTS[subject], 3) for _ in range(sentences))
    return " ".join(f"The {a} of the {b} is near the {c} of {number}x." for a, b, c in words)


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.delenv("THESIS_DATA", raising=False)
    return tmp_path / "artifacts"


@pytest.fixture
def collect(tmp_path):
    """Makes a collection of texts, given as rows of a dataset folder."""

    def make(rows, name="texts"):
        folder = tmp_path / name
        folder.mkdir()
        lines = "\n".join(json.dumps({"id": str(n), **row}) for n, row in enumerate(rows))
        (folder / "documents.jsonl").write_text(lines)
        return Collection.read(Documents(folder))

    return make
