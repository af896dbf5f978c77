"""The news chapter of smoke, with its records, and of mini; a person's folder with events."""

import json

import pytest

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


@pytest.fixture(scope="session")
def mini(tmp_path_factory):
    """The news chapter of mini, of which only texts are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THESIS_ARTIFACTS", str(tmp_path_factory.mktemp("mini")))
        news = News(Bench.load("mini"))
        assert len(news.windows.rows)  # read before the folder is left
        yield news


@pytest.fixture
def write_folder(tmp_path):
    """A function (documents, {file: rows}) that writes a folder `own` with a task `events`."""

    def write(documents, **files):
        task = tmp_path / "own" / "tasks" / "events"
        task.mkdir(parents=True, exist_ok=True)
        paths = {f"tasks/events/{name}.jsonl": rows for name, rows in files.items()}
        for path, rows in ({"documents.jsonl": documents} | paths).items():
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / "own" / path).write_text(lines, encoding="utf-8")
        return task

    return write
