"""Memory and time of one training step on 6 documents of 4,096 tokens, with and without gradient
checkpointing.

    python tests/benchmarks/bench_gpu_memory.py                 # CUDA, the published student
    python tests/benchmarks/bench_gpu_memory.py --layers 6      # the half of it
    python tests/benchmarks/bench_gpu_memory.py --device cpu --documents 2 --tokens 256 \\
        --layers 2 --width 64

A step is what training does: forward in bfloat16 autocast, the backward pass of a loss on the
embeddings, and AdamW. The first step makes AdamW's two moments and is not timed. Attention dropout
is 0, so that CUDA's fast attention computes. Each case runs in a process of its own, from the same
random weights; where a case does not fit, its row says so. On CUDA the peak is what torch held at
once, on a CPU the process' resident memory. The losses of both cases are compared: checkpointing
must not change the numbers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from bench_student import peak

from lib.config import environment

TOLERANCE = {"cpu": 1e-6, "cuda": 1e-2}  # of the loss, relative


def step(options: argparse.Namespace, checkpointing: bool) -> dict:
    """One case: the peak in bytes, the seconds of a step, the loss of the last, and the weights in
    millions.
    """
    import torch
    from transformers import LongformerConfig

    from lib.student import Student

    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=50265 if options.width == 768 else 1000,
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=max(1, options.width // 64),
        intermediate_size=4 * options.width,
        attention_window=options.window,
        max_position_embeddings=options.tokens + 2,
        type_vocab_size=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
    )
    student = Student(config).to(options.device).train()
    student.gradient_checkpointing = checkpointing
    generator = torch.Generator().manual_seed(1)
    rows = [
        torch.randint(5, 1000, (options.tokens,), generator=generator).tolist()
        for _ in range(options.documents)
    ]
    target = torch.randn(options.documents, options.width, generator=generator).to(options.device)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4)
    seconds, loss = [], torch.zeros(())
    for _ in range(1 + options.steps):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16):
            embeddings = student(rows)
        loss = ((embeddings.float() - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        loss.item()  # waits for the GPU
        seconds.append(time.perf_counter() - begin)
    weights = sum(parameter.numel() for parameter in student.parameters()) / 1e6
    return {
        "peak": peak(options.device),
        "seconds": min(seconds[1:]),
        "loss": loss.item(),
        "weights": weights,
    }


def case(words: list[str], checkpointing: bool) -> dict | str:
    """A case in a process of its own, or in a word why there is no number."""
    command = [sys.executable, __file__, *words, "--case", str(int(checkpointing))]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "OutOfMemoryError" in done.stderr:
        return "out of memory"
    raise SystemExit(done.stderr)


def main(words: list[str]) -> int:
    """Print the table; 1 if the two losses differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    for name, default in {
        "documents": 6,
        "tokens": 4096,
        "layers": 12,
        "width": 768,
        "window": 512,
        "steps": 3,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    environment.set_process_environment(offline=True)
    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU here; --device cpu with small sizes checks the code")
    if options.case is not None:
        print(json.dumps(step(options, bool(options.case))))
        return 0
    name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    size = f"{options.documents} documents of {options.tokens} tokens"
    size += f", {options.layers} layers, {options.width} wide"
    print(f"{size}, {name}\n\n| gradient checkpointing | peak, GiB | a step, s |\n|---|---|---|")
    cases = {told: case(words, told == "yes") for told in ("no", "yes")}
    for told, result in cases.items():
        missing = isinstance(result, str)
        cells = (
            [result, ""]
            if missing
            else [f"{result['peak'] / 2**30:.2f}", f"{result['seconds']:.2f}"]
        )
        print(f"| {' | '.join([told, *cells])} |")
    losses = [result["loss"] for result in cases.values() if not isinstance(result, str)]
    return int(
        len(losses) == 2 and abs(losses[0] - losses[1]) > TOLERANCE[options.device] * abs(losses[0])
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
