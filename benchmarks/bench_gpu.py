"""The student of 12 layers on a GPU: what docs/scale.md says of it, in less than ten minutes.

    python benchmarks/bench_gpu.py
    python benchmarks/bench_gpu.py --device cpu --size mini --updates 2   # the same code anywhere

Everything is in bfloat16, on documents of 4,096 tokens, six a batch: a bare product, a step of
training of student and Longformer, and a whole training with the settings of `thesis`. Shares leave
out what gradient checkpointing computes twice. Weights, ids and teacher are random.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch
from bench_student import CASES, SIZES, least_seconds, make_models, work

from lib.config import profiles
from lib.distillation import variants
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, distill

WIDTH = {"cuda": 8192, "cpu": 1024}  # of the matrices of the bare product
IDS = [torch.randint(5, 30000, (length,)).tolist() for length in CASES["long"]]


def count_operations(size: str) -> float:
    """Floating-point operations of the products of a training step, thrice those of forward."""
    layers, width, window = SIZES[size]
    tokens, keys = sum(CASES["long"]), window + 1  # fewer at a document's ends: less than 7%
    return 3 * layers * tokens * (2 * 12 * width**2 + 2 * 2 * keys * width)


def train(student, device: str, updates: int) -> float:
    """Train with cosine loss and the settings of `thesis`; the seconds that it took."""
    profile, variant = profiles.load("thesis"), variants.parse("cosine")
    settings = profile.training.model_copy(update={"documents": updates * len(IDS)})
    teacher = np.random.default_rng(0).normal(size=(settings.documents, student.dim))
    lengths = np.full(settings.documents, len(IDS[0]))
    data = DistillationData(IDS * updates, lengths, teacher.astype(np.float32))
    student.gradient_checkpointing = settings.gradient_checkpointing
    began = time.perf_counter()
    distill(student, Objective(variant, student.dim).to(device), data, settings, seed=0)
    return time.perf_counter() - began


def measure_memory(call, device: str):
    """What a call returns, and its peak of the GPU's memory in GiB, above what was in it before."""
    if device == "cpu":
        return call(), np.nan
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    return call(), (torch.cuda.max_memory_allocated() - before) / 2**30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=WIDTH, default="cuda")
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--updates", type=int, default=100)
    given = parser.parse_args()
    side = torch.randn(WIDTH[given.device], WIDTH[given.device], dtype=torch.bfloat16)
    side = side.to(given.device)
    works, seconds = {"a bare product": lambda: (side @ side).sum().item()}, {}
    models = make_models(["student", "Longformer"], given.size, given.device, None)
    for name, model in models.items():
        works[name] = partial(work, model, IDS, "bf16", "training")
    for name, call in works.items():  # one after another, for the memory of each
        timed = partial(least_seconds, {name: call}, 5, time.perf_counter)
        least, peak = measure_memory(timed, given.device)
        seconds |= least
        print(f"{name}: {seconds[name]:.4f} s, {peak:.1f} GiB above the weights", flush=True)
    rate = 2 * len(side) ** 3 / seconds["a bare product"]
    share = count_operations(given.size) / seconds["student"] / rate
    ratio = seconds["Longformer"] / seconds["student"]
    print(f"bare product {rate / 1e12:.1f} TFLOP/s, student {share:.0%} of it")
    print(f"student {ratio:.1f} times as fast as Longformer")
    whole = partial(train, models["student"].args[0], given.device, given.updates)
    took, peak = measure_memory(whole, given.device)
    print(f"{given.updates} updates of {len(IDS)} documents: {took:.1f} s, {peak:.1f} GiB more")


if __name__ == "__main__":
    main()
