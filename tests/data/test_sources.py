"""Data roots: what a recipe writes, a person's folders, and the environment variable."""

import os
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

from lib.config import profiles
from lib.data import sources
from lib.data.writing import write_once

BUILD = profiles.load("mini").build


def test_roots_of_a_profile(tmp_path, monkeypatch):
    built, own, other = (tmp_path / name for name in ("built", "own", "other"))
    for folder in (built, own, other):
        (folder / "news").mkdir(parents=True)
    monkeypatch.setattr(sources, "find_built", lambda build, artifacts: built)

    def find(build, *names):
        return sources.find_roots(build, names, tmp_path / "artifacts")

    assert find(BUILD, "built", str(own), str(own)) == [built, own]
    assert find(BUILD, str(own)) == [own]
    monkeypatch.setenv("THESIS_DATA", str(other))
    assert find(BUILD, "built", str(own)) == [built, other, own]
    assert find(None, "nowhere") == [other], "it names the root"
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "nowhere"))
    assert find(BUILD, "built") == [built], "where thesis puts downloads"
    monkeypatch.delenv("THESIS_DATA")
    with pytest.raises(ValueError, match=r"your own documents: set THESIS_DATA, or data_roots"):
        find(None, "built")
    with pytest.raises(ValueError, match="the data root 'nowhere' is not a folder: set"):
        find(None, "nowhere")
    (own / "mine").mkdir()
    assert sources.find_dataset([built, own], "mine") == own / "mine"
    with pytest.raises(ValueError, match=r"'news' is in .*built and .*own; rename"):
        sources.find_dataset([built, own], "news")
    with pytest.raises(ValueError, match=r"^letters: no such dataset folder in .*built, .*own: "):
        sources.find_dataset([built, own], "letters")


def write_and_read(folder):
    def write(place):
        with (folder.parent / "writers").open("a") as stream:
            stream.write("x")
        while len([*folder.parent.glob("*.begun")]) < 2:
            time.sleep(0.01)
        (place / "text").write_text("whole")

    (folder.parent / f"{os.getpid()}.begun").touch()
    return (write_once(folder, write) / "text").read_text()


def test_a_folder_is_written_whole_by_one_of_two_processes(tmp_path):
    def interrupt(folder):
        (folder / "text").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_once(tmp_path / "own", interrupt)
    assert not [*tmp_path.rglob("text")]
    with ProcessPoolExecutor(2) as pool:
        texts = [*pool.map(write_and_read, [tmp_path / "own"] * 2)]
    assert texts == ["whole"] * 2 and (tmp_path / "writers").read_text() == "x"
