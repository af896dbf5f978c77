"""docs/troubleshooting.md: each of its failures is provoked, and prints the lines that are quoted there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from types import SimpleNamespace

import nbformat
import papermill
import pytest
from filelock import FileLock
from nbclient.exceptions import DeadKernelError

from lib import train
from lib.config import paths
from lib.data import check as data_check
from lib.runner import notebook, run_all, run_notebook, set_up
from lib.store import executors, files

PAGE = (paths.ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (\d+)\. [^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
BLOCKS = {
    number: re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    for number, text in SECTIONS.items()
}
HERE = {name: value for name, value in os.environ.items() if not name.startswith("THESIS_")}


def check(printed: str, number: int, block: int) -> None:
    """That every line quoted in a block was printed; `...` is any text."""
    for line in BLOCKS[str(number)][block].splitlines():
        if not line.startswith("$ "):
            pattern = ".*".join(map(re.escape, line.split("...")))
            assert re.search(f"(^|[ :]){pattern}$", printed, re.MULTILINE), (
                f"not printed: {line}\nbut: {printed}"
            )


def commands(number: int, block: int) -> list[str]:
    return [line[2:] for line in BLOCKS[str(number)][block].splitlines() if line.startswith("$ ")]


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """A function that runs a command of the page, but in this process, and returns what it prints."""
    for name in set(os.environ) - set(HERE):
        monkeypatch.delenv(name)
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.chdir(tmp_path)

    def call(command: str) -> str:
        program, *words = shlex.split(command.removeprefix("python -m "))
        assert {"./run_all.sh": run_all, "lib.data.check": data_check}[program].main(words) in (
            0,
            2,
        )
        return "".join(capsys.readouterr())

    return call


def test_ten_failures_are_told_and_each_has_a_line():
    assert [*SECTIONS] == [str(number) for number in range(1, 11)] and all(BLOCKS.values())


def test_1_no_python(tmp_path, monkeypatch, capsys):
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run(
        [paths.ROOT / "run_all.sh"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    check(done.stderr, 1, 0)
    (tmp_path / "requirements.lock").write_text("tqdm==1.0\n")
    monkeypatch.setattr(set_up, "__file__", str(tmp_path / "set_up.py"))
    source = Path(set_up.__spec__.origin).read_text(encoding="utf-8")
    (tmp_path / "set_up.py").write_text(source.replace("parents[2]", "parents[0]"))
    monkeypatch.setenv("VIRTUAL_ENV", sys.prefix)
    set_up.ready()
    check(capsys.readouterr().err, 1, 1)


def test_2_set_up_fails(tmp_path, monkeypatch, capsys):
    venv = tmp_path / ".venv"
    for name, value in {"ROOT": tmp_path, "VENV": venv, "MARK": venv / set_up.MARK.name}.items():
        monkeypatch.setattr(set_up, name, value)
    monkeypatch.setattr(set_up, "ready", lambda: None)
    monkeypatch.setattr(
        set_up.subprocess, "run", lambda words, **_: SimpleNamespace(returncode="pip" in words)
    )
    with pytest.raises(SystemExit) as failed:
        set_up.make()
    check(str(failed.value), 2, 0)
    set_up.MARK.unlink()
    with pytest.raises(SystemExit) as failed:
        set_up.make()
    check(str(failed.value), 2, 1)


def test_3_no_space(tmp_path, monkeypatch, capsys):
    def full(_):
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        with pytest.raises(OSError) as failed:
            files.write_atomically(tmp_path / "record", b"1")
    check(run_notebook.one_line("OSError", str(failed.value)), 3, 0)
    write(tmp_path, *(json.dumps({"id": str(n), "text": f"text number {n}"}) for n in range(20)))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    monkeypatch.setattr(train.shutil, "disk_usage", lambda place: SimpleNamespace(free=10**6))
    with pytest.raises(SystemExit):
        train.main(
            ["MSE", "--data", str(tmp_path / "my_texts"), "--out", str(tmp_path / "students/mine")]
        )
    check(capsys.readouterr().err, 3, 1)


def test_4_no_data(tmp_path, monkeypatch, run):
    check(run(commands(4, 0)[0]), 4, 0)
    (tmp_path / "empty").mkdir()
    variable, command = commands(4, 1)[0].split(maxsplit=1)
    monkeypatch.setenv("THESIS_DATA", str(tmp_path / variable.removeprefix("THESIS_DATA=")))
    check(run(command), 4, 1)


def test_5_misspelt(run):
    check("".join(map(run, commands(5, 0))), 5, 0)
    values = {"profile": "mini", "seeds": None, "only": "", "overrides": {}, "profil": "mini"}
    with pytest.raises(ValueError) as failed:
        notebook.start("04_pv_grid", values | {"In": ['# Parameters\nprofil = "mini"\n']})
    check(f"{type(failed.value).__name__}: {failed.value}", 5, 1)


def test_6_another_run(tmp_path, capsys):
    first = FileLock(tmp_path / "run.lock")
    with first.acquire():
        waiting = threading.Thread(
            target=lambda: run_all.only_run(tmp_path).__exit__(None, None, None)
        )
        waiting.start()
        waiting.join(timeout=0.5)
        assert waiting.is_alive()
    waiting.join(timeout=20)
    check(capsys.readouterr().out, 6, 0)


def test_7_stopped(tmp_path):
    code = """
import signal, sys
from lib.runner import run_all
run_all.run = lambda *_: signal.raise_signal(signal.SIGINT)
sys.exit(run_all.main(["smoke", "00"]))"""
    command = [sys.executable, "-c", code]
    variables = HERE | {"PYTHONPATH": str(paths.ROOT), "THESIS_ARTIFACTS": str(tmp_path)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130
    check(done.stderr, 7, 0)


def test_8_another_kernel(tmp_path):
    """The first import of every notebook, in a Python that sees the standard library alone."""
    first = "".join(nbformat.read(paths.NOTEBOOKS / "02_structural_loss.ipynb", 4).cells[2].source)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", first], cwd=tmp_path, capture_output=True, text=True
    )
    check(done.stderr, 8, 0)


def test_9_no_memory(tmp_path, monkeypatch):
    future = Future()
    future.set_exception(BrokenExecutor())
    with pytest.raises(executors.WorkerError) as killed:
        executors.submit(
            [(print, ("a model",))], SimpleNamespace(submit=lambda *_: future), "models"
        )
    check(run_notebook.one_line("WorkerError", str(killed.value)), 9, 0)

    def died(*_, **__):
        raise DeadKernelError

    monkeypatch.setattr(papermill, "execute_notebook", died)
    check(run_notebook.run(paths.NOTEBOOKS / "02_structural_loss.ipynb", {}, tmp_path), 9, 1)


def write(folder: Path, *lines: str | bytes) -> None:
    (folder / "my_texts").mkdir(exist_ok=True)
    content = b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    (folder / "my_texts/documents.jsonl").write_bytes(content)


def test_10_documents(tmp_path, run):
    good = '{"id": "1", "text": "a river"}'
    (command,) = commands(10, 0)
    write(tmp_path, good, '{"id": "2", "text": ""Yes", he said."}')
    check(run(command), 10, 0)
    printed = ""
    for lines in (
        [b'{"id": "1", "text": "caf\xe9"}'],
        ['{"id": "1", "txt": "a river"}'],
        [good, good.replace("river", "boat")],
    ):
        write(tmp_path, *lines)
        printed += run(command)
    write(tmp_path, good, '{"id": "2", "text": "a boat"}')
    (command,) = commands(10, 1)
    printed += run(command)
    check(printed, 10, 1)


def test_no_link_of_the_documents_is_broken():
    """Files and headings that README.md, CONTRIBUTING.md and docs link to."""
    pages = [
        paths.ROOT / "README.md",
        paths.ROOT / "CONTRIBUTING.md",
        *paths.ROOT.glob("docs/*.md"),
    ]
    for page in pages:
        text = re.sub(
            r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
            file, _, heading = target.partition("#")
            linked = page.parent / file if file else page
            assert linked.exists(), f"{page.name}: {target}"
            headings = (
                re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
                if heading
                else []
            )
            assert not heading or heading in [
                re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings
            ]
