"""One machine repeats itself: threads and kernels of a process; and which code it runs."""

import os
import subprocess
import sys

from lib.config import environment, paths

PROGRAM = """
import os, sys
from lib.config import environment
assert not {"numpy", "torch"} & set(sys.modules)
environment.set_process_environment(offline=True)
import torch
print(torch.get_num_threads(), os.environ["MKL_CBWR"], os.environ["HF_HUB_OFFLINE"])
torch.manual_seed(0)
x, weight = torch.randn(70, 300), torch.randn(90, 300)
whole = x @ weight.t()
parts = [(x[start : start + 33] @ weight.t(), start) for start in range(37)]
print(all(torch.equal(part, whole[start : start + 33]) for part, start in parts))
"""


def test_a_process_has_one_thread_and_rows_with_the_same_bits_whatever_stands_beside_them():
    """MKL picks kernels by the alignment of the data unless it is told otherwise."""
    wrong = {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "4", "MKL_CBWR": "AVX512"}
    variables = os.environ | {"PYTHONPATH": str(paths.ROOT)} | wrong
    command = [sys.executable, "-P", "-c", PROGRAM]
    printed = subprocess.check_output(command, env=variables, text=True).split()
    assert printed == ["1", "AUTO", "1", "True"]


def test_commit_and_dirty(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    unknown = {"commit": None, "dirty": None}
    assert environment.commit() == unknown  # an unpacked archive, or installed in others' checkout
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    (tmp_path / "a.txt").write_text("1")
    for words in (["init", "-q"], ["add", "a.txt"], ["commit", "-q", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True)
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True).strip()
    assert environment.commit() == {"commit": head, "dirty": False}
    (tmp_path / "a.txt").write_text("2")
    assert environment.commit()["dirty"] is True
