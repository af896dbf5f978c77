"""Provenance: what made a figure, in one JSON file."""

import json
import subprocess

import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.store import provenance
from lib.store.files import file_fingerprint


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return profiles.load("smoke", seeds=[5])


def written(profile, records=None, files=()):
    provenance.write("fig4_2", profile=profile, files=files, records=records)
    return json.loads((paths.provenance(profile) / "fig4_2.json").read_text("utf-8"))


def test_records_are_summarised(profile, tmp_path):
    records = pd.DataFrame(
        {
            # One model trained in 10 s with a row per task, each a record of its own; another in 4 s.
            "fingerprint": ["aa", "ab", "bb"],
            "embedding_fingerprint": ["ee", "ee", "ff"],
            "seed": [0, 0, 2],
            "device": ["cpu"] * 3,
            "seconds": [10.0, 10.0, 4.0],
        }
    )
    file = tmp_path / "fig4_2.csv"
    file.write_text("model\n")
    entry = written(profile, records, [file])
    assert entry["fingerprint"] == ["aa", "ab", "bb"]
    assert entry["seed"] == [0, 2] and entry["device"] == ["cpu"] and entry["records"] == 3
    assert entry["trainings"] == {"ee": 10.0, "ff": 4.0}
    assert entry["files"] == {"fig4_2.csv": file_fingerprint(file)}
    assert entry["profile"] == "smoke" and entry["parameters"] == profile.model_dump(mode="json")
    assert entry["versions"]["pandas"] == pd.__version__ and "torch" in entry["versions"]


DAMAGED = ["[]", "5", '"x"', "null", '{"inputs": 5}', "[" * 100_000, "", b"\xff", "{}"]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: str(text)[:20])
def test_a_damaged_run_note_counts_as_none(profile, text):
    provenance.note_run("01_first", profile, inputs={"lib": {}}, files={}, seconds=1.0)
    note = provenance.run_note("01_first", profile)
    (path,) = paths.run_folder(profile).rglob("01_first.json")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert note["seconds"] == 1.0 and provenance.run_note("01_first", profile) == {}


def test_a_run_note_with_a_changed_value_counts_as_none(profile):
    provenance.note_run("01_first", profile, inputs={"lib": {}}, files={}, seconds=1.0)
    (path,) = paths.run_folder(profile).rglob("01_first.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"seconds": 2.0}))
    assert provenance.run_note("01_first", profile) == {}


def test_a_run_note_holds_files_as_its_run_saved_them(profile, tmp_path):
    """As what another run of the profile, under another artifact root, has drawn over them is not this run's."""
    figure, page = tmp_path / "fig4_2.csv", tmp_path / "index.html"
    for file in (figure, page):
        file.write_text("of this run")
    saved = file_fingerprint(figure)
    provenance.write("fig4_2", profile=profile, files=[figure])
    figure.write_text("of another run")
    provenance.note_run("02_second", profile, inputs={}, files=[figure, page], seconds=1.0)
    assert provenance.run_note("02_second", profile)["files"] == {
        "fig4_2.csv": saved,
        "index.html": saved,
    }


def test_a_damaged_provenance_says_nothing(profile):
    entry = written(profile)
    del entry["entry_fingerprint"]
    assert provenance.read("fig4_2", profile) == entry and provenance.read("fig4_3", profile) == {}
    path = paths.provenance(profile) / "fig4_2.json"
    for old, new in (('"smoke"', '"mini"'), ("{", "[")):
        text = path.read_text()
        path.write_text(text.replace(old, new, 1))
        assert provenance.read("fig4_2", profile) == {}
        path.write_text(text)


def test_no_records(profile):
    entry = written(profile)
    assert entry["records"] == 0 and "trainings" not in entry


def test_commit_and_dirty(profile, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "clone")
    (tmp_path / "clone").mkdir()

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(paths.ROOT), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert (
        written(profile)["commit"] is None and written(profile)["dirty"] is None
    )  # an unpacked archive
    git("init")
    (paths.ROOT / "a.txt").write_text("1")
    git("add", "a.txt")
    git("commit", "-m", "first")
    entry = written(profile)
    assert entry["commit"] == git("rev-parse", "HEAD") and entry["dirty"] is False
    (paths.ROOT / "a.txt").write_text("2")
    assert written(profile)["dirty"] is True
