"""Provenance: what made a figure, in one JSON file, and when a notebook last ran to its end."""

import subprocess

import pandas as pd
import pytest

from lib.config import paths, profiles
from lib.store import provenance
from lib.store.files import sha256


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    return profiles.load("smoke", seeds=[5])


def write(profile, records=None, files=(), **more):
    provenance.write("fig4_2", profile=profile, files=files, records=records, **more)
    return provenance.read("fig4_2", profile)


def test_records_are_summarised(profile, tmp_path):
    records = pd.DataFrame(
        {
            # One model trained in 10 s with a row per task, each a record; another in 4 s.
            "fingerprint": ["aa", "ab", "bb"],
            "embedding_fingerprint": ["ee", "ee", "ff"],
            "seed": [0, 0, 2],
            "device": ["cpu"] * 3,
            "seconds": [10.0, 10.0, 4.0],
        }
    )
    file = tmp_path / "fig4_2.csv"
    file.write_text("model\n")
    said = write(profile, records, [file])
    assert said["fingerprint"] == ["aa", "ab", "bb"]
    assert said["seed"] == [0, 2] and said["device"] == ["cpu"] and said["records"] == 3
    assert said["trainings"] == {"ee": 10.0, "ff": 4.0}
    assert said["files"] == {"fig4_2.csv": sha256(file)} and "stale" not in said
    assert said["profile"] == "smoke" and said["parameters"] == profile.model_dump(mode="json")
    assert said["versions"]["pandas"] == pd.__version__ and "torch" in said["versions"]


def test_stale_products_are_said(profile):
    said = write(profile, stale={"student/b", "student/a"})
    assert said["stale"] == ["student/a", "student/b"] and said["records"] == 0


DAMAGED = ["[]", "5", '"x"', "null", '{"inputs": 5}', '{"files": {}}', "[" * 100_000, "", "{"]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda text: text[:20])
def test_a_damaged_note_counts_as_none(profile, text, tmp_path):
    file = tmp_path / "fig4_2.csv"
    file.write_text("x")
    facts = {"inputs": {"lib": "a"}, "seconds": 1.25, "products": ["student/a.json"]}
    provenance.write_run("01_first", profile, files=[file], **facts)
    note = provenance.read_run("01_first", profile)
    assert note == {"files": {"fig4_2.csv": sha256(file)}, **facts, "seconds": 1.2}
    (path,) = paths.run_folder(profile).rglob("01_first.json")
    path.write_text(text)
    assert provenance.read_run("01_first", profile) == {}
    assert provenance.read("fig4_3", profile) == {}


def test_commit_and_dirty(profile, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path / "clone")
    (tmp_path / "clone").mkdir()

    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(paths.ROOT), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    assert provenance.commit() == {"commit": None, "dirty": None}  # an unpacked archive
    git("init")
    (paths.ROOT / "a.txt").write_text("1")
    git("add", "a.txt")
    git("commit", "-m", "first")
    assert provenance.commit() == {"commit": git("rev-parse", "HEAD"), "dirty": False}
    (paths.ROOT / "a.txt").write_text("2")
    assert provenance.commit()["dirty"] is True
