"""The cache: what is reused, what is made again, and what a kill or damage costs."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest

from lib.store import cache as caches
from lib.store.cache import Cache, Code, NotComputed, Product, hash_content, hash_items, list_stale
from tests.threads import call_in_threads


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "store")


def product(kind="student", **inputs):
    return Product(kind, inputs or {"seed": 0}, (Code(("lib.losses.cosine",)),), ("numpy",))


class Maker:
    """Counts how often it is asked."""

    def __init__(self, value):
        self.value, self.calls = value, 0

    def __call__(self):
        self.calls += 1
        return self.value


def lengths(texts):
    rows = [np.arange(len(text), dtype=np.int32) for text in texts]
    return {"size": np.array([[len(text)] for text in texts], float), "ids": rows}


@pytest.fixture
def change_code(monkeypatch):
    """A function that makes a module or package look other than when products were made."""

    def change(name):
        versions, read = Product.versions.func, caches._read_version

        def changed(product):
            found = versions(product)
            return {**found, name: "changed"} if name in found else found

        monkeypatch.setattr(Product, "versions", property(changed))
        monkeypatch.setattr(
            caches, "_read_version", lambda asked: "changed" if asked == name else read(asked)
        )

    return change


def test_arrays_and_records_are_made_once(cache):
    arrays = Maker({"x": np.arange(3.0)})
    record = Maker({"accuracy": 0.5, "heads": [0.1 + 0.2]})
    for _ in range(2):
        assert np.array_equal(cache.arrays(product(), arrays)["x"], np.arange(3.0))
        assert cache.record(product("record"), record) == record.value
    assert arrays.calls == record.calls == 1


def test_other_inputs_are_another_product(cache):
    made = [cache.record(product(seed=seed), Maker(seed)) for seed in (0, 1, 0)]
    assert made == [0, 1, 0]


def test_changed_code_makes_a_product_stale_and_keep_takes_it(cache, change_code):
    cache.record(product(), Maker("old"))
    change_code("lib.losses.cosine")
    assert cache.find(product()) is None
    stale = list_stale(cache.used.values())
    assert list(stale) == ["lib.losses.cosine"]
    assert [note["kind"] for note in stale["lib.losses.cosine"]] == ["student"]
    keeping = Cache(cache.folder, keep=True)
    assert keeping.record(product(), Maker("new")) == "old"
    assert list(keeping.kept) == [("student", product().key)]
    assert cache.record(product(), Maker("new")) == "new"
    assert len(list((cache.folder / "student").glob("*.json"))) == 1  # the old one is gone


def test_another_version_of_a_package_counts_as_changed_code(cache, change_code):
    cache.record(product(), Maker(0))
    change_code("numpy")
    assert cache.find(product()) is None
    assert list(list_stale(cache.used.values())) == ["numpy"]


def test_code_of_other_modules_does_not_count(cache, change_code):
    cache.record(product(), Maker(0))
    change_code("lib.losses.mse")
    assert cache.find(product()) is not None


def test_rows_that_newer_code_adds_to_a_kept_table_are_not_the_older_code_s(cache):
    older = product("rows")
    newer = Product("rows", older.inputs, (Code(("lib.losses.mse",)),), older.packages)

    def nines(texts):
        return {"size": np.full((len(texts), 1), 9.0), "ids": [np.zeros(1, int)] * len(texts)}

    cache.rows(older, ["a"], lengths)
    kept = Cache(cache.folder, keep=True).rows(newer, ["a", "bb"], nines)
    assert kept["size"][:].ravel().tolist() == [1, 9]
    assert cache.has_rows(older, ["a"])
    assert not cache.has_rows(older, ["bb"])


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_damaged_content_is_made_again_with_a_warning(cache, damage):
    made = Maker({"x": np.ones(2)})
    cache.arrays(product(), made)
    path = next((cache.folder / "student").glob("*.npz"))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    with pytest.warns(UserWarning, match="damaged"):
        assert np.array_equal(cache.arrays(product(), made)["x"], np.ones(2))
    assert made.calls == 2


def test_a_damaged_note_is_no_note(cache):
    cache.record(product(), Maker(1))
    path = next((cache.folder / "student").glob("*.json"))
    path.write_bytes(b'{"files": 3}')
    assert cache.record(product(), Maker(1)) == 1


def test_reading_computes_nothing(cache):
    reading = Cache(cache.folder, reading=True)
    with pytest.raises(NotComputed, match="student"):
        reading.record(product(), Maker(0))
    with pytest.raises(NotComputed):
        reading.rows(product("rows"), ["a"], lengths)
    cache.record(product(), Maker(7))
    assert reading.record(product(), Maker(0)) == 7


def test_a_table_makes_missing_rows_alone(cache):
    asked = []

    def make(texts):
        asked.append(texts)
        return lengths(texts)

    rows = cache.rows(product("rows"), ["a", "bb", "a", "cccc"], make)
    assert rows["size"][:].ravel().tolist() == [1, 2, 1, 4]
    assert [part.tolist() for part in rows["ids"][1:3]] == [[0, 1], [0]]
    rows = cache.rows(product("rows"), ["dd", "cccc", "bb"], make)
    assert rows["size"][[0, 2]].ravel().tolist() == [2, 2]
    assert rows["ids"][1].tolist() == [0, 1, 2, 3]
    assert asked == [["a", "bb", "cccc"], ["dd"]]


def test_rows_are_passed_by_the_names_of_their_files(cache):
    texts = ["a" * number for number in range(1, 2000)]
    rows = cache.rows(product("rows"), texts, lengths)
    for column in rows.values():
        sent = pickle.dumps(column)
        assert len(sent) < 60_000
        assert hash_content(pickle.loads(sent)) == hash_content(column)


def test_stale_rows_are_made_again(cache, change_code):
    cache.rows(product("rows"), ["a"], lengths)
    assert cache.has_rows(product("rows"), ["a"])
    change_code("lib.losses.cosine")
    assert not cache.has_rows(product("rows"), ["a"])
    assert Cache(cache.folder, keep=True).has_rows(product("rows"), ["a"])
    rows = cache.rows(product("rows"), ["a"], lambda texts: {"size": np.full((len(texts), 1), 9.0)})
    assert rows["size"][:].tolist() == [[9.0]]


def test_rows_of_other_code_never_stand_in_for_rows_that_are_held(cache, change_code):
    held = cache.rows(product("rows"), ["a", "bb"], lengths)["size"]
    change_code("lib.losses.cosine")
    cache.rows(product("rows"), ["cccc"], lengths)
    assert held[:].ravel().tolist() == [1, 2]


def test_a_damaged_segment_is_made_again(cache):
    table = product("rows")
    cache.rows(table, ["a", "bb"], lengths)
    path = next(cache.folder.rglob("*.size.npy"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    assert cache.rows(table, ["bb"], lengths)["size"][:].tolist() == [[2.0]]


def test_no_items_give_no_rows(cache):
    assert cache.rows(product("rows"), [], lengths) == {}
    cache.rows(product("rows"), ["a"], lengths)
    assert len(cache.rows(product("rows"), [], lengths)["size"]) == 0


def test_many_at_once_end_with_the_same_rows(cache):
    def add(number):
        texts = ["x" * length for length in range(1 + number, 12 + number)]
        return cache.rows(product("rows"), texts, lengths)["size"][:].ravel().tolist()

    results = call_in_threads(*(partial(add, number) for number in range(8)))
    assert results == [list(range(1 + number, 12 + number)) for number in range(8)]


def test_items_are_named_by_content():
    ids = np.array([5, 6], np.int32)
    assert hash_items(["a", "b", "a"])[0] == hash_items(["a"])[0]
    assert hash_items([ids])[0] != hash_items([ids[:1]])[0]
    assert len(hash_items(["half a pair: \ud800"])) == 1


def test_a_kill_while_rows_are_added_loses_no_piece_that_was_complete(tmp_path):
    script = f"""
        import os, signal, sys
        import numpy as np
        from pathlib import Path
        from lib.store import cache as caches
        caches.PIECE = 2
        calls = 0
        def make(texts):
            global calls
            calls += 1
            if calls == 4 and sys.argv[1] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            print(len(texts), flush=True)
            return {{"size": np.array([[float(len(text))] for text in texts])}}
        table = caches.Product("rows", {{}}, (caches.Code(("lib.losses.cosine",)),))
        texts = ["x" * length for length in range(7)]
        rows = caches.Cache(Path({str(tmp_path)!r})).rows(table, texts, make)
        print(rows["size"][:].ravel().tolist())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    options = {"env": environment, "capture_output": True, "text": True}
    killed = subprocess.run([*command, "die"], **options)
    assert killed.returncode == -signal.SIGKILL
    assert killed.stdout == "7\n2\n2\n"
    again = subprocess.run([*command, "live"], **options)
    assert again.stdout == "3\n2\n1\n[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]\n", again.stderr
