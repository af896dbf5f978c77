"""The trials of recipes: their folders, the choice, the table."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.benchmarks import try_recipes


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    sizes = {"train": 8, "validation": 4, "test": 4}
    monkeypatch.setitem(try_recipes.PLAN, "documents", sizes)
    monkeypatch.setitem(try_recipes.PLAN, "words", 5)


def test_a_folder_of_classes(tmp_path):
    texts = [{"id": f"d{i}", "text": f"word{i % 37} and more of these words"} for i in range(40)]
    write(tmp_path / "all" / "documents.jsonl", texts)
    labels = [{"id": f"d{i}", "label": "abcd"[i % 4]} for i in range(40)]
    for part, rows in {"train": labels[:20], "test": labels[20:]}.items():
        write(tmp_path / "all" / "tasks" / "kinds" / f"{part}.jsonl", rows)
    try_recipes.make_folder(tmp_path / "all", "kinds", tmp_path / "few", classes=3)
    folder = try_recipes.Folder.read(tmp_path / "few")
    parts = [set(folder.texts[part]) for part in try_recipes.PARTS]
    assert list(map(len, parts)) == [8, 4, 4]
    assert len(set.union(*parts)) == 16  # also of texts that the source has twice
    assert all(len(text.split()) == 5 for text in parts[0])
    assert len(set(np.concatenate([*folder.labels.values()]))) == 3 and not folder.searched


def test_a_folder_of_events(tmp_path):
    names = [f"{topic}_{i}" for topic in range(9) for i in range(3)]
    texts = [{"id": name, "text": f"something of {name.replace('_', 'x')}"} for name in names]
    write(tmp_path / "all" / "documents.jsonl", texts)
    rows = [{"id": name, "label": f"{name[0]}_event{name[-1] < '2'}"} for name in names]
    write(tmp_path / "all" / "tasks" / "events" / "clusters.jsonl", rows)
    try_recipes.make_folder(tmp_path / "all", "events", tmp_path / "few")
    folder = try_recipes.Folder.read(tmp_path / "few")
    topics = [{text.split()[-1][0] for text in folder.texts[part]} for part in try_recipes.PARTS]
    assert folder.searched and list(map(len, topics)) == [3, 2, 2]
    assert len(set.union(*topics)) == 7  # none is in two parts
    queries = try_recipes.read_queries(folder.texts["test"], folder.labels["test"])
    assert len(queries.relevant) == 4 and all(len(rows) == 1 for rows in queries.relevant.values())


def test_the_better_half_goes_on():
    scores = dict(zip("abcde", (0.1, 0.5, 0.3, 0.2, 0.4), strict=True))
    assert try_recipes.keep_best(scores, 0.5) == ["b", "e", "c"]
    assert try_recipes.keep_best({"a": 0.1, "b": 0.2, "c": 0.3}, 0.5) == ["c", "b"]
    assert try_recipes.keep_best({"a": 0.1, "b": 0.2}, 0.5) == ["b"]


def test_the_table_has_differences_of_means():
    rng, rows = np.random.default_rng(0), []
    noise = rng.normal(0, 0.01, 50)
    for name, level in {"base": 0.5, "chunks": 0.6, "aligned": 0.7}.items():
        for task in ("x halves", "x task"):
            rows.append(
                {
                    "model": name,
                    "task": task,
                    "seed": 0,
                    "chance": 0.0,
                    "scores": level + noise,
                    "groups": np.arange(50).astype(str),
                }
            )
    text = try_recipes.describe(pd.DataFrame(rows))
    last = next(line for line in text.splitlines() if line.startswith("aligned"))
    assert "+0.200 [" in last and "+0.100 [" in last
