"""Linear layers of the student by oneDNN (`lib.student.linear`) against MKL (`torch.nn.Linear`), in turns in one run.

    MKL_CBWR=AUTO python tests/benchmarks/bench_linear.py

One thread, CPU seconds. On an AMD EPYC with AVX-512: encoding 1.8 times, forward and backward 1.4 to 1.5 times as fast.
"""

import statistics
import time

import torch

from lib.config import profiles
from lib.experiments import models
from lib.student.linear import Linear

REPEATS = 5
LENGTHS = {"short texts": [30] * 200, "documents": [160] * 40}  # tokens


def seconds(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    torch.set_num_threads(1)
    student = models.base_student(profiles.load("mini"))
    generator = torch.Generator().manual_seed(0)
    ways = {"oneDNN": Linear.forward, "MKL": torch.nn.Linear.forward}
    for name, lengths in LENGTHS.items():
        ids = [torch.randint(1000, 20000, (length,), generator=generator).tolist() for length in lengths]
        works = {"encoding": lambda ids=ids: student.encode(ids)}
        works["forward and backward"] = lambda ids=ids: student(ids).square().sum().backward()
        for what, work in works.items():
            took: dict[str, list[float]] = {way: [] for way in ways}
            for _ in range(REPEATS):
                for way, forward in ways.items():
                    Linear.forward = forward
                    took[way].append(seconds(work))
            medians = {way: statistics.median(times) for way, times in took.items()}
            ratio = medians["MKL"] / medians["oneDNN"]
            print(f"{name}, {what}: MKL {medians['MKL']:.2f} s, oneDNN {medians['oneDNN']:.2f} s, {ratio:.2f}x")


if __name__ == "__main__":
    main()
