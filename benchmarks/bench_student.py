"""Time of the student against `transformers.LongformerModel`, in turns, with the same weights.

    python benchmarks/bench_student.py
    python benchmarks/bench_student.py --device cuda --size base --cases long mixed

Hugging Face's side is what its user writes: one padded batch with its attention mask, no global
attention. A training step is forward and backward of a loss on the mean-pooled embeddings, without
optimiser and dropout. On a CPU Hugging Face's training of the mixed batch takes 16 GB.
"""

import argparse
import itertools
import tempfile
import time
from functools import partial

from turns import least_seconds

from lib.config import environment

MIXED = [400, 1300, 1500, 600, 2600, 300]
CASES = {"mixed": MIXED, "equal": [1536] * 4, "long": [4096] * 6, "many": MIXED * 4}
# Layers, width, heads, vocabulary; the feed-forward layers are four times as wide.
SIZES = {"half": (6, 768, 12, 50265), "base": (12, 768, 12, 50265), "minilm": (6, 384, 12, 30522)}
WINDOW = 512


def reached(length: int, half: int) -> int:
    """Pairs (i, j) of positions below `length` with |i - j| <= half."""
    half = min(half, length - 1)
    return length * (2 * half + 1) - half * (half + 1)


def needed(lengths: list[int], layers: int, width: int, step: str, window: int = WINDOW) -> float:
    """Floating point operations of the products that touch no padding and leave no window."""
    linear = 24 * width**2 * sum(lengths)
    pairs = sum(reached(length, window // 2) for length in lengths)
    return layers * (linear + 4 * width * pairs) * (3 if step == "training" else 1)


def build(size: str, device: str, folder: str) -> dict:
    """Both sides: a model, and a function that embeds token ids by it."""
    import torch
    from transformers import LongformerConfig, LongformerModel, logging

    from lib.student import Student

    logging.set_verbosity_error()  # no note about padding
    torch.manual_seed(0)
    layers, width, heads, vocabulary = SIZES[size]
    sizes = {"vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers}
    sizes |= {"num_attention_heads": heads, "intermediate_size": 4 * width}
    sizes |= {"attention_window": WINDOW, "max_position_embeddings": 4098}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    stock = LongformerModel(LongformerConfig(**sizes), add_pooling_layer=False).to(device)
    stock.save_pretrained(folder)
    student = Student.from_longformer(folder).to(device)

    def embed_padded(documents):
        longest = max(map(len, documents))
        ids = torch.tensor([row + [1] * (longest - len(row)) for row in documents], device=device)
        mask = (ids != 1).long()
        states = stock(input_ids=ids, attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    return {"student": (student, student), "Hugging Face": (stock, embed_padded)}


def measure(sides: dict, case: str, step: str, options: argparse.Namespace) -> str:
    """One line: least seconds, their ratio, and how far the embeddings differ."""
    import torch

    generator, embeddings = torch.Generator().manual_seed(1), {}
    draw = partial(torch.randint, 5, 30000, generator=generator)
    documents = [draw((length,)).tolist() for length in CASES[case]]

    def work(side: str) -> None:
        model, embed = sides[side]
        with (
            torch.autocast(options.device, torch.bfloat16, options.precision == "bf16"),
            torch.set_grad_enabled(step == "training"),
        ):
            result = embed(documents)
        if step == "training":
            model.zero_grad(set_to_none=True)
            result.float().square().sum().backward()
        embeddings[side] = result.detach().float().cpu()  # waits for the GPU

    works = {side: partial(work, side) for side in sides}
    ours, theirs = least_seconds(works, options.repeats, time.perf_counter).values()
    difference = (embeddings["student"] - embeddings["Hugging Face"]).abs().max()
    layers, width, *_ = SIZES[options.size]
    rate = needed(CASES[case], layers, width, step) / ours / 1e12
    return (
        f"{case:5} {step:9}  student {ours:.3f} s, Hugging Face {theirs:.3f} s: "
        f"{theirs / ours:.2f}x, {rate:.2f} TFLOP/s, difference {difference:.0e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3, help="turns of each side")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=SIZES, default="half")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["mixed", "equal"])
    parser.add_argument("--steps", nargs="+", default=["inference", "training"])
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    options = parser.parse_args()
    environment.set_process_environment(offline=True)
    with tempfile.TemporaryDirectory() as folder:
        sides = build(options.size, options.device, folder)
        for case, step in itertools.product(options.cases, options.steps):
            print(measure(sides, case, step, options), flush=True)


if __name__ == "__main__":
    main()
