"""Time and peak memory of the student against `transformers.LongformerModel`, side by side in one
run.

    python tests/benchmarks/bench_student.py            # prints the table
    python tests/benchmarks/bench_student.py --check    # exits 1 below the bar
    python tests/benchmarks/bench_student.py --device cuda --size base --cases long mixed
    python tests/benchmarks/bench_student.py --alternatives  # against four others

Both sides have the same random weights: 6 layers, 768 wide, 12 heads, window 512; `--size` has the
published student and MiniLM's too. Hugging Face's side is what its user writes: one padded batch
with its attention mask, eager as shipped, no global attention. A training step is forward and
backward of a loss on the mean-pooled embeddings, without an optimiser. Dropout is off, so that both
sides compute the same numbers; `--dropout 0.1` shows the speed with Longformer's own.

In float32 both sides' embeddings and gradients have to agree. In bfloat16, the default on a GPU,
both are compared with Hugging Face's in float32: the student may be twice as far from them as
Hugging Face's own in bfloat16. A batch whose float32 step does not fit is not compared.

The sides run in processes of their own, two threads each unless `--threads` says otherwise, and
take turns, one step each, so that a busy machine slows both. Ratios are of the medians and of the
minima over the turns. On a CPU Hugging Face's training of the mixed batch takes 16 GB.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from lib.config import environment

MIXED = [400, 1300, 1500, 600, 2600, 300]
CASES = {"mixed": MIXED, "equal": [1536] * 4, "long": [4096] * 6, "many": MIXED * 4}
# Layers, width, heads, vocabulary; the feed-forward layers are four times as wide.
SIZES = {"half": (6, 768, 12, 50265), "base": (12, 768, 12, 50265), "minilm": (6, 384, 12, 30522)}
WINDOW = 512
# Lowest ratio Hugging Face / student that --check accepts, and the goal, for (case, step) on a CPU.
BARS = {
    ("mixed", "inference"): (5.0, 6.0),
    ("mixed", "training"): (7.0, 9.0),
    ("equal", "inference"): (2.0, 2.3),
    ("equal", "training"): (2.0, 3.0),
}
GPU_BAR = (8.0, 8.0)
# In float32, the largest difference of an embedding, and of a gradient relative to the largest of
# its parameter.
TOLERANCE = 1e-4
# In bfloat16, the student's distance from float32 relative to that of Hugging Face.
FARTHEST = 2.0


def checkpoint(folder: Path, size: str, dropout: float) -> None:
    """Write the Longformer that both sides load."""
    import torch
    from transformers import LongformerConfig, LongformerModel

    torch.manual_seed(0)
    layers, width, heads, vocabulary = SIZES[size]
    config = LongformerConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        attention_window=WINDOW,
        max_position_embeddings=4098,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    LongformerModel(config).save_pretrained(folder)


def reached(length: int, half: int) -> int:
    """Pairs (i, j) of positions below `length` with |i - j| <= half."""
    half = min(half, length - 1)
    return length * (2 * half + 1) - half * (half + 1)


def needed(lengths: list[int], layers: int, width: int, step: str, window: int = WINDOW) -> float:
    """Floating point operations of the products that touch no padding and leave no window."""
    linear = 24 * width**2 * sum(lengths)
    pairs = sum(reached(length, window // 2) for length in lengths)
    return layers * (linear + 4 * width * pairs) * (3 if step == "training" else 1)


def build(side: str, folder: Path, lengths: list[int], device: str):
    """The model of one side and a function that embeds the documents."""
    import torch

    generator = torch.Generator().manual_seed(1)
    documents = [
        torch.randint(5, 30000, (length,), generator=generator).tolist() for length in lengths
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
    side: str,
    step: str,
    folder: Path,
    lengths: list[int],
    device: str,
    precision: str,
    threads: int,
    pipe,
) -> None:
    """Do one step for every message; of what it writes to the folder it sends the name, or None
    where memory was short.
    """
    import torch
    from safetensors.torch import save_file

    torch.set_num_threads(threads)
    model, embed = build(side, folder, lengths, device)
    model.train(step == "training")
    shape = len(lengths), model.config.hidden_size
    target = torch.randn(shape, generator=torch.Generator().manual_seed(2)).to(device)

    def run(precision: str = precision):
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
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

    def write(precision: str) -> str | None:
        try:
            result = run(precision)
        except torch.OutOfMemoryError:
            return None
        finally:
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
        numbers = {"embeddings": result.float().cpu().clone()}
        numbers |= {n: p.grad.cpu() for n, p in model.named_parameters() if p.grad is not None}
        name = f"{side}-{step}-{precision}.safetensors"
        save_file(numbers, folder / name)
        return name

    pipe.send(peak(device))
    while (message := pipe.recv()) != "stop":
        if message in ("fp32", "bf16"):
            pipe.send(write(message))
            continue
        synchronize()
        started = time.perf_counter()
        run()
        synchronize()
        pipe.send((time.perf_counter() - started, peak(device)))


def peak(device: str) -> int:
    """Most bytes this process has held: resident on the CPU, allocated by torch on CUDA."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated()
    # Linux counts in KiB, macOS in bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def largest_difference(ours: dict, theirs: dict) -> dict[str, float]:
    """Of the embeddings (absolute) and of the gradients (relative to the largest entry of the
    parameter).
    """
    differences = {"embeddings": (ours["embeddings"] - theirs["embeddings"]).abs().max().item()}
    names = ours.keys() - {"embeddings"}
    if names:
        largest = max(float(theirs[name].abs().max()) for name in names)
        differences["gradients"] = max(
            float((ours[name] - theirs[name]).abs().max())
            / max(float(theirs[name].abs().max()), 1e-6 * largest)
            for name in names
        )
    return differences


def relative_error(numbers: dict, reference: dict) -> dict[str, float]:
    """Norm of the difference relative to that of the reference: of all embeddings together, of all
    gradients together, and of the parameter where it is largest.

    Biases of keys are left out there: their gradients are nothing but rounding.
    """

    def norm(names, other=None) -> float:
        parts = (reference[n] if other is None else other[n] - reference[n] for n in names)
        return sum(float(part.double().square().sum()) for part in parts) ** 0.5

    errors = {"embeddings": norm(["embeddings"], numbers) / norm(["embeddings"])}
    names = sorted(numbers.keys() - {"embeddings"})
    if names:
        errors["gradients"] = norm(names, numbers) / norm(names)
        errors["worst gradient"] = max(
            norm([n], numbers) / norm([n]) for n in names if not n.endswith("key.bias")
        )
    return errors


def compared(folder: Path, names: dict[str, str], reference: str | None) -> dict:
    """The differences of the two sides, and each side's errors against the reference, from the
    files that they wrote.
    """
    from safetensors.torch import load_file

    ours, theirs = (load_file(folder / names[side]) for side in ("student", "huggingface"))
    trained = {name for name in theirs if "_global." not in name}
    if ours.keys() != trained:
        raise SystemExit(
            f"the sides have gradients for different parameters: {sorted(ours.keys() ^ trained)}"
        )
    theirs = {name: theirs[name] for name in trained}
    found: dict = {"differences": largest_difference(ours, theirs)}
    if reference is not None:
        exact = load_file(folder / reference)
        found["errors"] = {
            "student": relative_error(ours, exact),
            "huggingface": relative_error(theirs, exact),
        }
    return found


def wrong(row: dict) -> str:
    """In what the two sides do not agree; nothing if they do, or were not compared."""
    if row["precision"] == "fp32":
        far = {k: d for k, d in row.get("differences", {}).items() if not d <= TOLERANCE}
        return f"the sides differ: {far}" if far else ""
    errors = row.get("errors")
    if errors is None:
        return ""
    theirs = errors["huggingface"]
    far = {k: e for k, e in errors["student"].items() if not e <= FARTHEST * theirs[k]}
    return f"farther from float32 than Hugging Face ({theirs}): {far}" if far else ""


def measure(case: str, step: str, folder: Path, options: argparse.Namespace) -> dict:
    """Alternate the two sides; times in seconds, memory in bytes."""
    context = multiprocessing.get_context("spawn")
    lengths, device, precision = CASES[case], options.device, options.precision
    sides = {}
    for side in ("student", "huggingface"):
        here, there = context.Pipe()
        given = (side, step, folder, lengths, device, precision, options.threads, there)
        process = context.Process(target=worker, args=given, daemon=True)
        process.start()
        there.close()  # a process that dies, as for want of memory, then ends the wait for it
        sides[side] = here, process

    def ask(side: str, message: str):
        pipe, _ = sides[side]
        pipe.send(message)
        return pipe.recv()

    try:
        row = {"case": case, "step": step, "size": options.size, "precision": precision}
        row |= {"lengths": lengths, "dropout": options.dropout}
        for side, (pipe, _) in sides.items():
            row[f"{side} loaded"] = pipe.recv()
        names = {side: ask(side, precision) for side in sides}
        if options.dropout == 0 and None not in names.values():
            reference = ask("huggingface", "fp32") if precision == "bf16" else None
            row |= compared(folder, names, reference)
        times: dict[str, list[float]] = {side: [] for side in sides}
        for turn in range(options.warm + options.repeats):
            for side in sides:
                seconds, row[f"{side} peak"] = ask(side, "run")
                if turn >= options.warm:
                    times[side].append(seconds)
        for pipe, process in sides.values():
            pipe.send("stop")
            process.join()
    finally:
        for _, process in sides.values():
            process.kill()
            process.join()
    layers, width, *_ = SIZES[options.size]
    operations = needed(lengths, layers, width, step)
    for side, seconds in times.items():
        row[f"{side} seconds"] = seconds
        row[f"{side} TFLOP/s"] = operations / statistics.median(seconds) / 1e12
    row["ratio"] = statistics.median(times["huggingface"]) / statistics.median(times["student"])
    row["ratio of minima"] = min(times["huggingface"]) / min(times["student"])
    return row


def bars(row: dict) -> tuple[float, float] | None:
    """The lowest ratio that --check accepts, and the goal."""
    if row["device"] != "cpu":
        return GPU_BAR
    return BARS.get((row["case"], row["step"])) if row["size"] == "half" else None


def describe(row: dict) -> str:
    """One line: times, ratio, memory, agreement."""
    ours, theirs = (
        statistics.median(row[f"{side} seconds"]) for side in ("student", "huggingface")
    )
    memory = [f"{row[f'{side} peak'] / 2**30:.2f}" for side in ("student", "huggingface")]
    found = [f"{name} {value:.0e}" for name, value in row.get("differences", {}).items()]
    errors = row.get("errors", {})
    found += [
        f"{side} from fp32: {', '.join(f'{k} {e:.1e}' for k, e in errors[side].items())}"
        for side in errors
    ]
    told = bars(row)
    goal = f"; bar {told[0]}, goal {told[1]}" if told else ""
    return (
        f"{row['case']:5} {row['step']:9}  student {ours:7.4f} s  Hugging Face {theirs:7.4f} s  "
        f"ratio {row['ratio']:5.2f} (minima {row['ratio of minima']:5.2f}{goal}) "
        f"peak GiB {memory[0]} / {memory[1]}  {row['student TFLOP/s']:.1f} TFLOP/s  "
        f"differences: {'; '.join(found) or 'not compared'}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="turns of each side")
    parser.add_argument("--json", type=Path, help="also write all figures here")
    parser.add_argument("--check", action="store_true", help="exit 1 if a ratio is below its bar")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=SIZES, default="half")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=["mixed", "equal"])
    parser.add_argument("--precision", choices=("fp32", "bf16"), help="default: bf16 on a GPU")
    parser.add_argument("--warm", type=int, default=0, help="turns before those that count")
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
        "--steps", nargs="+", choices=("inference", "training"), default=["inference", "training"]
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

    import torch

    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no GPU here")
    options.precision = options.precision or ("bf16" if options.device == "cuda" else "fp32")
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    rows, failed = [], []
    with tempfile.TemporaryDirectory() as name:
        checkpoint(Path(name), options.size, options.dropout)
        for case, step in itertools.product(options.cases, options.steps):
            try:
                row = measure(case, step, Path(name), options)
            except (EOFError, ConnectionError):
                failed.append(f"{case} {step}: a side ended early; was it out of memory?")
                print(failed[-1], flush=True)
                continue
            row |= {"device": device, "torch": torch.__version__}
            rows.append(row)
            print(describe(row), flush=True)
            if options.json:
                options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
            if why := wrong(row):
                failed.append(f"{case} {step}: {why}")
            # The better of the two ratios: on a shared machine a neighbour can hit one side of
            # every turn.
            lowest = (bars(row) or (0.0,))[0]
            if options.check and max(row["ratio"], row["ratio of minima"]) < lowest:
                failed.append(f"{case} {step}: {row['ratio']:.2f} is below {lowest}")
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
