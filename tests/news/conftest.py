"""The news chapter of smoke, with its records, and of mini; a person's folder with events."""

import pytest

from lib.data.files import write_lines
from lib.experiments.bench import Bench
from lib.news import results
from lib.news.chapter import News

TINY = {"news.documents": 32, "news.epochs": 1, "max_variants": 1}


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    """The news chapter of smoke, and its records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("news")))
        news = News(Bench.load("smoke", overrides=TINY))
        yield news, results.make_records(news)


@pytest.fixture
def write_folder(tmp_path):
    """A function (documents, {file: rows}) that writes a folder `own` with a task `events`."""

    def write(documents, **files):
        write_lines(tmp_path / "own/documents.jsonl", documents)
        for name, rows in files.items():
            write_lines(tmp_path / f"own/tasks/events/{name}.jsonl", rows)
        return tmp_path / "own/tasks/events"

    return write
