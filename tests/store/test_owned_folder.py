"""What may be replaced by a saved student, what may not, and what is left after a kill at any moment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from lib.store import owned_folder
from lib.store.owned_folder import MARKER, check_target, replace


def student(text):
    """What stands in for a student: two files, one of them in a folder."""

    def write(folder):
        (folder / "config.json").write_text(text)
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling" / "config.json").write_text(text)

    return write


def everything(folder):
    """Every path below a folder with what it holds."""
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def whole(folder, text):
    """Whether a folder holds a whole student."""
    files = {path: content for path, content in everything(folder).items() if content is not None}
    marker = json.loads(files.pop(MARKER, "{}"))
    return files == dict.fromkeys(marker["files"], text) and len(files) == 2


def test_an_absent_an_empty_and_an_own_folder_are_written(tmp_path):
    target = tmp_path / "deep" / "folder" / "student"
    replace(target, student("first"))
    assert whole(target, "first")
    replace(target, student("second"))
    assert whole(target, "second")
    (tmp_path / "empty").mkdir()
    replace(tmp_path / "empty", student("first"))
    assert whole(tmp_path / "empty", "first")
    assert sorted(path.name for path in tmp_path.rglob(".*")) == [MARKER, MARKER]


def plant_config(target):
    target.mkdir()
    (target / "config.json").write_text("{}")
    (target / "thesis.docx").write_text("work")


def plant_git(target):
    (target / ".git").mkdir(parents=True)


def plant_stranger(target):
    replace(target, student("old"))
    (target / "1_Pooling" / "notes.txt").write_text("work")


def plant_folder(target):
    replace(target, student("old"))
    (target / "backup").mkdir()


def plant_link_inside(target):
    replace(target, student("old"))
    (target / "config.json").unlink()
    (target / "config.json").symlink_to("../thesis.docx")


def plant_other_weights(target):
    replace(target, student("old"))
    (target / "1_Pooling" / "config.json").write_text("tuned by a person")


def plant_file(target):
    target.write_text("work")


def plant_link(target):
    replace(target.with_name("elsewhere"), student("old"))
    target.symlink_to("elsewhere")


def plant_dangling(target):
    target.symlink_to("nowhere")


def plant_file_above(target):
    target.parent.rmdir()
    target.parent.write_text("work")


def marker(text):
    def plant(target):
        target.mkdir()
        (target / MARKER).write_text(text)

    plant.__name__ = f"marker {text[:50]}"
    return plant


def no_permission(target):
    target.parent.chmod(0o555)


def no_permission_to_read(target):
    replace(target, student("old"))
    target.chmod(0o000)


NOT_OURS = "was not written by this project or was changed since; move it away"
CASES = [
    (plant_config, "student holds config.json and was not saved by this project"),
    (plant_git, "student holds .git and was not saved by this project"),
    (plant_stranger, f"student/1_Pooling/notes.txt {NOT_OURS}"),
    (plant_folder, f"student/backup {NOT_OURS}"),
    (plant_link_inside, f"student/config.json {NOT_OURS}"),
    (plant_other_weights, f"student/1_Pooling/config.json {NOT_OURS}"),
    (plant_file, "student is a file or a symbolic link; name a folder"),
    (plant_link, "student is a file or a symbolic link; name a folder"),
    (plant_dangling, "student is a file or a symbolic link; name a folder"),
    (
        plant_file_above,
        "models/student cannot be written: .*File exists: .*models'; choose another",
    ),
    (marker("not json"), "cannot read .*json: damaged or changed since"),
    (marker("[]"), "cannot read .*json: damaged or changed since"),
    (marker('{"files": []}'), "cannot read .*json: damaged or changed since"),
    (marker("[" * 100_000), "cannot read .*json: damaged or changed since"),
]


@pytest.mark.parametrize(
    ("plant", "message"), CASES, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_is_not_ours_is_refused_and_untouched(tmp_path, plant, message):
    target = tmp_path / "models" / "student"
    target.parent.mkdir()
    plant(target)
    before = everything(tmp_path)
    for call in (check_target, lambda target: replace(target, student("new"))):
        with pytest.raises(ValueError, match=message) as error:
            call(target)
        assert "\n" not in str(error.value)
        assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (no_permission, "cannot be written: .*Permission denied"),
        (no_permission_to_read, "cannot be written: .*Permission denied"),
    ],
)
def test_missing_permission_is_found_before_the_work(tmp_path, plant, message):
    """In a process of another user if this one is root, who may do everything."""
    target = tmp_path / "models" / "student"
    target.parent.mkdir()
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    plant(target)
    root = Path(owned_folder.__file__).parents[2]
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]); from lib.store.owned_folder import check_target\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: check_target(sys.argv[1])\n"
        "except ValueError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code, target, root], capture_output=True, text=True)
    (target if target.exists() else target.parent).chmod(0o755)
    target.parent.chmod(0o755)

    assert re.search(message, run.stdout) and run.stdout.count("\n") == 1, run


@pytest.mark.parametrize("name", ["student", "a[b]*"])
def test_what_beside_a_target_is_not_a_dead_save_of_ours_stays(tmp_path, name):
    target = tmp_path / name
    hidden = tmp_path / f".{name[:50]}-abcdefgh"
    hidden.mkdir()
    (hidden / "new").write_text("work")

    def write(folder):  # a second save into the same target while this one is at work
        student("first")(folder)
        if not target.exists():
            replace(target, student("second"))

    with pytest.warns(
        UserWarning, match="thesis-saving is left from a save that was cut off"
    ) as caught:
        replace(target, write)
    assert len(caught) == 1  # the second of the first, which is still at work
    assert whole(target, "first") and {path.name for path in tmp_path.iterdir()} == {
        hidden.name,
        name,
    }


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("{tmp}/" + "ü" * 128, "File name too long"),
        ("{tmp}/" + "a" * 250, "File name too long"),  # none beside it can be made
        ("/proc/x", "No such file or directory"),
        ("/proc/1/x/y", "cannot be written"),
    ],
)
def test_a_target_that_can_never_be_made_is_refused_at_once(tmp_path, target, message):
    with pytest.raises(ValueError, match=message) as error:
        check_target(target.format(tmp=tmp_path))
    assert "\n" not in str(error.value) and not [*tmp_path.iterdir()]


def test_an_old_folder_that_cannot_be_removed_is_named_and_the_new_one_is_in_place(
    tmp_path, monkeypatch
):
    target = tmp_path / "student"
    replace(target, student("old"))

    def refuse(*arguments, **keywords):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.warns(
            UserWarning, match=r"thesis-saving/old, replaced, stays: .*not permitted"
        ):
            replace(target, student("new"))
    assert whole(target, "new") and len([*tmp_path.iterdir()]) == 2


def test_a_listed_path_outside_the_folder_is_never_removed(tmp_path):
    target = tmp_path / "student"
    replace(target, student("old"))
    (tmp_path / "thesis.docx").write_text("work")
    listed = json.loads((target / MARKER).read_text())
    outside = ["../thesis.docx", "../../thesis.docx", str(tmp_path / "thesis.docx")]
    (target / MARKER).write_text(
        json.dumps(listed | {"files": listed["files"] | dict.fromkeys(outside, "")})
    )
    replace(target, student("new"))
    assert whole(target, "new") and (tmp_path / "thesis.docx").read_text() == "work"


def test_a_file_put_there_while_the_student_is_written_stops_the_replacement(tmp_path):
    target = tmp_path / "student"
    replace(target, student("old"))

    def slow(folder):
        student("new")(folder)
        (target / "notes.txt").write_text("work")

    with pytest.raises(ValueError, match="notes.txt was not written by this project"):
        replace(target, slow)
    assert (target / "notes.txt").read_text() == "work" and (
        target / "config.json"
    ).read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["student"]


def test_the_old_folder_comes_back_if_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    target = tmp_path / "student"
    replace(target, student("old"))
    rename = os.rename

    def fail(source, destination):
        if source.name == "new":
            raise OSError(5, "Input/output error")
        rename(source, destination)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(ValueError, match="student cannot be written: .*Input/output error"):
        replace(target, student("new"))
    assert whole(target, "old") and [path.name for path in tmp_path.iterdir()] == ["student"]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from lib.store.owned_folder import replace
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
replace(Path(sys.argv[1]), write)
"""


def test_killed_at_any_moment_the_old_or_the_new_student_is_whole(tmp_path):
    root = Path(owned_folder.__file__).parents[2]
    states = set()
    for moment in range(200):
        place = tmp_path / str(moment)
        target = place / "student"
        replace(target, student("old"))
        (place / "thesis.docx").write_text("work")
        run = subprocess.run(
            [sys.executable, "-S", "-c", KILLED, target, str(moment), root], capture_output=True
        )
        assert run.returncode in (0, -signal.SIGKILL), run.stderr
        folders = [target] if target.exists() else owned_folder.left_over(target)
        assert folders and all(whole(folder, "old") or whole(folder, "new") for folder in folders)
        assert (place / "thesis.docx").read_text() == "work"
        states.add((target.exists(), whole(folders[0], "new")))
        killed = {path for path in place.iterdir() if path.name.startswith(".")}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replace(target, student("next"))
        assert whole(target, "next")
        kept = {path for path in place.iterdir() if path not in (target, place / "thesis.docx")}
        assert (
            kept
            == killed
            == {Path(str(warning.message).split(" is left from")[0]) for warning in caught}
        )
        if run.returncode == 0:
            break
    assert run.returncode == 0 and moment > 15
    assert {
        (True, False),
        (True, True),
        (False, True),
    } <= states  # killed before, after and between the two renames
