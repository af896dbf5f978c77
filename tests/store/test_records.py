"""The store: reuse, damage, interruption, and what a fingerprint does and does not notice."""

import errno
import hashlib
import io
import json
import os
import warnings

import numpy as np
import pytest

from lib.store import files
from lib.store.files import fingerprint
from lib.store.records import Store

RECIPE = {"kind": "kind", "of": [1, {"text": "é"}]}
KEY = fingerprint(RECIPE)


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

    first = store.arrays(RECIPE, compute, model="cosine")
    again = store.arrays(RECIPE, compute)
    assert calls == [1]
    np.testing.assert_array_equal(first["x"], again["x"])
    assert store.note(RECIPE)["model"] == "cosine"


DAMAGE = {
    "content cut short": (".npz", lambda data: data[: len(data) // 2]),
    "a bit of the content": (".npz", lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:]),
    "empty content": (".npz", lambda data: b""),
    "note cut short": (".note", lambda data: data[:20]),
    "empty note": (".note", lambda data: b""),
    "a list for a note": (".note", lambda data: b"[]"),
    "a note that is not UTF-8": (".note", lambda data: b"\xff\xfe{}"),
    "a note of zeros": (".note", lambda data: bytes(len(data))),
    "a note without its fields": (".note", lambda data: b"{}"),
    "a note of another content": (".note", lambda data: b'{"sha256": "0", "seconds": 1}'),
    "a deeply nested note": (".note", lambda data: b"[" * 100_000),
    "a note with a number for its checksum": (".note", lambda data: b'{"sha256": 1}'),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("kind", ["arrays", "record"])
def test_a_damaged_entry_is_computed_again_and_its_file_named(tmp_path, kind, damage):
    store = Store(tmp_path)
    value = {"arrays": {"x": np.arange(100)}, "record": {"x": list(range(300))}}[kind]
    get = getattr(store, kind)
    get(RECIPE, lambda: value)
    suffix, change = DAMAGE[damage]
    suffix = ".json" if suffix == ".npz" and kind == "record" else suffix
    path = tmp_path / "kind" / f"{KEY}{suffix}"
    path.write_bytes(change(path.read_bytes()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert not store.has(RECIPE)
        store.note(RECIPE)
        again = get(RECIPE, lambda: value)
    texts = [str(warning.message) for warning in caught]
    assert any(str(path.with_suffix("")) in text for text in texts) and not any(
        "\n" in text for text in texts
    )
    np.testing.assert_array_equal(again["x"], value["x"])
    assert store.has(RECIPE) and store.note(RECIPE)["seconds"] >= 0


def of_one_number():
    buffer = io.BytesIO()
    np.save(buffer, 1)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content", [b"\xff garbage", b"", b"PK\x05\x06", of_one_number(), b"[" * 100_000]
)
@pytest.mark.parametrize("kind", ["arrays", "record"])
def test_a_foreign_content_is_computed_again_though_its_note_fits(tmp_path, kind, content):
    store = Store(tmp_path)
    path = tmp_path / "kind" / f"{KEY}{'.npz' if kind == 'arrays' else '.json'}"
    path.parent.mkdir()
    path.write_bytes(content)
    path.with_suffix(".note").write_text(
        json.dumps({"sha256": hashlib.sha256(content).hexdigest()})
    )
    assert not store.has(RECIPE)
    with pytest.warns(UserWarning, match="was damaged or unfinished"):
        again = getattr(store, kind)(RECIPE, lambda: {"x": [1, 2]})
    assert list(again["x"]) == [1, 2] and store.has(RECIPE)


def test_an_entry_without_its_note_is_unfinished(tmp_path):
    store = Store(tmp_path)
    store.record(RECIPE, lambda: 1)
    (tmp_path / "kind" / f"{KEY}.note").unlink()
    with pytest.warns(UserWarning, match=f"{KEY}.json was damaged or unfinished"):
        assert store.record(RECIPE, lambda: 2) == 2


def test_a_failed_computation_leaves_nothing(tmp_path):
    store = Store(tmp_path)
    with pytest.raises(ZeroDivisionError):
        store.record(RECIPE, lambda: 1 / 0)
    assert not store.has(RECIPE)
    assert store.record(RECIPE, lambda: {"accuracy": 0.5}) == {"accuracy": 0.5}


def test_a_full_disk_says_so_in_one_line_and_leaves_no_trace(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        OSError, match=r"cannot write .*No space left on device; nothing was lost"
    ) as caught:
        files.write_atomically(tmp_path / "file", b"content")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
