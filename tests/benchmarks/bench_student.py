"""Time and peak memory of the student against `transformers.LongformerModel`, side by side in one
run.

    python tests/benchmarks/bench_student.py            # prints the table
    python tests/benchmarks/bench_student.py --check    # exits 1 below the bar
    python tests/benchmarks/bench_student.py --device cuda  # bfloat16 on a GPU
    python tests/benchmarks/bench_student.py --alternatives  # against four others

Both sides have the same random weights: 6 layers, 768 wide, 12 heads, window 512. Hugging Face's
side is what its user writes: one padded batch with its attention mask, eager as shipped, no global
attention. A training step is forward and backward of a loss on the mean-pooled embeddings, without
an optimiser. Dropout is off, so that both sides compute the same numbers, which is asserted;
`--dropout 0.1` shows the
speed with Longformer's
own.

The sides run in processes of their own, two threads each unless `--threads` says otherwise, and
take turns, one step each, so that a busy machine slows both. Ratios are of the medians and of the
minima over the turns. On a CPU Hugging Face's training of the mixed batch takes 16 GB.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lib.config import environment

CASES = {"mixed": [400, 1300, 1500, 600, 2600, 300], "equal": [1536] * 4}
# Lowest ratio Hugging Face / student that --check accepts, and the goal, for (case, step).
BARS = {
    ("mixed", "inference"): (5.0, 6.0),
    ("mixed", "training"): (7.0, 9.0),
    ("equal", "inference"): (2.0, 2.3),
    ("equal", "training"): (2.0, 3.0),
}
# Largest difference of an embedding, and of a gradient relative to the largest of its parameter.
TOLERANCE = {"cpu": 1e-4, "cuda": 5e-2}


def checkpoint(folder: Path, dropout: float) -> None:
    """Write the Longformer that both sides load."""
    import torch
    from transformers import LongformerConfig, LongformerModel

    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=50265,
        num_hidden_layers=6,
        attention_window=512,
        max_position_embeddings=4098,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    LongformerModel(config).save_pretrained(folder)


def build(side: str, folder: Path, lengths: list[int], device: str):
    """The model of one side and a function that embeds the documents."""
    import torch

    generator = torch.Generator().manual_seed(1)
    documents = [
        torch.randint(5, 50265, (length,), generator=generator).tolist() for length in lengths
    ]
    if side == "student":
        from lib.student import Student

        model = Student.from_longformer(folder).to(device)
        return model, lambda: model(documents)

    from transformers import LongformerModel, logging

    logging.set_verbosity_error()  # no note about padding and about the pooler that is left out
    model = LongformerModel.from_pretrained(
        folder, add_pooling_layer=False, dtype=torch.float32
    ).to(device)
    longest = max(lengths)
    ids = torch.tensor([row + [1] * (longest - len(row)) for row in documents], device=device)
    mask = (torch.arange(longest)[None] < torch.tensor(lengths)[:, None]).long().to(device)

    def embed():
        states = model(input_ids=ids, attention_mask=mask).last_hidden_state
        return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    return model, embed


def worker(
    side: str, step: str, folder: Path, lengths: list[int], device: str, threads: int, pipe
) -> None:
    """Do one step for every message; the first warms up and writes its numbers to the folder."""
    import torch
    from safetensors.torch import save_file

    torch.set_num_threads(threads)
    model, embed = build(side, folder, lengths, device)
    model.train(step == "training")
    target = torch.randn(len(lengths), 768, generator=torch.Generator().manual_seed(2)).to(device)

    def run():
        with torch.autocast("cuda", torch.bfloat16, enabled=device == "cuda"):
            if step == "inference":
                with torch.inference_mode():
                    return embed()
            model.zero_grad(set_to_none=True)
            embeddings = embed()
            ((embeddings - target) ** 2).sum().backward()
            return embeddings.detach()

    def synchronize():
        if device == "cuda":
            torch.cuda.synchronize()

    pipe.send(peak(device))
    while (message := pipe.recv()) != "stop":
        synchronize()
        started = time.perf_counter()
        result = run()
        synchronize()
        pipe.send((time.perf_counter() - started, peak(device)))
        if message == "write":
            numbers = {"embeddings": result.float().cpu().clone()}
            numbers |= {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}
            save_file(numbers, folder / f"{side}-{step}.safetensors")
            pipe.send(None)


def peak(device: str) -> int:
    """Most bytes this process has held: resident on the CPU, allocated by torch on CUDA."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def largest_difference(folder: Path, step: str) -> dict[str, float]:
    """Of the embeddings (absolute) and of the gradients (relative to the largest entry of the
    parameter).
    """
    from safetensors.torch import load_file

    ours, theirs = (
        load_file(folder / f"{side}-{step}.safetensors") for side in ("student", "huggingface")
    )
    trained = {name for name in theirs if "_global." not in name}
    if ours.keys() != trained:
        raise SystemExit(
            f"the sides have gradients for different parameters: {sorted(ours.keys() ^ trained)}"
        )
    differences = {
        "embeddings": (ours.pop("embeddings") - theirs.pop("embeddings")).abs().max().item()
    }
    if ours:
        largest = max(float(grad.abs().max()) for grad in theirs.values())
        differences["gradients"] = max(
            float((grad - theirs[name]).abs().max())
            / max(float(theirs[name].abs().max()), 1e-6 * largest)
            for name, grad in ours.items()
        )
    return differences


def measure(
    case: str, step: str, folder: Path, repeats: int, device: str, dropout: float, threads: int
) -> dict:
    """Alternate the two sides; times in seconds, memory in bytes."""
    context = multiprocessing.get_context("spawn")
    sides = {}
    for side in ("student", "huggingface"):
        here, there = context.Pipe()
        arguments = (side, step, folder, CASES[case], device, threads, there)
        process = context.Process(target=worker, args=arguments, daemon=True)
        process.start()
        there.close()  # a process that dies, as for want of memory, then ends the wait for it
        sides[side] = here, process
    row = {"case": case, "step": step, "lengths": CASES[case]}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for side, (pipe, _) in sides.items():
        row[f"{side} loaded"] = pipe.recv()
    for pipe, _ in sides.values():
        pipe.send("write")
        pipe.recv()
        pipe.recv()
    if dropout == 0:
        row["differences"] = largest_difference(folder, step)
    for _ in range(repeats):
        for side, (pipe, _) in sides.items():
            pipe.send("run")
            seconds, row[f"{side} peak"] = pipe.recv()
            times[side].append(seconds)
    for pipe, process in sides.values():
        pipe.send("stop")
        process.join()
    for side, seconds in times.items():
        row[f"{side} seconds"] = seconds
    row["ratio"] = statistics.median(times["huggingface"]) / statistics.median(times["student"])
    row["ratio of minima"] = min(times["huggingface"]) / min(times["student"])
    return row


def describe(row: dict) -> str:
    """One line: times, ratio, memory, agreement."""
    ours, theirs = (
        statistics.median(row[f"{side} seconds"]) for side in ("student", "huggingface")
    )
    memory = [f"{row[f'{side} peak'] / 2**30:.2f}" for side in ("student", "huggingface")]
    compared = [f"{name} {value:.0e}" for name, value in row.get("differences", {}).items()]
    bar, goal = BARS[row["case"], row["step"]]
    return (
        f"{row['case']:5} {row['step']:9}  student {ours:7.3f} s  Hugging Face {theirs:7.3f} s  "
        f"ratio {row['ratio']:5.2f} (minima {row['ratio of minima']:5.2f}; bar {bar}, goal {goal}) "
        f"peak GiB {memory[0]} / {memory[1]}  differences: {', '.join(compared) or 'not compared'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="turns of each side")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--check", action="store_true", help="exit 1 if a ratio is below its bar")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2, help="of each side")
    parser.add_argument(
        "--alternatives", action="store_true", help="compare more models, one thread each"
    )
    parser.add_argument("--rounds", type=int, default=3, help="turns of each alternative")
    parser.add_argument(
        "--lengths", type=int, nargs="+", help="of the alternatives: only these, no mixed batch"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        help="of the alternatives: only these of the names in alternatives.py",
    )
    parser.add_argument(
        "--steps", nargs="+", default=["inference", "training"], help="of the alternatives"
    )
    parser.add_argument(
        "--precisions", nargs="+", default=["fp32", "bf16"], help="of the alternatives"
    )
    parser.add_argument(
        "--results", type=Path, help="of the alternatives: a folder in place of the committed one"
    )
    options = parser.parse_args()
    environment.set_process_environment(offline=True)
    if options.alternatives:
        import alternatives

        mixed = [] if options.lengths else alternatives.MIXED
        lengths = options.lengths or [512, 1024, 2048, 4096]
        names = options.models or list(alternatives.NAMES)
        results = options.results or alternatives.RESULTS
        alternatives.run(
            names, lengths, mixed, options.steps, options.precisions, options.rounds, results
        )
        return 0

    rows, failed = [], []
    given = (options.repeats, options.device, options.dropout, options.threads)
    with tempfile.TemporaryDirectory() as name:
        checkpoint(Path(name), options.dropout)
        for case, step in BARS:
            try:
                row = measure(case, step, Path(name), *given)
            except EOFError:
                print(f"{case} {step}: a side ended early; was it out of memory?", file=sys.stderr)
                return 1
            rows.append(row)
            print(describe(row), flush=True)
            wrong = {
                what: d
                for what, d in row.get("differences", {}).items()
                if not d <= TOLERANCE[options.device]
            }
            if wrong:
                failed.append(f"{case} {step}: the sides differ: {wrong}")
            # The better of the two ratios: on a shared machine a neighbour can hit one side of
            # every turn.
            if options.check and max(row["ratio"], row["ratio of minima"]) < BARS[case, step][0]:
                failed.append(f"{case} {step}: {row['ratio']:.2f} is below {BARS[case, step][0]}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
