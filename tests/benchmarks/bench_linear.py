"""Linear layers of the student by oneDNN (`lib.student.linear`) against MKL (`torch.nn.Linear`), in turns in one run;
and an update of its weights by AdamW, one tensor after another and fused.

    MKL_CBWR=AUTO ATEN_CPU_CAPABILITY=avx2 python tests/benchmarks/bench_linear.py

One thread, CPU seconds. MKL's time by oneDNN's, encoding | forward and backward; milliseconds of an update:

    an AMD EPYC with AVX-512       1.8          | 1.4 to 1.5
    another (family 25, model 17)  1.03 to 1.04 | .93 to .94    85, fused 11
    one with AVX2 only             .88 to .98   | .74 to .79    144 to 180, fused 14 to 16
"""

import statistics
import time

import torch

from lib.config import profiles
from lib.experiments import models
from lib.student import linear
from lib.student.linear import Linear

REPEATS = 5
LENGTHS = {"short texts": [30] * 200, "documents": [160] * 40}  # tokens


def seconds(work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def main() -> None:
    torch.set_num_threads(1)
    linear.ONEDNN = True  # measured on every processor
    student = models.base_student(profiles.load("mini"))
    generator = torch.Generator().manual_seed(0)
    ways = {"oneDNN": Linear.forward, "MKL": torch.nn.Linear.forward}
    for name, lengths in LENGTHS.items():
        ids = [
            torch.randint(1000, 20000, (length,), generator=generator).tolist()
            for length in lengths
        ]
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
            print(
                f"{name}, {what}: MKL {medians['MKL']:.2f} s, oneDNN {medians['oneDNN']:.2f} s, {ratio:.2f}x"
            )
    for fused in (False, True):
        optimizer = torch.optim.AdamW(
            student.parameters(), fused=fused
        )  # of the gradients that are left
        optimizer.step()
        milliseconds = 1000 * statistics.median(seconds(optimizer.step) for _ in range(REPEATS))
        print(f"AdamW{', fused' * fused}: {milliseconds:.0f} ms an update")


if __name__ == "__main__":
    main()
