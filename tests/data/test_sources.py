"""Data roots: what a builder writes, a person's folders, and the environment variable."""

import os
import time
import unicodedata
from concurrent.futures import ProcessPoolExecutor

import pytest

from lib.config import profiles
from lib.data import sources
from lib.data.writing import write_once

BUILD = profiles.load("mini").build


@pytest.fixture
def built(tmp_path, monkeypatch):
    """A builder that has written the dataset folder `news`."""
    (tmp_path / "built/news").mkdir(parents=True)
    monkeypatch.setattr(sources, "find_built", lambda build, artifacts: tmp_path / "built")
    return tmp_path / "built"


def find(build, *names, tmp_path):
    return sources.find_roots(build, names, tmp_path / "artifacts")


def test_roots_of_a_profile(tmp_path, built, monkeypatch):
    own, other = tmp_path / "own", tmp_path / "other"
    for folder in (own, other):
        folder.mkdir()
    assert find(BUILD, "built", tmp_path=tmp_path) == [built]
    assert find(BUILD, "built", str(own), tmp_path=tmp_path) == [built, own]
    assert find(BUILD, str(own), tmp_path=tmp_path) == [own]
    monkeypatch.setenv("THESIS_DATA", str(other))
    assert find(BUILD, "built", str(own), tmp_path=tmp_path) == [built, other, own]
    assert find(None, "nowhere", tmp_path=tmp_path) == [other], "it names the root"
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / "nowhere"))
    assert find(BUILD, "built", tmp_path=tmp_path) == [built], "where thesis puts downloads"
    monkeypatch.delenv("THESIS_DATA")
    assert find(None, "built", str(own), tmp_path=tmp_path) == [own]
    with pytest.raises(ValueError, match=r"your own documents: set THESIS_DATA, or data_roots"):
        find(None, "built", tmp_path=tmp_path)
    with pytest.raises(ValueError, match="the data root 'nowhere' is not a folder: set"):
        find(None, "nowhere", tmp_path=tmp_path)


def test_a_dataset_folder_is_in_one_root(tmp_path, built):
    own = tmp_path / "own"
    (own / "mine").mkdir(parents=True)
    assert sources.find_dataset([built, own], "mine") == own / "mine"
    (own / "news").mkdir()
    with pytest.raises(ValueError, match=r"'news' is in .*built and .*own; rename") as error:
        sources.find_dataset([built, own], "news")
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match=r"^letters: no such dataset folder in .*built, .*own: "):
        sources.find_dataset([built, own], "letters")


@pytest.mark.parametrize("typed, held", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_root_counts_once_by_any_form_of_its_name(tmp_path, write, typed, held):
    """A profile is typed, and a disk from macOS writes é as e and an accent."""
    root = tmp_path / unicodedata.normalize(held, "é/à")
    write(root / "mine/documents.jsonl", {"id": 0, "text": "a"})
    name = unicodedata.normalize(typed, str(root))
    for names in ([name], [name, str(root)], [str(root), f"{root}/mine/.."]):
        (found,) = find(None, *names, tmp_path=tmp_path)
        assert sources.find_dataset([found], "mine").samefile(root / "mine")


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
