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


def test_the_better_ones_go_on():
    scores = dict(zip("abcde", (0.1, 0.5, 0.3, 0.2, 0.4), strict=True))
    assert try_recipes.keep_best(scores, 3) == ["b", "e", "c"]


def draw_noise(scale, seed):
    """(50,) with mean 0."""
    noise = np.random.default_rng(seed).normal(0, scale, 50)
    return noise - noise.mean()


def make_table(**levels):
    """Models with one level, or one for each of two folders; a hundredth of noise that they share.

    The recipe has two seeds.
    """
    noise, rows = draw_noise(0.01, 0), []
    for name, level in levels.items():
        for task, value in zip(("x, halves", "y, task"), np.broadcast_to(level, 2), strict=True):
            row = {"model": name.replace("_", " "), "task": task, "chance": 0.0}
            row |= {"groups": np.arange(50).astype(str)}
            for seed in (0, 1) if name == "aligned" else (0,):
                scores = value + noise + draw_noise(0.001, [seed, len(name)])
                rows.append(row | {"seed": seed, "scores": scores})
    return pd.DataFrame(rows)


def test_the_table_has_differences_of_means():
    text = try_recipes.describe(make_table(base=0.5, mean_of_chunks=0.6, aligned=0.7))
    last = next(line for line in text.splitlines() if line.startswith("| aligned"))
    assert "| 0.700 |" in last and "+0.200 [" in last and "+0.100 [" in last


@pytest.mark.parametrize(
    ("level", "default"),
    [
        (0.7, True),
        (0.55, False),  # its mean is below that of the chunks
        ((0.9, 0.58), False),  # on one folder it is clearly below them
        ((0.9, 0.59999), True),  # or not clearly
    ],
)
def test_which_default(level, default):
    table = make_table(base=0.5, mean_of_chunks=0.6, aligned=level)
    assert try_recipes.conclude(table, "aligned").startswith(
        "aligned" if default else "No training"
    )


class Bag:
    """A student that takes no time: counts of letters."""

    def encode(self, texts, precision):
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        return np.array([[text.count(letter) + 0.1 for letter in alphabet] for text in texts], "f4")


def test_trials_choose_and_report_and_go_on_where_they_were(tmp_path, monkeypatch):
    for name, task in {"stories": "kinds", "reviews": "kinds"}.items():
        rows = [
            {"id": f"d{i}", "text": f"{'abc'[i % 3] * 4} {'xyz'[i % 3] * 3} word{i} is this"}
            for i in range(40)
        ]
        write(tmp_path / "all" / name / "documents.jsonl", rows)
        labels = [{"id": f"d{i}", "label": "abc"[i % 3]} for i in range(40)]
        for part, few in {"train": labels[:20], "test": labels[20:]}.items():
            write(tmp_path / "all" / name / "tasks" / task / f"{part}.jsonl", few)
        try_recipes.make_folder(tmp_path / "all" / name, task, tmp_path / "few" / name)
    plan = {
        "choosing": {"stories": {}},
        "reporting": {"reviews": {}},
        "recipes": ["thesis", "aligned"],
        "rungs": [{"updates": 1, "keep": 1}],
        "final": {"updates": 2},
        "seeds": {"choosing": [0], "reporting": [0, 1]},
    }
    for key, value in plan.items():
        monkeypatch.setitem(try_recipes.PLAN, key, value)
    trained = []

    def train(recipe, *lessons, seed, updates, **options):
        trained.append((updates, seed))
        return Bag(), try_recipes.trained.AlignedHistory()

    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "kept"))
    monkeypatch.setattr(try_recipes, "RESULTS", tmp_path / "recipes.md")
    monkeypatch.setattr(try_recipes.trained, "train_student", train)
    monkeypatch.setattr(
        try_recipes, "train_as_in_thesis", lambda *_: trained.append("thesis") or Bag()
    )
    monkeypatch.setattr("sys.argv", ["try_recipes.py", "run", str(tmp_path / "few")])
    try_recipes.main()
    assert trained[:2] == ["thesis", (1, 0)] and len(trained) == 5
    first = (tmp_path / "recipes.md").read_text()
    assert first.count("## ") == 4 and "Which default" in first
    try_recipes.main()
    assert len(trained) == 5 and (tmp_path / "recipes.md").read_text() == first


def test_the_recipe_of_the_thesis_trains_and_is_not_trained_again(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    texts = [f"the boat {'sails' * (i % 3)} past house {i}" for i in range(12)]
    parts = dict.fromkeys(try_recipes.PARTS, texts)
    folder = try_recipes.Folder("boats", parts, dict.fromkeys(parts, np.arange(12)), False)
    vectors = try_recipes.Vectors(folder)
    name = try_recipes.try_recipe(vectors, "thesis", 2, 0, "validation")
    rows = vectors.embed(name, "texts", "train")
    moved = np.abs(rows - vectors.embed(try_recipes.REPAIRED, "texts", "train")).max()
    assert rows.shape == (12, 384) and moved > 1e-3
    assert not [*vectors.place.glob("*checkpoint*")]
    monkeypatch.setattr(try_recipes, "train_as_in_thesis", None)
    assert try_recipes.try_recipe(vectors, "thesis", 2, 0, "validation") == name
