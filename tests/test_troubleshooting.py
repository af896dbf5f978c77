"""docs/troubleshooting.md quotes what its commands print; no link of the documents is broken."""

from __future__ import annotations

import json
import os
import re
import shlex

import pytest
from jupyter_server.serverapp import ServerApp

from lib.config import paths
from lib.data import check as data_check
from lib.runner import run_all

PAGE = (paths.ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOOD = {"id": "1", "text": "a river"}


def blocks(heading):
    """The console blocks below a heading that begins with this number."""
    section = re.search(rf"^## {heading}\. .*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return CONSOLE.findall(section[0])


def assert_quoted(printed, block):
    """Every line of a block that is no command was printed; `...` is any text."""
    for line in block.splitlines():
        if not line.startswith("$ "):
            pattern = ".*".join(map(re.escape, line.split("...")))
            assert re.search(rf"(^|[ :]){pattern}$", printed, re.MULTILINE), (line, printed)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run the commands of a block in this process; what they print."""
    for name in [name for name in os.environ if name.startswith("THESIS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_all.Run, "update", lambda *_: pytest.fail("notebooks were begun"))

    def call(block):
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            words = shlex.split(line.removeprefix("$ ").removeprefix("python -m "))
            while "=" in words[0]:
                name, value = words.pop(0).split("=")
                monkeypatch.setenv(name, str(tmp_path / value))
            program = {"./run_all.sh": run_all, "lib.data.check": data_check}[words[0]]
            program.main(words[1:])
        return "".join(capsys.readouterr())

    return call


@pytest.mark.parametrize("number", [0, 1])
def test_data_that_is_missing_is_one_line(number, run, tmp_path):
    (tmp_path / "empty").mkdir()
    block = blocks(4)[number]
    assert_quoted(run(block), block)


def test_a_misspelt_name_is_one_line_with_the_nearest(run):
    block = blocks(5)[0]
    assert_quoted(run(block), block)


def test_documents_that_are_no_json_lines_are_named_by_file_and_line(run, tmp_path):
    first, second = blocks(10)
    place = tmp_path / "my_texts" / "documents.jsonl"
    place.parent.mkdir()
    place.write_text(json.dumps(GOOD) + '\n{"id": "2", "text": ""Yes", he said."}')
    assert_quoted(run(first), first)
    contents = [
        '{"id": "1", "text": "café"}'.encode("latin-1"),
        b'{"id": "1", "txt": "a river"}',
        f"{json.dumps(GOOD)}\n{json.dumps(GOOD | {'text': 'a boat'})}".encode(),
        f"{json.dumps(GOOD)}\n{json.dumps({'id': '2', 'text': 'a boat'})}".encode(),
    ]
    printed = ""
    for content in contents:
        place.write_bytes(content)
        printed += run(second)
    assert_quoted(printed, second)


def test_the_line_by_which_jupyter_refuses_root_is_quoted(monkeypatch):
    app, told = ServerApp(), []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(app.log, "critical", told.append)
    with pytest.raises(SystemExit):
        app.start_app()
    (line,) = told
    assert f"\n{line}\n" in PAGE


def test_no_link_of_the_documents_is_broken():
    """Files and headings that README.md, CONTRIBUTING.md, lib/README.md and docs link to."""
    names = ("README.md", "CONTRIBUTING.md", "lib/README.md")
    for page in [*(paths.ROOT / name for name in names), *paths.ROOT.glob("docs/**/*.md")]:
        text = re.sub(
            r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
            file, _, heading = target.partition("#")
            linked = page.parent / file if file else page
            assert linked.exists(), f"{page.name}: {target}"
            if heading:
                headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.M)
                slugs = [re.sub(r"[^\w -]", "", each.lower()) for each in headings]
                assert heading in [slug.replace(" ", "-") for slug in slugs], target
