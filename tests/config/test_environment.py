"""One machine repeats itself: threads, kernels and memory of a process that computes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest
import torch

from lib.config import environment, paths


def run(program, **variables):
    """What a new process prints in which `program` runs."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": str(paths.ROOT), **variables},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


SET = """
import os, sys
from lib.config import environment
assert not {"numpy", "torch"} & set(sys.modules)
environment.set_process_environment(offline=True)
import torch
print(torch.get_num_threads(), os.environ["MKL_CBWR"], os.environ["HF_HUB_OFFLINE"])
"""


def test_a_process_has_one_thread_whatever_its_caller_has_set():
    assert run(SET, OMP_NUM_THREADS="4", MKL_NUM_THREADS="4", MKL_CBWR="AVX512") == [
        "1",
        "AUTO",
        "1",
    ]


def test_torch_gets_one_thread_also_if_it_was_loaded_before():
    program = f"import torch; torch.set_num_threads(2); {SET.replace('assert', 'not')}"
    assert run(program)[0] == "1"


ROWS = """
from lib.config import environment
environment.set_process_environment(offline=True)
import torch
torch.manual_seed(0)
x, weight = torch.randn(70, 300), torch.randn(90, 300)
whole = x @ weight.t()
parts = [(x[start : start + 33] @ weight.t(), start) for start in range(37)]
print(all(torch.equal(part, whole[start : start + 33]) for part, start in parts))
"""


def test_a_row_has_the_same_bits_whatever_stands_beside_it():
    """MKL picks kernels by the alignment of the data unless it is told otherwise."""
    assert run(ROWS) == ["True"]


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
    sys.platform != "linux" or not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="needs /proc, and kernels of bfloat16",
)
def test_kernels_of_shapes_that_do_not_come_again_are_not_kept():
    """Each number of tokens has kernels of its own. As oneDNN comes, 250 more of them took 140 MB
    on an AMD EPYC.
    """
    assert float(run(SHAPES, **environment.process_variables(offline=True))[0]) < 20


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
    """Ten times the twenty arrays of a pass, 8 MB each: the system clears 41,000 pages, or next to
    none.
    """
    assert int(run(ARRAYS, **environment.process_variables(offline=True))[0]) < 10_000
