"""Folders that are written whole or not at all."""

import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor

import pytest

from lib.data.written_once import SEAL, write_once
from lib.store.sealed import read_seal


def test_a_folder_is_written_once_with_its_seal(tmp_path):
    written = []

    def write(folder):
        written.append(folder)
        (folder / "part").mkdir()
        (folder / "part/text").write_text("whole")

    folder = write_once(tmp_path / "root/own", write)
    assert folder == write_once(tmp_path / "root/own", write) and len(written) == 1
    assert read_seal(folder / SEAL)["files"].keys() == {"part/text"}


def test_a_killed_writer_leaves_nothing_and_starts_anew(tmp_path):
    def write(folder):
        assert not list(folder.iterdir())
        (folder / "text").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_once(tmp_path / "own", write)
    assert not (tmp_path / "own").exists()
    (tmp_path / ".own.unfinished").mkdir()  # of a process that had no time to clean up
    (tmp_path / ".own.unfinished/text").write_text("half")
    with pytest.raises(KeyboardInterrupt):
        write_once(tmp_path / "own", write)


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "text").write_text("short"),
        lambda folder: (folder / "text").write_text("whale"),
        lambda folder: (folder / "text").unlink(),
        lambda folder: (folder / SEAL).write_text("{"),
        lambda folder: (folder / SEAL).unlink(),
    ],
)
def test_what_is_damaged_later_is_written_again_and_named(tmp_path, damage):
    def write(folder):
        (folder / "text").write_text("whole")

    folder = write_once(tmp_path / "own", write)
    damage(folder)
    with pytest.warns(UserWarning, match=r"own is damaged and is written again$"):
        write_once(tmp_path / "own", write)
    with warnings.catch_warnings(action="error"):
        assert write_once(tmp_path / "own", write) == folder
    assert (folder / "text").read_text() == "whole"


def write_beside_another(folder):
    with (folder.parent / "writers").open("a") as stream:
        stream.write("x")
    while len([*folder.parent.glob("*.begun")]) < 2:
        time.sleep(0.01)
    (folder / "text").write_text("whole")


def write_and_read(folder):
    (folder.parent / f"{os.getpid()}.begun").touch()
    return (write_once(folder, write_beside_another) / "text").read_text()


def test_of_two_processes_one_writes_and_the_other_waits(tmp_path):
    with ProcessPoolExecutor(2) as pool:
        texts = [*pool.map(write_and_read, [tmp_path / "own"] * 2)]
    assert texts == ["whole"] * 2 and (tmp_path / "writers").read_text() == "x"
