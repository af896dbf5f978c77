"""The store: reuse, damage, interruption, and what a fingerprint does and does not notice."""

import errno
import os

import numpy as np
import pytest

from lib.store import files
from lib.store.records import Store, fingerprint, ragged, unragged


def test_fingerprint_ignores_order_but_not_values():
    assert fingerprint({"a": 1, "b": [2, 3]}) == fingerprint({"b": [2, 3], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
    assert fingerprint({"a": 1}) != fingerprint({"a": 1.5})


def test_fingerprint_refuses_what_has_no_stable_text():
    with pytest.raises(TypeError):
        fingerprint({"a": object()})


def test_arrays_are_computed_once(tmp_path):
    store, calls = Store(tmp_path), []

    def compute():
        calls.append(1)
        return {"x": np.arange(6.0).reshape(2, 3)}

    first = store.arrays("kind", "key", compute, model="cosine")
    again = store.arrays("kind", "key", compute)
    assert calls == [1]
    np.testing.assert_array_equal(first["x"], again["x"])
    assert store.note("kind", "key")["model"] == "cosine"


@pytest.mark.parametrize("damage", ["truncate", "flip", "no note", "half a note"])
def test_a_damaged_entry_is_computed_again_and_said_so(tmp_path, damage):
    store = Store(tmp_path)
    store.arrays("kind", "key", lambda: {"x": np.arange(100)})
    content, note = tmp_path / "kind" / "key.npz", tmp_path / "kind" / "key.note"
    data = content.read_bytes()
    if damage == "truncate":
        content.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        content.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    elif damage == "no note":
        note.unlink()
    else:
        note.write_text(note.read_text()[:20])
    assert not store.has("kind", "key")
    with pytest.warns(UserWarning, match="damaged or unfinished"):
        again = store.arrays("kind", "key", lambda: {"x": np.arange(100)})
    np.testing.assert_array_equal(again["x"], np.arange(100))
    assert store.has("kind", "key")


def test_a_failed_computation_leaves_nothing(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.record("kind", "key", lambda: 1 / 0)
    assert not store.has("kind", "key")
    assert store.record("kind", "key", lambda: {"accuracy": 0.5}) == {"accuracy": 0.5}


def test_a_full_disk_says_so_in_one_line_and_leaves_no_trace(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*No space left on device; nothing was lost") as caught:
        files.write_atomically(tmp_path / "file", b"content")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_ragged_lists_come_back():
    lists = [[1, 2, 3], [4], [5, 6]]
    assert unragged(ragged(lists)) == lists
    assert unragged(ragged([])) == []
