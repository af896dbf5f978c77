"""Benches of the profile smoke over a copy of a filled store."""

import shutil

import pytest

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
