"""A student of mini in float32 and in bfloat16: how long it takes, and how far its embeddings move.

    python tests/benchmarks/bench_precision.py cosine "max-margin;MSE;γ=1.0"

One thread, processor seconds of training and of embedding the validation texts. The distance of two students is the
root mean square between their embeddings of one text, over that of float32's embeddings from their mean; beside it
that of a second seed in float32. Three trainings for each label, some two minutes of one core; a file of what students
share is kept in the store.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import argparse  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402

from lib import experiments  # noqa: E402
from lib.config import profiles  # noqa: E402
from lib.distillation import variants  # noqa: E402
from lib.experiments import keys, student_training, text_sets  # noqa: E402
from lib.student.packing import has_bfloat16  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", nargs="+", help="students, such as cosine")
    labels = parser.parse_args().labels
    torch.set_num_threads(1)
    print(f"bfloat16: {'yes' if has_bfloat16('cpu') else 'no, so both are float32'}")
    print("| student | fp32: training, embedding | bf16 | distance | of a second seed |\n|---|---|---|---|---|", flush=True)
    for label in labels:
        variant = variants.parse(label)
        ways = {way: student(variant, *way) for way in (("fp32", 0), ("bf16", 0), ("fp32", 1))}
        (base, *full), (half, *short), (other, *_) = ways.values()
        spread = np.linalg.norm(base - base.mean(axis=0))
        moved, seeds = (np.linalg.norm(rows - base) / spread for rows in (half, other))
        seconds = (" + ".join(f"{part:.1f}" for part in parts) for parts in (full, short))
        print(f"| {label} | {' | '.join(seconds)} | {moved:.4f} | {seeds:.2f} |", flush=True)


def student(variant: variants.Variant, precision: str, seed: int) -> tuple[np.ndarray, float, float]:
    """Embeddings of the validation texts, and the seconds of training and of embedding."""
    profile = profiles.load("mini", overrides=[f"training.precision={precision}"])
    experiments.prepare(profile, teachers=(variant.contextual or "").split("+") if variant.contextual else ())
    ids = text_sets.token_ids(keys.embedded_sets("validation")["tasks"], profile)
    begin = time.process_time()
    trained, *_ = student_training.train_student(variant, seed, profile)
    middle = time.process_time()
    rows = trained.encode(ids, precision=precision)
    end = time.process_time()
    student_training.remove_checkpoint(variant, seed, profile)
    return rows, middle - begin, end - middle


if __name__ == "__main__":
    main()
