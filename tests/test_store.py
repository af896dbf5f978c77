"""The store: computed once, whole or not at all, whatever dies; names; folders of people."""

import os
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lib import store
from lib.store import MARKER, NotComputed, Product, Store, check_target, replace_folder

ONE = Product("kind", {"a": 1}, ("losses.mse",), label="one")
POOL = pa.proxy_memory_pool(pa.default_memory_pool())  # outlives what it holds
COLUMNS = {
    "vectors": lambda texts: np.array([[len(t), t.count("a")] for t in texts], np.float32),
    "number": lambda texts: np.array([len(t) for t in texts]),
    "ids": lambda texts: [np.arange(len(t), dtype=np.int32) for t in texts],
}


def compute(texts):
    return {name: column(texts) for name, column in COLUMNS.items()}


def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def run(folder, code):
    """Run code in another process, with `folder` and what this module has."""
    head = f"from tests.test_store import *; folder = Path({str(folder)!r})\n"
    command = [sys.executable, "-c", head + textwrap.dedent(code)]
    return subprocess.Popen(command, env=os.environ | {"PYTHONPATH": str(store.LIB.parent)})


def test_three_processes_compute_once(tmp_path):
    code = """
    def count():
        with open(folder / "calls", "a") as file:
            file.write("call ")
        return {"x": np.arange(3), "loss": 2.5}
    Store(folder).get(ONE, count)
    """
    workers, kept = [run(tmp_path, code) for _ in range(3)], Store(tmp_path)
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert (tmp_path / "calls").read_text() == "call "
    assert kept.get(ONE, pytest.fail)["x"].tolist() == [0, 1, 2] and kept.read(ONE)["loss"] == 2.5
    assert kept.has(ONE) and kept.used == {ONE.name}


def test_a_row_is_read_without_the_rest_of_its_column(tmp_path):
    texts, wide = [f"{n}" for n in range(600)], lambda part: {"x": np.ones((len(part), 1000))}
    rows, default = Store(tmp_path).rows(ONE, texts, wide)["x"], pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    try:
        assert rows[3].shape == (1000,) and rows[[599, 0]].shape == (2, 1000)
    finally:
        pa.set_memory_pool(default)
    assert POOL.max_memory() < 100_000, "the column has 4.8 million bytes"


@pytest.mark.parametrize("column", COLUMNS)
def test_a_table_computes_missing_rows_only_and_keeps_the_order(tmp_path, monkeypatch, column):
    monkeypatch.setattr(store, "PIECE", 1)
    kept, asked = Store(tmp_path), []

    def remember(texts):
        asked.extend(texts)
        return compute(texts)

    kept.rows(ONE, ["aa", "b", "aa"], remember)
    texts = ["ccc", "aa", "ccc", "b", "aaaa"]
    given = pd.Series(texts, index=range(5)[::-1])  # in its order, whatever its index
    rows = kept.rows(ONE, given, remember)[column]
    assert asked == ["aa", "b", "ccc", "aaaa"]
    expected = COLUMNS[column](texts)
    mask = np.array([True, False, False, False, True])
    for place in (slice(None), slice(1, 3), [4, 0], mask):
        wanted = np.array(expected, object)[place] if column == "ids" else expected[place]
        np.testing.assert_equal([*rows[place]], [*wanted])
    np.testing.assert_equal(rows[-1], expected[-1])
    assert kept.has_rows(ONE, pd.Index(texts)) and not kept.has_rows(ONE, ["new"])


SLOW = "lambda texts: kill() if 'bbb' in texts else compute(texts)"


@pytest.mark.parametrize(
    ("code", "kept"),
    [  # a process that is killed while it computes, and one that is killed while it writes
        ("Store(folder).get(ONE, lambda: kill())", 0),
        ("store.os.fsync = kill; Store(folder).get(ONE, lambda: {'x': np.arange(9)})", 0),
        (f"store.PIECE = 1; Store(folder).rows(ONE, ['aaa', 'bbb'], {SLOW})", 1),
    ],
)
def test_what_a_killed_process_leaves_is_made_again(tmp_path, code, kept):
    assert run(tmp_path, code).wait() == -signal.SIGKILL
    assert len([*tmp_path.rglob("*.arrow")]) == kept and not [*tmp_path.rglob("*.npz")]
    Store(tmp_path).get(ONE, lambda: {"x": np.arange(9)})
    rows = Store(tmp_path).rows(ONE, ["aaa", "bbb"], compute)["number"]
    assert rows[:].tolist() == [3, 3] and [*tmp_path.rglob(".*")] == []


SOURCE = '''
def f(x: int) -> int:
    """Doubles."""
    if x < 0: raise ValueError("negative")
    y: int = 2
    return y * x
'''


@pytest.mark.parametrize(
    ("same", "old", "new"),
    [
        *((True, "Doubles.", "Twice."), (True, '"negative"', 'f"{x} is negative"')),
        *((True, "x: int", "x: float"), (True, "-> int", "-> float"), (True, "y: int", "y: str")),
        *((True, "return", "# comment\n    return"), (False, "x < 0", "x < 1")),
        *((False, "int = 2", "int = 4"), (False, "y * x", "y + x")),
    ],
)
def test_only_what_can_change_a_result_changes_a_name(same, old, new):
    assert old in SOURCE
    assert (store._strip_code(SOURCE) == store._strip_code(SOURCE.replace(old, new))) == same


def test_a_name_follows_from_inputs_and_those_of_products_among_them(edit_source):
    def build(**inputs):
        inner = Product("inner", {"a": 1} | inputs, ("losses.cosine",))
        return Product("outer", {"inner": inner, "b": [1, 2]}, ("losses.mse",))

    first = build()
    assert first.name == build().name
    assert first.key != build(a=2).key
    edit_source("losses.cosine")
    assert build().key == first.key and build().name != first.name


def test_what_older_code_made_is_made_again_or_used_to_keep(tmp_path, edit_source):
    Store(tmp_path).get(ONE, lambda: {"x": 1})
    Store(tmp_path).rows(ONE, ["a"], compute)
    old = ONE.name
    edit_source("losses.mse")
    new = Product(ONE.kind, ONE.inputs, ONE.modules, label="one")
    keeping = Store(tmp_path, keep=True)
    assert keeping.get(new, pytest.fail)["x"] == 1
    assert keeping.has_rows(new, ["a"]) and keeping.outdated == {old}
    with pytest.raises(NotComputed, match="kind one is not in"):
        Store(tmp_path, reading=True).get(new, pytest.fail)
    assert Store(tmp_path).get(new, lambda: {"x": 2})["x"] == 2
    keeping.rows(new, ["a", "b"], compute)
    left = {path for path in tmp_path.glob("kind/*/*") if path.suffix != ".lock"}
    assert left == {tmp_path / f"{new.name}{end}" for end in (".npz", ".rows")}
    assert new.name != old


def write_student(folder):
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_text("new")


def test_a_folder_of_ours_is_replaced(tmp_path):
    target = tmp_path / "mine"
    replace_folder(target, "student", write_student)
    target.chmod(0o700)
    replace_folder(target, "student", write_student)
    assert target.stat().st_mode & 0o777 == 0o700
    assert {p.name for p in target.rglob("*")} == {"model", "weights", MARKER}
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]
    with pytest.raises(ValueError, match="name another folder"):
        check_target(target, "vectors")


@pytest.mark.parametrize("change", ["edit", "add", "move", "link", "all"])
def test_what_a_person_made_or_changed_is_never_replaced(tmp_path, change):
    """Also a file that is older than ours, a link to another folder, and a file in its place."""
    target, own = tmp_path / "mine", tmp_path / "own.txt"
    own.write_text("a person's")
    os.utime(own, (0, 0))
    replace_folder(target, "student", write_student)
    place = target / "model" / ("weights" if change == "edit" else "notes.txt")
    if change == "move":
        own.rename(place)
    elif change == "link":
        place.symlink_to(own)
    elif change == "all":
        place = target.rename(tmp_path / "other") / "model/weights"
        place.write_text("a person's")
        target.symlink_to(tmp_path / "other")
    else:
        place.write_text("a person's")
    (target / MARKER).touch()  # as by a copy, or by a backup that was restored
    with pytest.raises(ValueError, match="name another folder"):
        replace_folder(target, "student", write_student)
    assert place.read_text() == "a person's"


def test_a_failed_write_keeps_the_old(tmp_path):
    target, file = tmp_path / "mine", tmp_path / "figure.csv"
    replace_folder(target, "student", write_student)
    store.write_text(file, "old")

    def fail(place):
        (place / "half").write_text("half") if isinstance(place, Path) else place.write(b"half")
        raise RuntimeError("no")

    for write in (partial(replace_folder, target, "student"), partial(store.write_whole, file)):
        with pytest.raises(RuntimeError, match="no"):
            write(fail)
    assert (target / "model" / "weights").read_text() == "new" and file.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.csv", "mine"]
