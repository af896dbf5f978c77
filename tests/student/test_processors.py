"""A student, its teacher and students of the news chapter have the same bits with AVX2 alone as with AVX-512."""

import json
import os
import subprocess
import sys

import pytest
import torch

from lib.config import paths
from lib.student import linear

# Batches of 700 to 900 tokens, whose gradients of weights oneDNN cuts in other places with AVX2, and 1,025 tokens, of
# which a feed-forward of 1,024 rows at once would leave one.
PROGRAM = """
from lib.config.environment import set_process_environment
set_process_environment(offline=True)
import json
import zlib
import numpy as np
import torch
from lib.config import profiles
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, distill
from lib.distillation.variants import parse
from lib.experiments import models, structural_teacher
from lib.news import designs, distil
from lib.news.students import Sizes, Student, without_onednn

profile, random = profiles.load("mini"), np.random.default_rng(0)
documents = [random.integers(1000, 20000, size=size).tolist() for size in random.integers(100, 180, size=12)]
taught = structural_teacher.load(profile).embed([np.array([101, *ids[:46], 102]) for ids in documents])
student = models.base_student(profile)
data = DistillationData(documents, np.full(12, 150), taught, random.standard_normal((12, 50)).astype(np.float32))
torch.manual_seed(0)
objective = Objective(parse("cosine;100d;S:768(ReLU)x1024(ReLU)x768;C:768;None;λ=0.5"), student.dim, 50, width=0.5)
history = distill(student, objective, data, batch_size=6, learning_rate=1e-3, seed=0, warmup_updates=0)
told = {"teacher": taught, "losses": np.array(history.loss), "student": student.encode(documents)}
first = models.cls_student(profile)
objective = Objective(parse("cosine;[CLS]"), first.dim)
distill(first, objective, data, batch_size=6, learning_rate=1e-3, seed=0, warmup_updates=0)
told["[CLS]"] = first.encode(documents)
told["two pieces"] = student.encode([ids[:41] for ids in documents * 3][:25])
rows = [np.array([101, *ids[:14], 102]) for ids in documents * 8]
parts = np.split(np.arange(96)[:, None], [84])
for name in ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM;cosine", "CNN-1;MSE", "Transformer(2x4);cosine"):
    torch.manual_seed(0)
    small = Student(designs.parse(name), Sizes(20000, 64, 64, 384, 384, 128))
    with without_onednn():
        distil.train(small, rows, np.tile(taught, (8, 1)), parts, seed=0, settings=profile.news)
        told[name] = small.encode(rows)
print(json.dumps({name: zlib.crc32(values.tobytes()) for name, values in told.items()}))
"""
# What limits the libraries of this process to AVX2. The first is also what every door sets.
AVX2 = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}


def checksums(limits: dict[str, str]) -> dict[str, int]:
    variables = {name: value for name, value in os.environ.items() if name not in AVX2}
    variables |= {"PYTHONPATH": str(paths.ROOT)} | limits
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("shape", [(2, 24), (700, 384), (3, 5, 16)])
def test_pytorch_itself_computes_gelu_of_a_transposed_tensor(shape, monkeypatch):
    values = [
        torch.randn(shape, generator=torch.Generator().manual_seed(0)).requires_grad_()
        for _ in range(2)
    ]
    ours = torch.nn.functional.gelu(values[0].mT).mT
    (ours**2).sum().backward()
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    theirs = torch.nn.functional.gelu(values[1])
    (theirs**2).sum().backward()
    assert (
        ours.is_contiguous()
        and torch.equal(ours, theirs)
        and torch.equal(values[0].grad, values[1].grad)
    )


@pytest.mark.skipif(
    not torch.cpu.get_capabilities().get("avx512_f"), reason="needs AVX-512 to compare"
)
def test_students_and_teacher_have_the_same_bits_without_avx512():
    """AVX2 alone is emulated of oneDNN and PyTorch. Of the others nothing does that on an AMD processor: OpenBLAS has
    the kernels for Haswell at all times, MKL the same with and without AVX-512, as far as can be seen."""
    assert linear.ONEDNN, "without it both would be MKL's, at half the speed"
    assert checksums({}) == checksums(AVX2)
