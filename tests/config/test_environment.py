"""Every door sets what makes numbers repeat, before NumPy and torch load, whatever its caller has set."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lib.config import paths

NOT_YET = "import sys; assert not {'numpy', 'torch'} & set(sys.modules)"
TELL = "import os, torch; print(os.environ.get('MKL_CBWR'), torch.get_num_threads())"
# Door -> a program that goes through it and then tells.
DOORS = {
    "notebook": f"""
from lib.runner import notebook
{NOT_YET}
profile, seeds, only, overrides = "mini", None, "", {{}}
notebook.start("02_structural_loss", globals())
{TELL}
""",
    "worker": f"""
from lib.store import executors
{NOT_YET}
if __name__ == "__main__":
    pool = executors.processes(1)
    if sys.platform == "linux":  # where /proc shows the environment that the worker began with
        assert b"MKL_CBWR=AUTO" in pool.submit(eval, "open('/proc/self/environ', 'rb').read()").result()
    pool.submit(exec, {TELL!r}).result()
""",
    "notebook of run_all": f"""
import subprocess, sys
from types import SimpleNamespace
from lib.config import profiles
from lib.runner import run_all
plan = SimpleNamespace(wanted=[], own=[], profile=profiles.load("mini"))
variables = run_all.variables(plan, 1, "progress")
subprocess.run([sys.executable, "-c", {TELL!r}], env=variables, check=True)
""",
    "lib.train": f"""
from lib import train
{NOT_YET}
def tell(*arguments):
    exec({TELL!r})
    sys.exit()
train._train = tell
train.main(["cosine", "--out", sys.argv[1]])
""",
    "tests": f"""
import runpy
runpy.run_path("tests/conftest.py")
{TELL}
""",
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_sets_one_thread_and_bits_that_do_not_depend_on_neighbours(door, tmp_path):
    variables = {**os.environ, "PYTHONPATH": str(paths.ROOT), "OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4"}
    variables.pop("MKL_CBWR", None)
    program = tmp_path / "program.py"  # a file, because workers import it again
    program.write_text(DOORS[door], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", program, tmp_path / "out"], env=variables, cwd=paths.ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "AUTO 1"
