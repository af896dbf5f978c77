"""Benches of the profile smoke over a copy of a filled store, and edited sources of lib."""

import shutil

import pytest

from lib import store
from lib.config import profiles
from lib.experiments.bench import Bench
from lib.store import Store


@pytest.fixture
def make_bench(filled_store, tmp_path):
    """A function that makes a bench with overrides over a copy of `filled_store`."""
    folder = tmp_path / "store"
    shutil.copytree(filled_store, folder)

    def make(*, keep=False, **overrides):
        changes = {"tasks.limit": 60} | {k.replace("__", "."): v for k, v in overrides.items()}
        return Bench(profiles.load("smoke", overrides=changes), Store(folder, keep=keep))

    return make


@pytest.fixture
def edit_source(monkeypatch):
    """`edit(module, change)`: names are as if `change` had been applied to a module's source."""
    real = store.read_sources()

    def edit(module, change=lambda source: f"{source}\nEDITED = 1\n"):
        path = f"{module.replace('.', '/')}.py"
        assert change(real[path]) != real[path]
        edited = {**real, path: change(real[path])}
        monkeypatch.setattr(store, "read_sources", lambda: edited)
        store.hash_code.cache_clear()

    yield edit
    monkeypatch.undo()
    store.hash_code.cache_clear()
