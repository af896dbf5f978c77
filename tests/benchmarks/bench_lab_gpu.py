"""What a student of `lab --budget gpu` takes on this GPU: its training, and embedding with it.

    python tests/benchmarks/bench_lab_gpu.py  # a minute; with the following it checks the code:
    python tests/benchmarks/bench_lab_gpu.py --documents 6 --texts 60 --cca 3 --longest 30

Sizes are those of the profile `lab_gpu`, and training is `lib.experiments.students`' own, with a
learning curve of held-out CCA where there is a contextual teacher. The base has random weights of
the size of all-MiniLM-L6-v2, texts are random token ids, and teachers' rows random numbers: none of
them changes the time. Lengths are drawn from the deciles of the three corpora of `lab`, in their
shares.

Embedding runs in batches of several sizes, for the default of `Student.encode`.
Three texts are embedded on the CPU in float32 too, and the cosines are told.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import numpy as np  # noqa: E402
import torch  # noqa: E402
from bench_student import peak  # noqa: E402
from transformers import BertConfig, BertModel  # noqa: E402

from lib.config import profiles  # noqa: E402
from lib.config.loading import quiet_transformers  # noqa: E402
from lib.distillation import variants  # noqa: E402
from lib.experiments import models, students  # noqa: E402

KINDS = (
    "cosine",
    "cosine;100d;S:768;C:768;None;λ=0.5",
    "only-contextual;100d;S:768;C:768;cca",
)
# Tokens of the shortest, each tenth and the longest document, by the tokenizer of MiniLM.
DECILES = {
    "wikispeedia": [70, 836, 1431, 2056, 2740, 3471, 4096, 4096, 4096, 4096, 4096],
    "reuters_c50": [65, 456, 526, 575, 620, 657, 695, 732, 779, 859, 1876],
    "imdb": [16, 120, 157, 177, 200, 231, 273, 338, 432, 605, 3127],
}
TASK_TOKENS = 23_071_411  # of the 26,094 different texts of all tasks of lab_gpu
MINILM = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
HELD_OUT = 400


def draw(
    count: int, shares: dict[str, float], longest: int, generator: np.random.Generator
) -> list[np.ndarray]:
    """Documents of random token ids with the lengths of the corpora."""
    corpora = generator.choice(list(shares), size=count, p=np.array([*shares.values()]))
    tenths = np.linspace(0, 1, 11)
    lengths = [int(np.interp(generator.random(), tenths, DECILES[name])) for name in corpora]
    return [
        generator.integers(1000, 30000, min(length, longest), dtype=np.int32) for length in lengths
    ]


def documents(ids: list[np.ndarray], generator: np.random.Generator) -> students.TaughtDocuments:
    """The documents with random rows of both teachers."""
    structural, contextual = (
        generator.standard_normal((len(ids), width), dtype=np.float32)
        for width in (MINILM["hidden_size"], 100)
    )
    lengths = np.array([len(row) - 2 for row in ids])
    return students.TaughtDocuments(ids, lengths, structural, students.ContextualRows(contextual))


def lesson(
    label: str, profile, read: students.TaughtDocuments, held_out: students.TaughtDocuments, start
):
    """What `lib.experiments` would hand to a training of this variant."""
    variant = variants.parse(label)
    lacking = {
        name: None for name in ("structural", "contextual") if getattr(variant, name) is None
    }
    read, held_out = (
        students.TaughtDocuments(**vars(given) | lacking) for given in (read, held_out)
    )
    settings = profile.training
    precision = "bf16" if models.has_bfloat16() else "fp32"
    sizes = (profile.student, settings, profile.soft_cca, profile.width, precision)
    watched = {"held_out": held_out, "start": start} if variant.contextual else {}
    return students.Lesson(variant, 0, *sizes, read, **watched)


def timed(function, *arguments, **named):
    """What a function returns, and its seconds."""
    begin = time.perf_counter()
    result = function(*arguments, **named)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - begin


def train(label: str, profile, read, held_out, start) -> tuple[dict, object]:
    """Seconds and peak of one training, and the student."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    given = lesson(label, profile, read, held_out, start)
    with tempfile.TemporaryDirectory() as folder:
        (student, losses, _), seconds = timed(
            students.train_student, given, checkpoint=Path(folder) / "checkpoint"
        )
    batches = profile.training.documents // given.batch_size
    tokens = sum(len(row) for row in read.token_ids[: batches * given.batch_size])
    row = {"training": label, "batch": given.batch_size, "updates": len(losses)}
    row |= {"tokens": tokens, "seconds": seconds, "peak": peak(models.find_device())}
    assert np.isfinite(losses).all()
    return row, student


def embed(student, ids: list[np.ndarray], batch_tokens: int) -> dict:
    """Tokens a second, and seconds for the texts of all tasks."""
    run = {"batch_tokens": batch_tokens, "precision": "bf16"}
    student.encode(ids[: len(ids) // 10 + 1], **run)
    _, seconds = timed(student.encode, ids, **run)
    rate = sum(map(len, ids)) / seconds
    return {"embedding": batch_tokens, "tokens_per_second": rate, "all_tasks": TASK_TOKENS / rate}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, help="training documents; default: the profile's")
    parser.add_argument("--cca", type=int, help="batch size of plain CCA; default: the profile's")
    parser.add_argument("--texts", type=int, default=6000, help="texts to embed")
    parser.add_argument("--longest", type=int, default=4096, help="tokens of a document, at most")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    generator = np.random.default_rng(0)
    changes = []
    if options.documents:
        changes.append(f"training.documents={options.documents}")
    if options.cca:
        changes.append(f"training.cca_batch_size={options.cca}")
    rows = []

    def tell(row: dict) -> None:
        rows.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        positions = {"max_position_embeddings": 512, "pad_token_id": 0}
        with quiet_transformers():
            BertModel(BertConfig(**MINILM, **positions)).save_pretrained(folder)
        profile = profiles.load("lab_gpu", overrides=[*changes, f"student.model={folder}"])
        device = models.find_device()
        name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        tell({"device": name, "torch": torch.__version__, "bfloat16": models.has_bfloat16()})
        shares = {corpus.folder: corpus.share for corpus in profile.corpus.folders}
        read = documents(
            draw(profile.training.documents, shares, options.longest, generator), generator
        )
        held_out = documents(
            draw(min(HELD_OUT, options.texts), shares, options.longest, generator), generator
        )
        base, seconds = timed(models.load_base_student, profile.student)
        start = base.to(device).encode(held_out.token_ids, precision="bf16")
        tell({"held-out documents": len(start), "loading the base": seconds})
        for label in KINDS:
            row, student = train(label, profile, read, held_out, start)
            tell(row)
        texts = draw(options.texts, shares, options.longest, generator)
        for batch_tokens in (4096, 16384, 65536):
            tell(embed(student, texts, batch_tokens))
        few = [row[:1500] for row in texts[:3]]
        fast = student.encode(few, precision="bf16")
        exact = student.cpu().encode(few)
        cosines = (
            (fast * exact).sum(1) / np.linalg.norm(fast, axis=1) / np.linalg.norm(exact, axis=1)
        )
        tell({"cosines with float32 on the CPU": cosines.round(6).tolist()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
