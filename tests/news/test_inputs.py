"""What the names of teacher vectors and token ids depend on."""

import numpy as np
import pytest

from lib.config import profiles
from lib.news import inputs
from lib.store import source_keys

_CACHED = (source_keys.source_key, source_keys.imports, source_keys.home)


@pytest.fixture
def edited(monkeypatch):
    """Calls that append a line to a module's source, as far as source keys see it, and forget what they remember."""
    read = source_keys.source

    def edit(module):
        monkeypatch.setattr(source_keys, "source", lambda name: read(name) + "\nEDITED = 1\n" * (name == module))
        for function in _CACHED:
            function.cache_clear()

    yield edit
    for function in _CACHED:
        function.cache_clear()


def _codes(profile, monkeypatch):
    """The code part of each recipe that this module gives to the store."""
    codes = {}

    class Store:
        def arrays(self, recipe, make):
            codes[recipe["kind"]] = recipe["code"][0]
            return {"vectors": None}

    monkeypatch.setattr(inputs, "store", Store)
    monkeypatch.setattr(inputs, "once", lambda recipe, make: make() if recipe["kind"] == "news_inputs" else None)
    inputs.piece(0, profile)
    inputs.inputs_of(profile)
    return codes


def test_the_key_covers_the_code_that_runs_and_no_student(edited, monkeypatch):
    profile = profiles.load("smoke")
    before = _codes(profile, monkeypatch)
    assert {*before} == {"news_teacher", "news_inputs"}
    for module in ("lib.news.inputs", "lib.news.widths", "lib.news.events"):
        edited(module)
        after = _codes(profile, monkeypatch)
        assert all(after[kind] != before[kind] for kind in before), module
    for module in ("lib.news.embedders", "lib.news.students", "lib.news.designs", "lib.news.distil", "lib.news.tuning"):
        edited(module)
        assert _codes(profile, monkeypatch) == before, module


@pytest.mark.parametrize("max_tokens", [256, 8])
def test_windows_and_documents_are_embedded_however_short_documents_are_cut(max_tokens, monkeypatch):
    class Reader:
        def __init__(self, limit):
            self.limit = limit

        def encode(self, texts):
            return np.array([[self.limit, len(text)] for text in texts])

    class Store:
        def arrays(self, recipe, make):
            return make()

    profile = profiles.load("smoke").changed("news", words=10, max_tokens=max_tokens)
    uses = {"distilled": ["a", "bb"], "train": ["ccc", "dddd"]}
    for name, value in {"store": Store, "recipe_of": lambda *_: {}, "texts": lambda _: uses}.items():
        monkeypatch.setattr(inputs, name, value)
    monkeypatch.setattr(inputs, "reader", lambda _, limit: Reader(limit))
    windows = min(12, max_tokens)
    expected = [[windows, 1], [windows, 2], [max_tokens, 3], [max_tokens, 4]]
    assert inputs.piece(0, profile).tolist() == expected
