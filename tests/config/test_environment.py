"""Every door sets what makes numbers repeat, before NumPy and torch load, whatever its caller has set."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from lib.config import environment, paths
from lib.experiments import models

NOT_YET = "import sys; assert not {'numpy', 'torch'} & set(sys.modules)"
TELL = """import os, torch, scipy.linalg, threadpoolctl
libraries = [found for found in threadpoolctl.threadpool_info() if found["internal_api"] == "openblas"]
kernels = [torch.backends.cpu.get_cpu_capability(), *{found["architecture"] for found in libraries}]
print(os.environ["MKL_CBWR"], torch.get_num_threads(), *kernels)
"""
# Door -> a program that goes through it and then tells.
DOORS = {
    "notebook": f"""
from lib.runner import notebook
{NOT_YET}
profile, seeds, only, overrides = "mini", None, "", {{}}
notebook.start("02_structural_loss", globals())
{TELL}
""",
    "notebook beside a GPU": f"""
from pathlib import Path
from lib.runner import notebook
from lib.store import executors
executors.DRIVER = Path("/")
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
        assert b"MKL_CBWR=A" in pool.submit(eval, "open('/proc/self/environ', 'rb').read()").result()
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
    variables = {
        **os.environ,
        "PYTHONPATH": str(paths.ROOT),
        "OMP_NUM_THREADS": "4",
        "MKL_NUM_THREADS": "4",
    }
    variables |= {
        "OPENBLAS_CORETYPE": "Prescott",
        "ATEN_CPU_CAPABILITY": "default",
    }  # run on any x86-64
    variables.pop("MKL_CBWR", None)
    program = tmp_path / "program.py"  # a file, because workers import it again
    program.write_text(DOORS[door], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", program, tmp_path / "out"],
        env=variables,
        cwd=paths.ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1].split()
    processor = Path("/proc/cpuinfo")
    if processor.exists() and {"avx2", "fma"} <= {*processor.read_text().split()}:
        assert told == ["AVX2", "1", "AVX2", "Haswell"], (
            "else numbers depend on the processor, or on the caller"
        )
    else:
        assert told[:2] == ["AUTO", "1"]


@pytest.mark.parametrize(
    ("library", "variable", "before", "warned"),
    [
        ("numpy", "OPENBLAS_CORETYPE", "Prescott", True),
        ("numpy", "OPENBLAS_CORETYPE", "Haswell", False),
        ("numpy", "ATEN_CPU_CAPABILITY", "default", False),  # PyTorch is still to be loaded
        ("torch", "ATEN_CPU_CAPABILITY", "default", True),
        ("torch", "ATEN_CPU_CAPABILITY", "avx2", False),
    ],
)
@pytest.mark.skipif(
    "OPENBLAS_CORETYPE" not in environment.process_variables(offline=True), reason="needs AVX2"
)
def test_a_library_loaded_before_its_kernels_were_chosen_is_told(library, variable, before, warned):
    """As by a cell above the first one, or `%matplotlib inline`."""
    program = f"import {library}; from lib.config import environment; environment.set_process_environment(offline=True)"
    variables = {**os.environ, "PYTHONPATH": str(paths.ROOT), variable: before}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0 and ("NumPy or torch was loaded before" in done.stderr) == warned


SHAPES = """
import ctypes, torch
from pathlib import Path
layer = torch.nn.Linear(384, 1536)
def megabytes():
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4 / 1024
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    for rows in range(100, 500):
        layer(torch.ones(rows, 384))
        before = megabytes() if rows == 250 else before if rows > 250 else 0
print(megabytes() - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not models.has_bfloat16(),
    reason="needs /proc, and kernels of bfloat16",
)
def test_kernels_of_shapes_that_do_not_come_again_are_not_kept():
    """Each number of tokens has kernels of its own. As oneDNN comes, 250 more of them took 140 MB on an AMD EPYC."""
    variables = os.environ | environment.process_variables(offline=True)
    done = subprocess.run(
        [sys.executable, "-c", SHAPES], env=variables, capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 20


ARRAYS = """
import resource, torch
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for row in range(12):
    before = faults() if row == 2 else before if row else 0
    layers = [torch.ones(2, 1024, 1024) for _ in range(20)]
    del layers
print(faults() - before)
"""


@pytest.mark.skipif(
    "glibc" not in platform.libc_ver(), reason="other libraries have other variables"
)
def test_freed_arrays_are_kept_for_the_next():
    """Ten times the twenty arrays of a pass, 8 MB each: the system clears 41,000 pages, or next to none."""
    variables = os.environ | environment.process_variables(offline=True)
    done = subprocess.run(
        [sys.executable, "-c", ARRAYS], env=variables, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 10_000
