"""The student and what a user would pick instead, at the same size: tokens a second.

    python benchmarks/bench_student.py --csv rates.csv                       # docs/speed.md
    python benchmarks/bench_student.py --models student before --against ../older_checkout \
        --steps inference training --size mini --cases batch
    python benchmarks/bench_student.py --models student Longformer --steps inference training \
        --device cuda --size base --cases long many

All have random weights, read token ids, and are used as their documentation says.

    student           `lib.student`, documents packed without padding
    before            the student of another checkout, with the same weights
    Longformer        `transformers.LongformerModel` with the student's weights and window
    ModernBERT        `transformers.ModernBertModel`, every third layer global, the others with its
                      window of 128; its gated feed-forward is two thirds as wide, which makes as
                      many products as the others without a gate
    chunks            `transformers.BertModel` over chunks of `--chunk` tokens, the mean of all
    chunks, OpenVINO  the same by `openvino.convert_model`; and the file of docs/to_onnx.py in it is
    student, OpenVINO that reads document by document
    static table      the mean of 256 numbers a token

The last three only embed, on a CPU. A training step is forward and backward of a loss on the
embeddings, without optimiser and dropout, at size mini with frozen token embeddings. bf16 is
autocast, in OpenVINO a hint, in `encode` the students' own. On a CPU rates are of CPU time.
"""

import argparse
import importlib
import itertools
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

# ruff: noqa: E402
import pandas as pd
import torch
import transformers
from torch.nn.utils.rnn import pad_sequence

from lib.student import Student
from lib.student.folders import to_longformer

POSITIONS = 4096
WIDE = [400, 1300, 1500, 600, 2600, 300]
CASES = {str(length): [length] * (4096 // length) for length in (512, 1024, 2048, 4096)}
CASES |= {"mixed": [150, 300, 600, 1000] * 2}
QUOTED = [*CASES]  # in docs/speed.md
CASES |= {"batch": [60, 110, 150, 170, 200, 300], "many": WIDE * 4, "long": [4096] * 6}
# Layers, width, window; with heads of 32 or 64, and feed-forward layers four times as wide.
SIZES = {"minilm": (6, 384, 512), "mini": (3, 384, 64), "base": (12, 768, 512)}
MODELS = ["student", "Longformer", "ModernBERT", "chunks"]
MODELS += ["chunks, OpenVINO", "student, OpenVINO", "static table"]


def make_models(wanted: list[str], size: str, device: str, against: Path, chunk: int = 256) -> dict:
    """Name -> function from token ids and a precision to embeddings (documents, width)."""
    layers, width, window = SIZES[size]
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": 12}
    windowed = {"attention_window": window, "max_position_embeddings": POSITIONS + 2}
    sizes |= {"vocab_size": 30522, "intermediate_size": 4 * width}
    config = transformers.LongformerConfig(**sizes, **windowed, type_vocab_size=1)
    sizes["max_position_embeddings"] = POSITIONS
    student, makers = Student(config).to(device).eval(), {}
    bert = transformers.BertModel(transformers.BertConfig(**sizes), False)
    sizes |= dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id"), 0)
    sizes |= {"sep_token_id": 0, "intermediate_size": 8 * width // 3}
    modern = transformers.ModernBertModel(transformers.ModernBertConfig(**sizes))
    table = torch.nn.EmbeddingBag(30522, 256, mode="mean")
    longformer = to_longformer(student)
    longformer.pooler = bert.pooler = None
    for module in (longformer, bert, modern):
        module.to(device).eval()
    if size == "mini":  # as its profile trains
        student.freeze_token_embeddings()
    makers["student"] = lambda: partial(embed_by_student, student)
    makers["before"] = lambda: partial(embed_by_student, load_other(against, student))
    makers["Longformer"] = lambda: partial(embed_padded, longformer, POSITIONS)
    makers["ModernBERT"] = lambda: partial(embed_padded, modern, POSITIONS)
    makers["chunks"] = lambda: partial(embed_padded, bert, chunk)
    makers["chunks, OpenVINO"] = lambda: partial(embed_padded, InOpenVINO(bert), chunk)
    makers["student, OpenVINO"] = lambda: partial(embed_one_by_one, InOpenVINO(student))
    makers["static table"] = lambda: lambda ids, _: [table(torch.tensor([each])) for each in ids]
    return {name: makers[name]() for name in wanted}


def load_other(checkout: Path, student: Student):
    """The same student by the code of another checkout."""
    ours = {name: sys.modules.pop(name) for name in [*sys.modules] if name.split(".")[0] == "lib"}
    sys.path.insert(0, str(checkout.resolve()))
    other = importlib.import_module("lib.student").Student(student.config).eval()
    other.load_state_dict(student.state_dict())
    for name, weights in other.named_parameters():
        weights.requires_grad_(student.get_parameter(name).requires_grad)
    sys.path.pop(0)
    for name in [name for name in sys.modules if name.split(".")[0] == "lib"]:
        del sys.modules[name]
    sys.modules.update(ours)
    return other


class InOpenVINO:
    """A model of ids and mask in OpenVINO: a student's file, or a converted BERT."""

    def __init__(self, module):
        import openvino

        self.core, self.device, self.compiled = openvino.Core(), torch.device("cpu"), {}
        if isinstance(module, Student):
            with tempfile.TemporaryDirectory() as folder:
                importlib.import_module("docs.to_onnx").write(module, f"{folder}/student.onnx")
                self.graph = self.core.read_model(f"{folder}/student.onnx")
        else:
            names, example = ("input_ids", "attention_mask"), torch.ones(2, 8, dtype=torch.long)
            self.graph = openvino.convert_model(module, example_input=dict.fromkeys(names, example))

    def __call__(self, input_ids: torch.Tensor, attention_mask: torch.Tensor):
        precision = "bf16" if torch.is_autocast_enabled("cpu") else "f32"
        hint = {"INFERENCE_PRECISION_HINT": precision}
        hint |= {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
        if precision not in self.compiled:
            self.compiled[precision] = self.core.compile_model(self.graph, "CPU", hint)
        (found,) = self.compiled[precision]([input_ids.numpy(), attention_mask.numpy()]).values()
        return {"last_hidden_state": torch.from_numpy(found)}


def embed_by_student(student, documents: list, precision: str) -> torch.Tensor:
    if not torch.is_grad_enabled():
        return torch.from_numpy(student.encode(documents, precision=precision))
    kind = student.embeddings.LayerNorm.weight.device.type
    with torch.autocast(kind, torch.bfloat16, precision == "bf16"):
        return student(documents)


def embed_padded(model, size: int, documents: list, precision: str) -> torch.Tensor:
    """The mean over the tokens of each document, whose pieces of `size` tokens are one batch."""
    places = [(row, at) for row, ids in enumerate(documents) for at in range(0, len(ids), size)]
    parts = [torch.tensor(documents[row][at : at + size]) for row, at in places]
    ids = pad_sequence(parts, batch_first=True, padding_value=1).to(model.device)
    mask = pad_sequence([*map(torch.ones_like, parts)], batch_first=True).to(model.device)
    with torch.autocast(model.device.type, torch.bfloat16, precision == "bf16"):
        states = model(input_ids=ids, attention_mask=mask)["last_hidden_state"].float()
    rows = torch.tensor([row for row, _ in places], device=model.device)
    sums = states.new_zeros(len(documents), states.shape[2])
    sums = sums.index_add(0, rows, (states * mask[..., None]).sum(1))
    return sums / torch.tensor([[len(ids)] for ids in documents], device=model.device)


def embed_one_by_one(model, documents: list, precision: str) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16, precision == "bf16"):
        inputs = [torch.tensor([ids]) for ids in documents]
        return torch.cat([model(x, torch.ones_like(x))["last_hidden_state"] for x in inputs])


def work(model, documents: list, precision: str, step: str) -> torch.Tensor:
    """One batch: its embeddings, read to the CPU so that a GPU has ended."""
    with torch.set_grad_enabled(step == "training"):
        embeddings = model(documents, precision)
    if step == "training":
        embeddings.float().square().sum().backward()
    return embeddings.detach().cpu() if isinstance(embeddings, torch.Tensor) else embeddings


def least_seconds(works: dict, rounds: int, clock) -> dict[str, float]:
    """Name -> least seconds of a call, in turns, so that a busy machine slows all alike."""
    least = dict.fromkeys(works, float("inf"))
    for turn in range(rounds + 1):  # the first one is not counted
        for name, call in works.items():
            started = clock()
            call()
            if turn:
                least[name] = min(least[name], clock() - started)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--against", type=Path, help="checkout of `before`")
    parser.add_argument("--chunk", type=int, default=256, help="tokens of a chunk")
    parser.add_argument("--size", choices=SIZES, default="minilm")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=QUOTED)
    parser.add_argument("--steps", nargs="+", default=["inference"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=2, help="turns of each model")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--csv", help="file for all rates")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()  # no note about padding
    models = make_models(given.models, given.size, given.device, given.against, given.chunk)
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    rows = []
    for case, step, precision in itertools.product(given.cases, given.steps, given.precisions):
        ids = [torch.randint(5, 30000, (length,)).tolist() for length in CASES[case]]
        works = {name: partial(work, each, ids, precision, step) for name, each in models.items()}
        seconds = least_seconds(works, given.rounds, clock)
        rates = {name: sum(CASES[case]) / least for name, least in seconds.items()}
        rows += [(case, step, precision, *each) for each in rates.items()]
        first = next(iter(rates.values()))
        cells = [f"{name} {rate:,.0f} ({rate / first:.2f})" for name, rate in rates.items()]
        print(case, step, precision, f"| {' | '.join(cells)} |", flush=True)
        peers = {"before", "Longformer", "student, OpenVINO"} & {*works}  # the same weights
        for peer in peers if "student" in works else ():
            difference = (works["student"]() - works[peer]()).abs().max()
            print(f"    student and {peer} differ by {difference:.0e}", flush=True)
    if given.csv:
        columns = ["case", "step", "precision", "model", "rate"]
        pd.DataFrame(rows, columns=columns).to_csv(given.csv, index=False, float_format="%.0f")


if __name__ == "__main__":
    main()
