"""Benches of the profile smoke over one store, and a way to edit the source of lib."""

import shutil

import pytest

from lib.config import profiles
from lib.experiments import Bench
from lib.store import cache as caches
from lib.store import code
from lib.store.cache import Cache


@pytest.fixture
def make_bench(filled_store, tmp_path):
    """A function that makes a bench with overrides over a copy of `filled_store`."""
    store = tmp_path / "store"
    shutil.copytree(filled_store, store)

    def make(*, keep=False, **overrides):
        changes = {"tasks.limit": 60} | {k.replace("__", "."): v for k, v in overrides.items()}
        return Bench(profiles.load("smoke", overrides=changes), Cache(store, keep=keep))

    return make


@pytest.fixture
def edit_source(monkeypatch):
    """A function that makes a module of lib look edited to what fingerprints code.

    `edit(module, change)`: change takes the module's source and returns the edited one.
    """
    real = code._read_everything()

    def forget():
        for function in (code._fingerprint_modules, caches._read_version):
            function.cache_clear()

    def edit(module, change):
        path = code._path(module)
        edited = change(real[path])
        assert edited != real[path]
        monkeypatch.setattr(code, "_read_everything", lambda: {**real, path: edited})
        forget()

    yield edit
    monkeypatch.undo()
    forget()
