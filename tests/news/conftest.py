"""The news chapter of smoke, with its records, and events in a person's own folder."""

import itertools
import json

import pytest

from lib.experiments.bench import Bench
from lib.news import results
from lib.news.chapter import News

TINY = {"news.documents": 32, "news.epochs": 1, "max_variants": 1}
TOPICS = {12: "fire smoke forest", 15: "court judge trial", 18: "match goal team"}
PLACES = ("Oslo harbour", "Lima airport", "Cairo bridge")


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
        assert len(news.windows.rows) and news.clustered  # read before the folder is left
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


@pytest.fixture
def own(tmp_path, monkeypatch, write_folder):
    """A function (reports, changes) -> News of lab's settings on a folder of these reports."""
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))

    def load(reports, profile=(), **news):
        texts = [{"id": row["id"], "text": row["text"]} for row in reports]
        texts += [{"id": f"text {n}", "text": f"a text number {n} of nothing"} for n in range(12)]
        write_folder(texts, clusters=[{"id": r["id"], "label": r["label"]} for r in reports])
        changes = {"events": "own/events", "texts": ["own"], "documents": 8, "words": 6}
        changes |= {"epochs": 1} | news
        settings = {"corpus.folders": ["own"], "width": 0.1} | dict(profile)
        settings |= {f"news.{key}": value for key, value in changes.items()}
        return News(Bench.load("lab", overrides=settings))

    return load


@pytest.fixture
def reports():
    """Two events a topic that differ by their place alone, three reports of each."""
    rows = []
    for topic, event, report in itertools.product(TOPICS, range(2), range(3)):
        text = f"{TOPICS[topic]} in {PLACES[event]}, report {report} of the day"
        label = f"{topic}_{event + 3}"
        rows.append({"id": f"{topic}_{event}{report}", "text": text, "label": label})
    return rows
