"""The student and what a user would pick instead, at the same size: tokens a second.

    python benchmarks/bench_student.py       # docs/speed.md
    python benchmarks/bench_student.py --models student Longformer --steps inference training \
        --device cuda --size base --cases long many

All have random weights, and are used as their documentation says: one padded batch with its
attention mask.

    student           `lib.student`, window 512, documents packed without padding
    Longformer        `transformers.LongformerModel`, window 512, no global attention; it has the
                      student's weights, and how far the embeddings of both differ is printed
    full attention    `transformers.BertModel` with 4,096 positions
    ModernBERT        `transformers.ModernBertModel`, every third layer global, the others with its
                      window of 128; its gated feed-forward is two thirds as wide, which makes as
                      many products as the others without a gate
    chunk and mean    `transformers.BertModel` over chunks of 256 tokens, the mean over all tokens

A training step is forward and backward of a loss on the mean-pooled embeddings, without optimiser
and dropout. bf16 is autocast with float32 weights for all. On a CPU the rate is of CPU time of one
thread, and Longformer's training of the batch `wide` takes 16 GB.
"""

import argparse
import itertools
import time
from functools import partial

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

# ruff: noqa: E402
import torch
from transformers import (
    BertConfig,
    BertModel,
    LongformerConfig,
    ModernBertConfig,
    ModernBertModel,
    logging,
)

from lib.student import Student
from lib.student.folders import to_longformer

POSITIONS, CHUNK = 4096, 256
WIDE = [400, 1300, 1500, 600, 2600, 300]
CASES = {str(length): [length] * (2048 // length or 1) for length in (512, 1024, 2048, 4096)}
CASES |= {"mixed": [150, 300, 600, 1000]}
QUOTED = [*CASES]  # in docs/speed.md
CASES |= {"wide": WIDE, "many": WIDE * 4, "long": [4096] * 6}
# Layers, width, heads, vocabulary; the feed-forward layers are four times as wide.
SIZES = {"minilm": (6, 384, 12, 30522), "half": (6, 768, 12, 50265), "base": (12, 768, 12, 50265)}


def make_models(size: str, device: str) -> dict:
    """Name -> function from token ids to embeddings (documents, width)."""
    layers, width, heads, vocabulary = SIZES[size]
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    sizes |= {"vocab_size": vocabulary, "intermediate_size": 4 * width}
    windowed = {"attention_window": 512, "max_position_embeddings": POSITIONS + 2}
    student = Student(LongformerConfig(**sizes, **windowed, type_vocab_size=1))
    bert = BertModel(BertConfig(**sizes, max_position_embeddings=POSITIONS), False)
    gated = sizes | {"intermediate_size": 8 * width // 3, "max_position_embeddings": POSITIONS}
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id"), 0)
    modern = ModernBertModel(ModernBertConfig(**gated, **special, sep_token_id=0))
    longformer = to_longformer(student)
    longformer.pooler = None
    for module in (student, longformer, bert, modern):
        module.to(device).eval()
    return {
        "student": student,
        "Longformer": partial(embed, longformer, POSITIONS),
        "full attention": partial(embed, bert, POSITIONS),
        "ModernBERT": partial(embed, modern, POSITIONS),
        "chunk and mean": partial(embed, bert, CHUNK),
    }


def embed(model, size: int, documents: list[list[int]]) -> torch.Tensor:
    """The mean over the tokens of each document, whose pieces of `size` tokens are one batch."""
    pieces = [
        (row, ids[start : start + size])
        for row, ids in enumerate(documents)
        for start in range(0, len(ids), size)
    ]
    longest = max(len(ids) for _, ids in pieces)
    batch = torch.tensor([ids + [1] * (longest - len(ids)) for _, ids in pieces])
    lengths = torch.tensor([[len(ids)] for _, ids in pieces])
    mask = (torch.arange(longest)[None] < lengths).long().to(model.device)
    states = model(input_ids=batch.to(model.device), attention_mask=mask).last_hidden_state
    sums = (states * mask[..., None]).sum(1)
    rows = torch.tensor([row for row, _ in pieces], device=model.device)
    totals = sums.new_zeros(len(documents), sums.shape[1]).index_add(0, rows, sums)
    return totals / torch.tensor([[len(ids)] for ids in documents], device=model.device)


def work(model, documents: list[list[int]], step: str, precision: str, device: str) -> torch.Tensor:
    """One batch: its embeddings, read to the CPU so that a GPU has ended."""
    mixed = torch.autocast(device, torch.bfloat16, precision == "bf16")
    with torch.set_grad_enabled(step == "training"), mixed:
        embeddings = model(documents).float()
    if step == "training":
        embeddings.square().sum().backward()
    return embeddings.detach().cpu()


def least_seconds(works: dict, rounds: int, clock) -> dict[str, float]:
    """Name -> least seconds of a call, in turns, so that a busy machine slows all alike."""
    least = dict.fromkeys(works, float("inf"))
    for turn in range(rounds + 1):  # the first one is not counted
        for name, work in works.items():
            started = clock()
            work()
            if turn:
                least[name] = min(least[name], clock() - started)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", help="default: all")
    parser.add_argument("--size", choices=SIZES, default="minilm")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=QUOTED)
    parser.add_argument("--steps", nargs="+", default=["inference"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=2, help="turns of each model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.set_verbosity_error()  # no note about padding
    models = make_models(given.size, given.device)
    models = {name: models[name] for name in given.models or models}
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    for case, step, precision in itertools.product(given.cases, given.steps, given.precisions):
        documents = [torch.randint(5, 30000, (length,)).tolist() for length in CASES[case]]
        options = {"step": step, "precision": precision, "device": given.device}
        works = {name: partial(work, each, documents, **options) for name, each in models.items()}
        seconds = least_seconds(works, given.rounds, clock)
        rates = {name: sum(CASES[case]) / least for name, least in seconds.items()}
        first = next(iter(rates.values()))
        cells = [f"{name} {rate:,.0f} ({rate / first:.2f})" for name, rate in rates.items()]
        print(case, step, precision, f"| {' | '.join(cells)} |", flush=True)
        if {"student", "Longformer"} <= {*works}:
            difference = (works["student"]() - works["Longformer"]()).abs().max()
            print(f"    the student and Longformer differ by {difference:.0e}", flush=True)


if __name__ == "__main__":
    main()
