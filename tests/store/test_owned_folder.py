"""What a saved student may replace, what it may not, and what a kill at any moment leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lib.store import owned_folder
from lib.store.owned_folder import SEAL, check_target, is_sealed, list_left_over, replace_folder
from lib.store.sealed import write_seal

ROOT = Path(owned_folder.__file__).parents[2]


def student(text):
    """What stands in for a student: two files, one of them in a folder."""

    def write(folder):
        (folder / "config.json").write_text(text)
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(text)

    return write


def read_all(folder):
    """Every path below a folder with what it holds."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            contents[path] = os.readlink(path)
        elif path.is_file():
            contents[path] = path.read_text()
        else:
            contents[path] = None
    return contents


def is_whole(folder, text):
    return is_sealed(folder) and (folder / "1_Pooling" / "config.json").read_text() == text


def test_an_absent_an_empty_and_an_own_folder_are_written(tmp_path):
    target = tmp_path / "deep" / "folder" / "student"
    for text in ("first", "second"):
        replace_folder(target, student(text))
        assert is_whole(target, text)
    (tmp_path / "empty").mkdir()
    replace_folder(tmp_path / "empty", student("first"))
    assert is_whole(tmp_path / "empty", "first")
    assert not [*tmp_path.rglob(".*")]


def plant_config(target):
    target.mkdir()
    (target / "config.json").write_text("{}")


def plant_git(target):
    (target / ".git").mkdir(parents=True)


def plant_notes(target):
    replace_folder(target, student("old"))
    (target / "1_Pooling" / "notes.txt").write_text("work")


def plant_link_inside(target):
    replace_folder(target, student("old"))
    (target / "config.json").unlink()
    (target / "config.json").symlink_to("../thesis.docx")


def plant_other_weights(target):
    replace_folder(target, student("old"))
    (target / "1_Pooling" / "config.json").write_text("tuned by a person")


def plant_listed_outside(target):
    target.mkdir()
    (target.parent / "thesis.docx").write_text("work")
    write_seal(target / SEAL, [], kind="student")
    seal = json.loads((target / SEAL).read_text())
    (target / SEAL).write_text(json.dumps(seal | {"files": {"../thesis.docx": ""}}))


def plant_dataset(target):
    """What this project sealed, and no student."""
    target.mkdir()
    (target / "documents.jsonl").write_text("{}")
    write_seal(target / SEAL, [target / "documents.jsonl"])


def plant_damaged_seal(target):
    replace_folder(target, student("old"))
    (target / SEAL).write_text("[" * 100_000)


def plant_file(target):
    target.write_text("work")


def plant_link(target):
    replace_folder(target.with_name("elsewhere"), student("old"))
    target.symlink_to("elsewhere")


def plant_dangling(target):
    target.symlink_to("nowhere")


def plant_file_above(target):
    target.parent.rmdir()
    target.parent.write_text("work")


PERSONS = "student holds files that this project did not write, or that were changed since"
NO_FOLDER = "student is a file or a symbolic link; name a folder"


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (plant_config, PERSONS),
        (plant_git, PERSONS),
        (plant_notes, PERSONS),
        (plant_link_inside, PERSONS),
        (plant_other_weights, PERSONS),
        (plant_listed_outside, PERSONS),
        (plant_dataset, PERSONS),
        (plant_damaged_seal, PERSONS),
        (plant_file, NO_FOLDER),
        (plant_link, NO_FOLDER),
        (plant_dangling, NO_FOLDER),
        (plant_file_above, "student cannot be written: .*File exists"),
    ],
)
def test_a_persons_folder_is_refused_in_one_line_and_untouched(tmp_path, plant, message):
    target = tmp_path / "models" / "student"
    target.parent.mkdir()
    plant(target)
    before = read_all(tmp_path)
    for call in (check_target, lambda target: replace_folder(target, student("new"))):
        with pytest.raises(ValueError, match=message) as error:
            call(target)
        assert "\n" not in str(error.value)
        assert read_all(tmp_path) == before


def test_missing_permission_is_found_before_the_work(tmp_path):
    """In a process of another user if this one is root, who may do everything."""
    folder = tmp_path / "models"
    folder.mkdir()
    for above in (tmp_path, *tmp_path.parents[:3]):
        above.chmod(above.stat().st_mode | 0o055)
    folder.chmod(0o555)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from lib.store.owned_folder import check_target\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: check_target(sys.argv[1])\n"
        "except ValueError as error: print(error)"
    )
    command = [sys.executable, "-c", code, folder / "student", ROOT]
    run = subprocess.run(command, capture_output=True, text=True)
    folder.chmod(0o755)
    assert re.search("cannot be written: .*Permission denied", run.stdout), run
    assert run.stdout.count("\n") == 1


@pytest.mark.parametrize("name", ["ü" * 128, "a" * 250])
def test_a_name_that_can_never_be_made_is_refused_at_once(tmp_path, name):
    with pytest.raises(ValueError, match="cannot be written: .*File name too long"):
        check_target(tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_a_file_put_there_while_the_student_is_written_stops_the_replacement(tmp_path):
    target = tmp_path / "student"
    replace_folder(target, student("old"))

    def slow(folder):
        student("new")(folder)
        (target / "notes.txt").write_text("work")

    with pytest.raises(ValueError, match=PERSONS):
        replace_folder(target, slow)
    assert (target / "notes.txt").read_text() == "work"
    assert (target / "config.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["student"]


def test_a_file_put_there_between_the_two_renames_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "student"
    replace_folder(target, student("old"))
    rename = Path.rename

    def rename_late(source, destination):
        if destination.name == "old":
            (target / "notes.txt").write_text("work")
        return rename(source, destination)

    monkeypatch.setattr(Path, "rename", rename_late)
    with pytest.warns(UserWarning, match="old was changed .* kept"):
        replace_folder(target, student("new"))
    assert is_whole(target, "new")
    (work,) = list_left_over(target)
    assert (work / "old" / "notes.txt").read_text() == "work"


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "student"
    replace_folder(target, student("old"))
    rename = Path.rename

    def fail(source, destination):
        if source.name == "new":
            raise OSError(5, "Input/output error")
        return rename(source, destination)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ValueError, match="student cannot be written: .*Input/output error"):
        replace_folder(target, student("new"))
    assert is_whole(target, "old") and [path.name for path in tmp_path.iterdir()] == ["student"]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from lib.store.owned_folder import replace_folder
left = int(sys.argv[2])
def kill(event, arguments):
    global left
    if event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "open"):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
def write(folder):
    (folder / "config.json").write_text("new")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("new")
import shutil, tempfile, json
sys.addaudithook(kill)
replace_folder(Path(sys.argv[1]), write)
"""


def test_killed_at_any_moment_the_old_or_the_new_student_is_whole(tmp_path):
    states = set()
    for moment in range(200):
        place = tmp_path / str(moment)
        target = place / "student"
        replace_folder(target, student("old"))
        (place / "thesis.docx").write_text("work")
        command = [sys.executable, "-S", "-c", KILLED, target, str(moment), ROOT]
        run = subprocess.run(command, capture_output=True)
        assert run.returncode in (0, -signal.SIGKILL), run.stderr
        left = list_left_over(target)
        folders = [target] if target.exists() else [left[0] / "old", left[0] / "new"]
        assert all(is_whole(folder, "old") or is_whole(folder, "new") for folder in folders)
        assert (place / "thesis.docx").read_text() == "work"
        states.add((target.exists(), is_whole(folders[-1], "new")))
        if left:
            with pytest.warns(UserWarning, match="was left behind by an interrupted save"):
                replace_folder(target, student("next"))
        else:
            replace_folder(target, student("next"))
        assert is_whole(target, "next") and list_left_over(target) == left
        if run.returncode == 0:
            break
    assert run.returncode == 0 and moment > 15
    # Killed before, after and between the two renames.
    assert {(True, False), (True, True), (False, True)} <= states
