"""What the names of teacher vectors and token ids depend on, and what is in memory while they are made."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from lib.config import profiles
from lib.data.dataset_folder import Documents
from lib.news import events, inputs
from lib.store import records, source_keys

_CACHED = (source_keys.source_key, source_keys.imports, source_keys.home)


@pytest.fixture
def edited(monkeypatch):
    """Calls that append a line to a module's source, as far as source keys see it, and forget what they remember."""
    read = source_keys.source

    def edit(module):
        monkeypatch.setattr(
            source_keys, "source", lambda name: read(name) + "\nEDITED = 1\n" * (name == module)
        )
        for function in _CACHED:
            function.cache_clear()

    yield edit
    for function in _CACHED:
        function.cache_clear()


class _Unkept:
    """A store that keeps nothing, and the recipes that it was asked for."""

    def __init__(self):
        self.recipes = {}

    def arrays(self, recipe, make):
        self.recipes[recipe["kind"]] = recipe
        return make()

    def mapped(self, recipe, items, make, *, piece):
        self.recipes[recipe["kind"]] = recipe
        given = items()
        parts = [make(given[start : start + piece]) for start in range(0, len(given), piece)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


class _Reader:
    """A teacher that knows the limit of the texts that it reads, and how many it is given at a time."""

    def __init__(self, limit, given):
        self.limit, self.given = limit, given

    def encode(self, texts):
        self.given.append(len(texts))
        return np.array([[self.limit, len(text)] for text in texts])

    def tokenize(self, texts):
        self.given.append(len(texts))
        return [np.arange(min(len(text), self.limit), dtype=np.int32) for text in texts], None


@pytest.fixture
def unkept(monkeypatch):
    """The store that keeps nothing, beside the numbers of texts that stand-in teachers are given at a time."""
    kept, given, sides = _Unkept(), [], events.read(profiles.load("smoke"))
    monkeypatch.setattr(inputs, "store", lambda: kept)
    monkeypatch.setattr(inputs, "read_sides", lambda _: sides)
    monkeypatch.setattr(records, "_held", {})
    monkeypatch.setattr(inputs, "reader", lambda _, limit: _Reader(limit, given))
    return kept, given


def _codes(profile, kept):
    """The code part of each recipe that this module gives to the store."""
    records._held.clear()
    inputs.read("train", profile)
    with contextlib.suppress(AttributeError):  # the stand-in has no weights
        inputs.inputs_of(profile)
    return {kind: recipe["code"] for kind, recipe in kept.recipes.items()}


def test_the_key_covers_the_code_that_runs_and_no_student(edited, unkept):
    profile, (kept, _) = profiles.load("smoke"), unkept
    before = _codes(profile, kept)
    assert {*before} == {"news_windows", "news_teacher", "news_inputs"}
    for module in ("lib.news.inputs", "lib.news.widths", "lib.news.events"):
        edited(module)
        after = _codes(profile, kept)
        same = {"news_windows"} if module != "lib.news.events" else set()
        assert {kind for kind in before if after[kind] == before[kind]} == same, module
    for module in (
        "lib.news.embedders",
        "lib.news.students",
        "lib.news.designs",
        "lib.news.distil",
        "lib.news.tuning",
    ):
        edited(module)
        assert _codes(profile, kept) == before, module


def test_data_that_changes_makes_everything_anew(unkept):
    profile = profiles.load("smoke")
    before = inputs.recipe_of("any", profile, [])
    changed = [{"words": 15}, {"documents": 65}, {"texts": ("news",)}]
    assert before == inputs.recipe_of("any", profile, [])
    for change in changed:
        assert (
            inputs.recipe_of("any", profile.changed("news", **change), [])["data"] != before["data"]
        ), change
    other = profile.changed("corpus", seed=profile.corpus.seed + 1)  # in which windows are drawn
    assert inputs._windows_recipe(other) != inputs._windows_recipe(profile)
    windows, sides = inputs._windows_recipe(profile), inputs.read_sides(profile)
    sides["train"] = replace(sides["train"], texts=("another", *sides["train"].texts[1:]))
    records._held.clear()
    assert (
        inputs._windows_recipe(profile) == windows
        and inputs.recipe_of("any", profile, [])["data"] != before["data"]
    )
    sides["public"] = replace(sides["public"], groups=("another", *sides["public"].groups[1:]))
    assert inputs._windows_recipe(profile) != windows


def test_a_file_that_moves_to_another_folder_makes_windows_anew(unkept, monkeypatch, tmp_path):
    """They name a document by its folder and its row."""
    files = [tmp_path / name for name in ("a.parquet", "b.parquet", "c.parquet")]
    for file in files:
        file.write_text(file.name)
    recipes = []
    for border in (1, 2):
        folders = [SimpleNamespace(files=files[:border]), SimpleNamespace(files=files[border:])]
        monkeypatch.setattr(events, "text_folders", lambda _, folders=folders: folders)
        recipes.append(inputs._windows_recipe(profiles.load("smoke")))
    assert recipes[0] != recipes[1]


@pytest.mark.parametrize("max_tokens", [256, 8])
def test_windows_and_documents_are_embedded_however_short_documents_are_cut(
    max_tokens, unkept, monkeypatch
):
    profile = profiles.load("smoke").changed("news", words=10, max_tokens=max_tokens)
    uses = {"distilled": ["a" * 20, "bb"], "train": ["ccc", "d" * 300]}
    monkeypatch.setattr(inputs, "recipe_of", lambda kind, _, given: {"kind": kind, "given": given})
    monkeypatch.setattr(inputs, "texts", lambda _: uses)
    windows = min(12, max_tokens)
    vectors = {use: rows.tolist() for use, rows in inputs.teacher_vectors(profile).items()}
    assert vectors == {
        "distilled": [[windows, 20], [windows, 2]],
        "train": [[max_tokens, 3], [max_tokens, 300]],
    }
    lengths = {use: [len(row) for row in rows] for use, rows in inputs.token_ids(profile).items()}
    assert lengths == {"distilled": [windows, 2], "train": [3, max_tokens]}


def test_texts_to_distil_on_are_read_once_and_a_piece_at_a_time(unkept, monkeypatch):
    """However many there are."""
    profile, (_, given), reads = profiles.load("smoke"), unkept, []
    read = Documents.__getitem__
    monkeypatch.setattr(
        Documents, "__getitem__", lambda self, row: reads.append(row) or read(self, row)
    )
    monkeypatch.setattr(inputs, "PIECE", 7)
    known = inputs.texts(profile)
    assert not reads and len(known["distilled"]) == 70
    lengths = {len(row) for row in inputs.token_ids(profile)["distilled"]}
    assert len(reads) == 70 and reads != sorted(reads)
    assert max(given) == 7 and sum(given) == 2 * sum(
        map(len, known.values())
    )  # for vectors, and for token ids
    assert lengths <= {*range(1, inputs.max_tokens("distilled", profile) + 1)}
