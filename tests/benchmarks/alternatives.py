"""What a user would pick instead of the student, at the same size: `bench_student.py
--alternatives` runs this module.

All have the size of all-MiniLM-L6-v2 (6 layers, 384 wide, 12 heads, 1,536 feed-forward) and random
weights:

    student               `lib.student`, window 512, documents packed without padding
    Longformer            `transformers.LongformerModel`, window 512, no global attention
    full attention        `transformers.BertModel` with 4,096 positions, by PyTorch's
                          scaled_dot_product_attention
    ModernBERT            `transformers.ModernBertModel`, every third layer global, the others with
                          its window of 128; its gated feed-forward is 1,024 wide, as many products
                          as 1,536 without a gate
    chunk and mean        `transformers.BertModel` over chunks of 256 tokens, the mean over all
                          tokens of a document

Each is used as its documentation says: one padded batch with its attention mask. bf16 is autocast
with float32 weights for all; with bfloat16 weights inference would be up to 16 % faster, that of
the student and of the others. Dropout is 0. A training step is forward and backward of the mean
squared embedding, without
an optimiser.

Every turn runs in a process of its own with one thread, and the better of its two passes counts.
The models take turns, so that a busy neighbour slows all alike. Times are CPU seconds, the least of
the rounds. Memory is the peak of a pass above the loaded model. A share is the products that a
model needs, without padding and outside no window, per second, relative to the best rate of a
square product of 2,048 by the faster of MKL and oneDNN, measured in the same rounds.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import datetime  # noqa: E402
import multiprocessing  # noqa: E402
import resource  # noqa: E402
import statistics  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from functools import partial  # noqa: E402
from pathlib import Path  # noqa: E402

import pandas as pd  # noqa: E402
import torch  # noqa: E402
from bench_student import reached  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertModel,
    LongformerConfig,
    LongformerModel,
    ModernBertConfig,
    ModernBertModel,
    logging,
)

from lib.figures.style import COLORS, INK, csv_bytes, style  # noqa: E402
from lib.student import Student  # noqa: E402

RESULTS = Path(__file__).parent / "results"
SIZE = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
WINDOW, CHUNK, MODERN_WINDOW, MODERN_GLOBAL = 512, 256, 128, 3
POSITIONS = 4096
TOKENS = 2048  # at least, of a batch of equal lengths
MIXED = [150, 300, 600, 1000]
NAMES = {
    "student": "student",
    "longformer": "Longformer",
    "full": "full attention",
    "modernbert": "ModernBERT",
    "chunks": "chunk and mean",
}
PASSES = 2  # in a process: the first also pays for kernels and memory that the second finds
PRECISIONS = ("fp32", "bf16")
STEPS = ("inference", "training")
PRODUCTS = {
    "square": (2048, 2048, 2048),
    "width": (4096, 384, 384),
    "up": (4096, 384, 1536),
    "down": (4096, 1536, 384),
}

# of the plot, in microseconds
TICKS = [base * 10**power for power in range(1, 6) for base in (1, 2, 5)]

Documents = list[list[int]]
Embed = Callable[[Documents], torch.Tensor]  # token ids to embeddings (documents, width)


def contestant(name: str) -> tuple[torch.nn.Module, Embed]:
    """A model and the function that embeds documents with it."""
    if name == "student":
        student = Student(LongformerConfig(**SIZE, **_roberta()))
        return student, student
    if name == "longformer":
        model = LongformerModel(LongformerConfig(**SIZE, **_roberta()), add_pooling_layer=False)
    elif name == "modernbert":
        model = ModernBertModel(_modernbert())
    else:
        positions = CHUNK if name == "chunks" else POSITIONS
        config = BertConfig(**SIZE, max_position_embeddings=positions, attn_implementation="sdpa")
        model = BertModel(config, add_pooling_layer=False)
    return model, partial(mean_of_chunks if name == "chunks" else mean_of_tokens, model)


def mean_of_tokens(model: torch.nn.Module, documents: Documents) -> torch.Tensor:
    """The mean over the tokens of every document in one padded batch."""
    ids, mask = padded(documents)
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


def mean_of_chunks(model: torch.nn.Module, documents: Documents) -> torch.Tensor:
    """The same of chunks that do not see each other."""
    starts = [
        (row, start)
        for row, document in enumerate(documents)
        for start in range(0, len(document), CHUNK)
    ]
    ids, mask = padded([documents[row][start : start + CHUNK] for row, start in starts])
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    sums = (states * mask[..., None]).sum(1)
    totals = sums.new_zeros(len(documents), sums.shape[1]).index_add(
        0, torch.tensor([row for row, _ in starts]), sums
    )
    return totals / torch.tensor([[len(document)] for document in documents])


def _roberta() -> dict:
    """What Longformer and the student have beside their size."""
    return {
        "attention_window": WINDOW,
        "max_position_embeddings": POSITIONS + 2,
        "type_vocab_size": 1,
    }


def _modernbert() -> ModernBertConfig:
    sizes = {key: value for key, value in SIZE.items() if not key.endswith("_prob")}
    sizes["intermediate_size"] = SIZE["intermediate_size"] * 2 // 3
    special = {
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "cls_token_id": 1,
        "sep_token_id": 2,
    }
    layers = {"global_attn_every_n_layers": MODERN_GLOBAL, "local_attention": MODERN_WINDOW}
    return ModernBertConfig(
        **sizes, **special, **layers, max_position_embeddings=POSITIONS, attn_implementation="sdpa"
    )


def padded(documents: Documents) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask (documents, longest)."""
    longest = max(map(len, documents))
    ids = torch.tensor([document + [1] * (longest - len(document)) for document in documents])
    lengths = torch.tensor([[len(document)] for document in documents])
    return ids, (torch.arange(longest)[None] < lengths).long()


def needed(name: str, lengths: list[int]) -> float:
    """Floating point operations of the products in a forward pass that do not touch padding or
    leave a window.
    """
    width, layers = SIZE["hidden_size"], SIZE["num_hidden_layers"]
    linear = 2 * (4 * width**2 + 2 * width * SIZE["intermediate_size"]) * sum(lengths) * layers
    if name in ("student", "longformer"):
        pairs = layers * sum(reached(length, WINDOW // 2) for length in lengths)
    elif name == "modernbert":
        everywhere = -(-layers // MODERN_GLOBAL)
        pairs = everywhere * sum(length**2 for length in lengths)
        pairs += (layers - everywhere) * sum(
            reached(length, MODERN_WINDOW // 2) for length in lengths
        )
    elif name == "chunks":
        chunks = [
            min(CHUNK, length - start) for length in lengths for start in range(0, length, CHUNK)
        ]
        pairs = layers * sum(chunk**2 for chunk in chunks)
    else:
        pairs = layers * sum(length**2 for length in lengths)
    return linear + 4 * width * pairs


def one_pass(
    model: torch.nn.Module, embed: Embed, precision: str, step: str, lengths: list[int]
) -> tuple[float, int]:
    """CPU seconds of the faster of two passes and their peak of memory above the loaded model."""

    def seconds(documents: Documents) -> float:
        started = time.process_time()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            if step == "training":
                embed(documents).float().square().mean().backward()
            else:
                with torch.inference_mode():
                    embed(documents)
        took = time.process_time() - started
        model.zero_grad(set_to_none=True)
        return took

    model.train(step == "training")
    seconds([[5] * 8])  # loads what the first pass of a process loads
    before = peak()
    documents = [torch.randint(5, SIZE["vocab_size"], (length,)).tolist() for length in lengths]
    return min(seconds(documents) for _ in range(PASSES)), peak() - before


def rates(precisions: Sequence[str]) -> dict[tuple[str, str, str], float]:
    """The rates of matrix products in GFLOP/s by (precision, library, product)."""
    measured = {}
    for product, (rows, inner, columns) in PRODUCTS.items():
        x, weight = torch.randn(rows, inner), torch.randn(columns, inner)
        half, half_weight = x.bfloat16(), weight.bfloat16()
        by = {
            ("fp32", "MKL", product): lambda x=x, weight=weight: torch.mm(x, weight.t()),
            ("fp32", "oneDNN", product): lambda x=x, weight=weight: one_dnn(x, weight),
            ("bf16", "oneDNN", product): lambda x=half, weight=half_weight: torch.mm(x, weight.t()),
        }
        for key, multiply in by.items():
            if key[0] not in precisions:
                continue
            seconds = []
            for _ in range(4):
                started = time.process_time()
                multiply()
                seconds.append(time.process_time() - started)
            measured[key] = 2e-9 * rows * inner * columns / min(seconds)
    return measured


def alone(function: Callable, *arguments):
    """What a function returns in a process of its own; None if that dies, as for want of memory."""

    def work() -> None:
        there.send(function(*arguments))

    here, there = multiprocessing.get_context("fork").Pipe()  # torch and the models are loaded once
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return None
    finally:
        process.join()


def one_dnn(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The product of `lib.student.linear`."""
    return torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")


def peak() -> int:
    """Most memory this process has held resident, in bytes; Linux counts in KiB, macOS in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def measure(
    models: dict, case: str, lengths: list[int], step: str, precisions: Sequence[str], rounds: int
) -> tuple[list[dict], list[dict]]:
    """Rows of all models, and of the rates of products, for one batch and step."""
    batch = {
        "case": case,
        "date": str(datetime.date.today()),
        "documents": len(lengths),
        "tokens": sum(lengths),
    }
    batch |= {"step": step, "rounds": rounds}
    passes: dict[tuple[str, str], list] = {
        (name, precision): [] for precision in precisions for name in models
    }
    products = []
    for _ in range(rounds):
        products.append(alone(rates, precisions))
        for name, precision in passes:
            passes[name, precision].append(alone(one_pass, *models[name], precision, step, lengths))
    rows = []
    for (name, precision), answers in passes.items():
        if None in answers:
            print(
                f"{case} {step}: {NAMES[name]} in {precision} ended early; was it out of memory?",
                file=sys.stderr,
            )
            continue
        seconds, memory = zip(*answers, strict=True)
        row = {"model": NAMES[name], "precision": precision, "seconds": min(seconds)}
        row |= {
            "median_seconds": statistics.median(seconds),
            "tokens_per_second": sum(lengths) / min(seconds),
        }
        row |= {"memory_mib": max(memory) / 2**20}
        row |= {"needed_gflop": needed(name, lengths) * (3 if step == "training" else 1) / 1e9}
        rows.append(batch | row)
    columns = ("precision", "library", "product")
    best = {key: max(answer[key] for answer in products) for key in products[0]}
    return rows, [
        batch | dict(zip(columns, key, strict=True)) | {"gflops": value}
        for key, value in best.items()
    ]


def run(
    names: Sequence[str],
    lengths: list[int],
    mixed: list[int],
    steps: Sequence[str],
    precisions: Sequence[str],
    rounds: int,
    results: Path,
) -> None:
    """Measure models and batches; after each batch the files in `results` have these numbers in
    place of their own.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.set_verbosity_error()
    models = {name: contestant(name) for name in names}
    cases = {str(length): [length] * max(1, TOKENS // length) for length in lengths}
    cases |= {"mixed": mixed} if mixed else {}
    results.mkdir(parents=True, exist_ok=True)
    for step in steps:
        for case, batch in cases.items():
            speeds, product_rates = measure(models, case, batch, step, precisions, rounds)
            rows = replaced(results / "alternatives.csv", speeds)
            products = replaced(results / "product_rates.csv", product_rates)
            (results / "alternatives.md").write_text(table(rows, products), encoding="utf-8")
            if (rows["case"] != "mixed").any():
                draw(rows[rows["case"] != "mixed"], results / "alternatives.svg")
            print(case, step, flush=True)


def replaced(file: Path, rows: list[dict]) -> pd.DataFrame:
    """The rows of a file with these in place of its own of the same model or product, batch and
    step; written back.
    """
    frame = pd.DataFrame(rows)
    if file.exists():
        frame = pd.concat([pd.read_csv(file, dtype={"case": str}), frame])
    keys = ("case", "step", "model", "precision", "library", "product")
    frame = frame.drop_duplicates([key for key in keys if key in frame], keep="last")
    order = frame["step"].map(STEPS.index) * 10**6 + pd.to_numeric(
        frame["case"], errors="coerce"
    ).fillna(10**5)
    frame = frame.iloc[order.argsort(kind="stable")].reset_index(drop=True)
    file.write_bytes(csv_bytes(frame))
    return frame


def table(frame: pd.DataFrame, products: pd.DataFrame) -> str:
    """The Markdown page: speed and share, memory, rates."""
    rounds, dates = (sorted(frame[column].unique()) for column in ("rounds", "date"))
    squares = products[products["product"] == "square"]
    frame = frame.assign(rate=frame["precision"].map(squares.groupby("precision")["gflops"].max()))
    frame["share"] = frame["needed_gflop"] / frame["seconds"] / frame["rate"]
    rounds, dates = (
        " to ".join(map(str, dict.fromkeys((values[0], values[-1])))) for values in (rounds, dates)
    )
    lines = [
        "# The student and what a user would pick instead",
        "",
        f"`python tests/benchmarks/bench_student.py --alternatives`, {dates},"
        f" one thread of {processor()}, torch {torch.__version__}. 6 layers, 384 wide, 12 heads,"
        f" random weights. The columns are documents of that many tokens, at least {TOKENS} tokens"
        f" a batch; mixed is one batch of documents of {', '.join(map(str, MIXED))} tokens. Least"
        f" CPU time of {rounds} rounds, in which all took turns. `alternatives.py` says how each"
        " was run.",
    ]  # fmt: skip
    for step in STEPS:
        part = frame[frame["step"] == step]
        if part.empty:
            continue
        speed = [f"{row.tokens_per_second:,.0f} ({row.share:.0%})" for row in part.itertuples()]
        lines += [
            "",
            f"## {step.capitalize()}: tokens per second (share of the rate of products)",
            "",
        ]
        lines += markdown(part.assign(cell=speed))
        lines += ["", f"## {step.capitalize()}: peak memory above the loaded model, MiB", ""]
        lines += markdown(part.assign(cell=part["memory_mib"].map("{:,.0f}".format)))
    lines += ["", "## Rates of matrix products, GFLOP/s", ""]
    lines += [
        "The best of all rounds. The shares refer to the square product by the faster library of "
        "either dtype.",
        "",
        "| product | "
        + " | ".join(f"{precision}, {library}" for precision, library in RATES)
        + " |",
        "|---" * (1 + len(RATES)) + "|",
    ]
    best = products.groupby(["product", "precision", "library"])["gflops"].max()
    for product, (rows, inner, columns) in PRODUCTS.items():
        values = [
            f"{best[key]:.0f}" if (key := (product, *column)) in best else "-" for column in RATES
        ]
        lines.append(f"| {rows} x {inner} by {inner} x {columns} | " + " | ".join(values) + " |")
    return "\n".join(lines) + "\n"


RATES = (("fp32", "MKL"), ("fp32", "oneDNN"), ("bf16", "oneDNN"))


def measured(frame: pd.DataFrame) -> list[str]:
    """The precisions that a frame has, in our order."""
    return [precision for precision in PRECISIONS if precision in set(frame["precision"])]


def markdown(part: pd.DataFrame) -> list[str]:
    """A row per precision and model, a column per batch."""
    cases = list(dict.fromkeys(part["case"]))
    lines = ["| | " + " | ".join(cases) + " |", "|---" * (1 + len(cases)) + "|"]
    for precision in measured(part):
        for name in NAMES.values():
            chosen = part[(part["precision"] == precision) & (part["model"] == name)].set_index(
                "case"
            )["cell"]
            lines.append(
                f"| {name}, {precision} | "
                + " | ".join(chosen.get(case, "-") for case in cases)
                + " |"
            )
    return lines


def processor() -> str:
    """Name of the processor as Linux gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if cpuinfo.exists()
        else []
    )
    return names[0].split(":")[1].strip() if names else "an unknown processor"


def draw(frame: pd.DataFrame, file: Path) -> None:
    """Cost of a token against the length of documents: a row of panels per step, a column per
    precision.
    """
    import matplotlib.pyplot as plt

    steps = [step for step in STEPS if step in set(frame["step"])]
    frame = frame.assign(length=frame["case"].astype(int), cost=1e6 / frame["tokens_per_second"])
    lengths = sorted(frame["length"].unique())
    precisions = measured(frame)
    size = {"figsize": (4.25 * len(precisions), 0.6 + 3.2 * len(steps)), "squeeze": False}
    with style():
        figure, grid = plt.subplots(len(steps), len(precisions), sharex=True, sharey="row", **size)
        panels = {
            (step, precision): grid[i, j]
            for i, step in enumerate(steps)
            for j, precision in enumerate(precisions)
        }
        for (step, precision), axis in panels.items():
            part = frame[(frame["step"] == step) & (frame["precision"] == precision)]
            for (name, color), marker in zip(colors().items(), "osD^v", strict=True):
                line = part[part["model"] == name]
                width = 2.4 if name == "student" else 1.3
                axis.plot(
                    line["length"],
                    line["cost"],
                    color=color,
                    marker=marker,
                    ms=4,
                    lw=width,
                    label=name,
                )
            axis.set(xscale="log", yscale="log", title=f"{step}, {precision}")
            axis.set_xlim(lengths[0] * 0.9, lengths[-1] * 1.1)
            axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
            axis.xaxis.minorticks_off()
        for axis in grid.flat:  # the rows' common limits are known only now
            low, high = axis.get_ylim()
            axis.set_yticks([tick for tick in TICKS if low <= tick <= high], minor=False)
            axis.yaxis.set_major_formatter("{x:,.0f}")
            axis.yaxis.set_minor_formatter("")
            label_ends(axis)
        for axis in grid[:, 0]:
            axis.set_ylabel("µs of one core per token")
        for axis in grid[-1]:
            axis.set_xlabel("tokens of a document")
        figure.savefig(file, metadata={"Date": None, "Title": "cost of a token"})
        plt.close(figure)


def colors() -> dict[str, str]:
    """A colour for every model, told apart by colour-blind readers too."""
    return dict(zip(NAMES.values(), (INK, *(COLORS[i] for i in (0, 3, 2, 1))), strict=True))


def label_ends(axis) -> None:
    """Names of the lines right of their ends, moved up where they would overlap."""
    to_axes = axis.transData + axis.transAxes.inverted()
    ends = {
        line.get_label(): to_axes.transform(line.get_xydata()[-1])[1]
        for line in axis.lines
        if len(line.get_xydata())
    }
    height = -1.0
    for name, end in sorted(ends.items(), key=lambda item: item[1]):
        height = max(end, height + 0.075)
        weight = "bold" if name == "student" else "normal"
        place = {"xytext": (1.04, height), "textcoords": "axes fraction", "va": "center"}
        axis.annotate(
            name,
            (1, end),
            xycoords="axes fraction",
            **place,
            color=colors()[name],
            fontweight=weight,
        )
