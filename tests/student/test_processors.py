"""A student, its teacher and students of the news chapter have the same bits with AVX2 alone as with AVX-512."""

import os
import subprocess
import sys

import pytest
import torch

from lib.config import paths

# Batches of 700 to 900 tokens, whose gradients of weights oneDNN cuts in other places with AVX2.
PROGRAM = """
from lib.config.environment import set_process_environment
set_process_environment(offline=True)
import zlib
import numpy as np
import torch
from lib.config import profiles
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, distill
from lib.distillation.variants import parse
from lib.experiments import models, structural_teacher
from lib.news import designs, distil
from lib.news.students import Sizes, Student

profile, random = profiles.load("mini"), np.random.default_rng(0)
documents = [random.integers(1000, 20000, size=size).tolist() for size in random.integers(100, 180, size=12)]
taught = structural_teacher.load(profile).embed([np.array([101, *ids[:46], 102]) for ids in documents])
student = models.base_student(profile)
data = DistillationData(documents, np.full(12, 150), taught, random.standard_normal((12, 50)).astype(np.float32))
torch.manual_seed(0)
objective = Objective(parse("cosine;100d;S:768(ReLU)x1024(ReLU)x768;C:768;None;λ=0.5"), student.dim, 50, width=0.5)
history = distill(student, objective, data, batch_size=6, learning_rate=1e-3, seed=0, warmup_updates=0)
told = [taught, np.array(history.loss), student.encode(documents)]
rows = [np.array([101, *ids[:14], 102]) for ids in documents * 8]
parts = np.split(np.arange(96)[:, None], [84])
for name in ("BiGRU(2)+1 linear;attentive;cosine", "BiLSTM;cosine", "CNN-1;MSE", "Transformer(2x4);cosine"):
    torch.manual_seed(0)
    small = Student(designs.parse(name), Sizes(20000, 64, 64, 384, 384, 128))
    distil.train(small, rows, np.tile(taught, (8, 1)), parts, seed=0, settings=profile.news)
    told.append(small.encode(rows))
print(torch.backends.cpu.get_cpu_capability(), *(zlib.crc32(values.tobytes()) for values in told))
"""
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


def bits(limits: dict[str, str]) -> list[str]:
    variables = {name: value for name, value in os.environ.items() if name not in AVX2} | {
        "PYTHONPATH": str(paths.ROOT)
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables | limits, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not torch.cpu.get_capabilities().get("avx512_f"), reason="needs AVX-512 to compare")
def test_students_and_teacher_have_the_same_bits_without_avx512():
    assert bits({}) == bits(AVX2)
