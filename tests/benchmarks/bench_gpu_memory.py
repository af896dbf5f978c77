"""Memory and time of one training step on 6 documents of 4,096 tokens, with and without gradient
checkpointing.

    python tests/benchmarks/bench_gpu_memory.py                 # CUDA, the published student
    python tests/benchmarks/bench_gpu_memory.py --layers 6      # the half of it
    python tests/benchmarks/bench_gpu_memory.py --layers 6 --width 384 --heads 12  # MiniLM
    python tests/benchmarks/bench_gpu_memory.py --compiled      # the parts between the attentions
    python tests/benchmarks/bench_gpu_memory.py --profile steps.txt  # and its kernels
    python tests/benchmarks/bench_gpu_memory.py --device cpu --documents 2 --tokens 256 \\
        --layers 2 --width 64

A step is what training does: forward in bfloat16 autocast, the backward pass of a loss on the
embeddings, clipping, and AdamW. The first two steps are not timed. Attention dropout is 0, so that
CUDA's fast attention computes. Each case runs in a process of its own, from the same random
weights; where a case does not fit, its row says so. On CUDA the peak is what torch held at once,
and in brackets what it had taken of the GPU; on a CPU the process' resident memory. The losses of
both cases are compared: checkpointing must not change the numbers.

The share is that of the products which a step needs, the recomputed ones not counted, in the peak
of the GPU's data sheet for dense bfloat16, and in the rate of a square product of 8,192 measured
here. `--compiled` compiles what lies between the attentions, without checkpointing alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench_student import needed, peak

from lib.config import environment

TOLERANCE = {"cpu": 1e-6, "cuda": 1e-2}  # of the loss, relative
VOCABULARIES = {768: 50265, 384: 30522}  # by width
# TFLOP/s of dense products in bfloat16 by the data sheets: names of GPUs, the longer ones first.
PEAKS = {"H100 PCIe": 756.0, "H100 NVL": 835.0, "H100": 989.4, "H200": 989.4, "A100": 312.0}
UNTIMED = 2  # steps


def sheet_peak(name: str) -> float | None:
    """TFLOP/s of the data sheet of the GPU of this name, if it is known."""
    return next((peak for part, peak in PEAKS.items() if part in name), None)


def product_rate(device: str) -> float:
    """TFLOP/s of a square product in bfloat16, the median of 20 on random numbers."""
    import torch

    size = 8192 if device == "cuda" else 512
    left, right = (torch.randn(size, size, device=device).bfloat16() for _ in range(2))
    seconds = []
    for _ in range(23):
        begin = time.perf_counter()
        product = left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    assert product.isfinite().all()
    return 2e-12 * size**3 / statistics.median(seconds[3:])


def compile_parts(student) -> None:
    """Compile what follows each attention: dense layers, activation, dropout, LayerNorm."""
    import torch

    for layer in student.encoder["layer"]:
        layer.attention["output"].compile(dynamic=True)
        layer.feed_forward = torch.compile(layer.feed_forward, dynamic=True)


def profiled(run, device: str) -> str:
    """Three steps by kernel, the dearest first."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    kinds = [ProfilerActivity.CPU]
    kinds += [ProfilerActivity.CUDA] if device == "cuda" else []
    with profile(activities=kinds) as found:
        for _ in range(3):
            run()
        if device == "cuda":
            torch.cuda.synchronize()
    order = f"self_{device}_time_total"
    return found.key_averages().table(sort_by=order, row_limit=40, max_name_column_width=90)


def step(options: argparse.Namespace, checkpointing: bool) -> dict:
    """One case: the peak in bytes, the seconds of a step, the loss of the last, and the weights in
    millions.
    """
    import torch
    from transformers import LongformerConfig

    from lib.student import Student

    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=VOCABULARIES.get(options.width, 1000),
        hidden_size=options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads or max(1, options.width // 64),
        intermediate_size=4 * options.width,
        attention_window=options.window,
        max_position_embeddings=options.tokens + 2,
        type_vocab_size=1,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.0,
    )
    student = Student(config).to(options.device).train()
    student.gradient_checkpointing = checkpointing
    if options.compiled:
        compile_parts(student)
    generator = torch.Generator().manual_seed(1)
    rows = [
        torch.randint(5, 1000, (options.tokens,), generator=generator).tolist()
        for _ in range(options.documents)
    ]
    target = torch.randn(options.documents, options.width, generator=generator).to(options.device)
    # As `lib.distillation.training` has it.
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-4, fused=True)

    def run() -> float:
        with torch.autocast(options.device, torch.bfloat16):
            embeddings = student(rows)
        loss = ((embeddings.float() - target) ** 2).mean()
        loss.backward()
        value = loss.item()  # waits for the GPU
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value

    seconds, loss = [], 0.0
    for _ in range(UNTIMED + options.steps):
        begin = time.perf_counter()
        loss = run()
        if options.device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    result = {
        "peak": peak(options.device),
        "reserved": torch.cuda.max_memory_reserved() if options.device == "cuda" else None,
        "seconds": min(seconds[UNTIMED:]),
        "median_seconds": statistics.median(seconds[UNTIMED:]),
        "loss": loss,
        "weights": sum(parameter.numel() for parameter in student.parameters()) / 1e6,
    }
    if options.profile and not checkpointing:
        options.profile.write_text(profiled(run, options.device), encoding="utf-8")
    return result


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
        "steps": 10,
        "heads": None,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--profile", type=Path, help="write the kernels of a step here")
    parser.add_argument("--json", type=Path, help="also write all figures here")
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
    size += ", compiled" if options.compiled else ""
    lengths = [options.tokens] * options.documents
    operations = needed(lengths, options.layers, options.width, "training", options.window)
    rates = {"sheet": sheet_peak(name), "product": product_rate(options.device)}
    if options.device == "cuda":
        torch.cuda.empty_cache()
    print(f"{size}, {name}, torch {torch.__version__}; a step needs {operations / 1e12:.3f} TFLOP")
    print(f"data sheet {rates['sheet']} TFLOP/s, a product of 8,192 {rates['product']:.0f}\n")
    print("| gradient checkpointing | peak, GiB | a step, s | tokens/s | TFLOP/s | share |")
    print("|---|---|---|---|---|---|")
    cases = {}
    for told in ("no",) if options.compiled else ("no", "yes"):
        cases[told] = result = case(words, told == "yes")
        print(
            f"| {' | '.join([told, *cells(result, operations, sum(lengths), rates)])} |", flush=True
        )
        if options.json:
            written = {"given": size, "device": name, "torch": torch.__version__}
            written |= {"operations": operations, "rates": rates, "checkpointing": cases}
            options.json.write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    losses = [result["loss"] for result in cases.values() if not isinstance(result, str)]
    return int(
        len(losses) == 2 and abs(losses[0] - losses[1]) > TOLERANCE[options.device] * abs(losses[0])
    )


def cells(result: dict | str, operations: float, tokens: int, rates: dict) -> list[str]:
    """What the table says of a case."""
    if isinstance(result, str):
        return [result, "", "", "", ""]
    peak = f"{result['peak'] / 2**30:.2f}"
    if result["reserved"]:
        peak += f" ({result['reserved'] / 2**30:.2f})"
    speed = operations / result["seconds"] / 1e12
    shares = [f"{speed / rate:.1%} of the {name}" for name, rate in rates.items() if rate]
    columns = [peak, f"{result['seconds']:.4f}", f"{tokens / result['seconds']:,.0f}"]
    return [*columns, f"{speed:.1f}", ", ".join(shares)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
