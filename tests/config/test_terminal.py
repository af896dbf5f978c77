"""Every command prints whatever it has to say, on any terminal."""

import json
import os
import subprocess
import sys

import pytest

from lib.config import paths

COMMANDS = {
    "check": ["lib.data.check", "{folder}"],
    "train": ["lib.train", "MSE", "--data", "{folder}", "--out", "{folder}/out"],
    "train's help": ["lib.train", "--help"],
    "run_all": ["lib.runner.run_all", "mini", "Жук"],
    "build": ["lib.data.build", "Жук"],
    "publish": ["lib.runner.publish", "Жук"],
}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", COMMANDS)
def test_what_the_encoding_lacks_is_no_error(command, encoding, tmp_path):
    """Ids, groups and labels in Cyrillic; the folder's own name, too."""
    folder = tmp_path / "ü"
    (folder / "tasks/Ж").mkdir(parents=True)
    rows = [{"id": f"Ж{n}", "text": f"a letter, number {n}" * (n > 2)} for n in range(6)]
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "documents.jsonl").write_text(lines, encoding="utf-8")
    (folder / "tasks/Ж/train.jsonl").write_text('{"id": "Ж", "label": "Ж"}', encoding="utf-8")
    words = [word.format(folder=folder) for word in COMMANDS[command]]
    environment = {
        **os.environ,
        "PYTHONIOENCODING": encoding,
        "THESIS_ARTIFACTS": str(tmp_path / "artifacts"),
    }
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=paths.ROOT, env=environment, capture_output=True
    )
    printed = (done.stdout + done.stderr).decode(encoding)
    assert done.returncode == (0 if command == "train's help" else 2)
    assert "encode" not in printed and "Traceback" not in printed
    assert (r"\u03b3" if command == "train's help" else r"\u0416") in printed
