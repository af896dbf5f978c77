"""The recipes of CONTRIBUTING.md work: a new loss and a new teacher train students, and a new task
judges one.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest

from lib.config import paths

BLOCK = re.compile(r"^```(python|diff) (\S+\.(?:py|yaml))\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT = """
from lib.experiments.bench import Bench

task = {"data_roots": ["built", "my_data"], "tasks.folders.KINDS": "things/kinds"}
before = Bench.load("smoke").run(["huber"], seeds=[0])
after = Bench.load("smoke", overrides=task).run(["huber"], seeds=[0])
assert set(before["model"]) == {"huber"} and before["value"].between(0, 1).all()
assert set(after["task"]) - set(before["task"]) == {"KINDS"}
same = after.set_index("task").loc[before["task"]]
assert same["fingerprint"].tolist() == before["fingerprint"].tolist()  # nothing was made again
taught = Bench.load("smoke").run(["huber;RP;S:1024(ReLU)x1024;C:-;384;λ=0.5"], seeds=[0])
assert taught["contextual"].eq("RP").all() and taught["value"].between(0, 1).all()
"""


def apply(root, language, name, body):
    """Write a file of a recipe, or add the lines of a diff behind or before their neighbour."""
    path = root / name
    if language == "python":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body, encoding="utf-8")
        return
    lines = body.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if not line.startswith("+"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{name} does not have exactly once:\n{before}"
    path.write_text(text.replace(before, "".join(line[1:] for line in lines)), encoding="utf-8")


@pytest.mark.smoke
def test_a_loss_a_task_and_a_teacher_work_by_the_recipe(tmp_path):
    for name in ("lib", "params"):
        shutil.copytree(paths.ROOT / name, tmp_path / name)
    shutil.copy(paths.ROOT / "pyproject.toml", tmp_path)
    for block in BLOCK.findall((paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        apply(tmp_path, *block)
    ours = {"PYTHONPATH": str(tmp_path), "THESIS_ARTIFACTS": str(tmp_path / "artifacts")}
    options = {"cwd": tmp_path, "env": os.environ | ours, "capture_output": True, "text": True}
    for words in (["my_data/make.py"], ["-c", SCRIPT]):
        done = subprocess.run([sys.executable, *words], **options)
        assert done.returncode == 0, done.stderr[-3000:]
