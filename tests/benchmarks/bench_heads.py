"""Twenty heads trained together against one after the other, interleaved in one run on one thread.

    python tests/benchmarks/bench_heads.py           prints both times and their ratio
    python tests/benchmarks/bench_heads.py --check   also exits 1 when the ratio is below 5

The one-by-one loop is what one would write first: nn.Sequential, torch.optim.AdamW,
CosineAnnealingLR, clip_grad_norm_.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from torch import nn

from lib.config.schema import HeadSettings
from lib.evaluation.heads import Job, train_heads

HEADS, TEXTS, DIM, TRAIN, TEST, LEAST = 20, 600, 768, 3000, 600, 5.0
SETTINGS = HeadSettings(  # those of Table 4.3, except the learning rate
    hidden=50,
    dropout=0.5,
    epochs=10,
    batch_size=32,
    weight_decay=0.1,
    label_smoothing=0.1,
    learning_rate=1e-3,
    clip=1.0,
    features="raw",
    classifier="head",
    repeats=1,
)


def make_jobs() -> list[Job]:
    """Pairs of random embeddings of norm 7, about a student's; a pair is positive on one side of a
    random plane.
    """
    random = np.random.default_rng(0)
    pairs = random.integers(0, TEXTS, (TRAIN + TEST, 2))
    jobs = []
    for head in range(HEADS):
        features = random.standard_normal((TEXTS, DIM), dtype=np.float32) / 4
        labels = (
            features[pairs].reshape(len(pairs), -1) @ random.standard_normal(2 * DIM) > 0
        ).astype(np.int64)
        jobs.append(
            Job(
                features, pairs, labels, np.arange(TRAIN), np.arange(TRAIN, TRAIN + TEST), seed=head
            )
        )
    return jobs


def plain(job: Job) -> float:
    """One head with the usual building blocks; returns its test accuracy."""
    rate, epochs = SETTINGS.learning_rate, SETTINGS.epochs
    torch.manual_seed(job.seed)
    features, inputs, labels = map(torch.from_numpy, (job.features, job.inputs, job.labels))
    model = nn.Sequential(nn.Linear(2 * DIM, 50), nn.ReLU(), nn.Dropout(0.5), nn.Linear(50, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * -(-TRAIN // 32))
    for _ in range(epochs):
        for rows in torch.randperm(TRAIN).split(32):
            loss = nn.functional.cross_entropy(
                model(features[inputs[rows]].flatten(1)), labels[rows], label_smoothing=0.1
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
    with torch.no_grad():
        predicted = model.eval()(features[inputs[job.test]].flatten(1)).argmax(1)
    return float((predicted == labels[job.test]).float().mean())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help=f"exit 1 when the ratio is below {LEAST}"
    )
    parser.add_argument("--rounds", type=int, default=3, help="interleaved repetitions (default 3)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    jobs, together, alone = make_jobs(), [], []
    short = SETTINGS.model_copy(update={"epochs": 1})
    train_heads(jobs, 2, short)  # the first call of either pays for start-up
    plain(jobs[0])
    for _ in range(arguments.rounds):
        start = time.perf_counter()
        answers = train_heads(jobs, 2, SETTINGS)
        middle = time.perf_counter()
        theirs = [plain(job) for job in jobs]
        together.append(middle - start)
        alone.append(time.perf_counter() - middle)
        ours = [(a == j.labels[j.test]).mean() for a, j in zip(answers, jobs, strict=True)]
        print(
            f"together {together[-1]:6.2f} s   one by one {alone[-1]:6.2f} s   "
            f"ratio {alone[-1] / together[-1]:.2f}"
        )
    # The best of each: whatever else a machine does only adds time.
    ratio = min(alone) / min(together)
    print(
        f"{HEADS} heads, {2 * DIM} inputs, {TRAIN} pairs, {SETTINGS.epochs} epochs, 1 thread, "
        f"torch {torch.__version__}"
    )
    print(
        f"mean accuracy together {np.mean(ours):.3f}, one by one {np.mean(theirs):.3f}; "
        f"ratio of the best {ratio:.2f}"
    )
    return int(arguments.check and ratio < LEAST)


if __name__ == "__main__":
    raise SystemExit(main())
