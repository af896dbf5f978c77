"""What a user would pick instead of the student, at the same size: tokens a second of one thread.

    python benchmarks/alternatives.py       # docs/speed.md

All have the size of all-MiniLM-L6-v2 and random weights, and are used as their documentation says:
one padded batch with its attention mask.

    student           `lib.student`, window 512, documents packed without padding
    Longformer        `transformers.LongformerModel`, window 512, no global attention
    full attention    `transformers.BertModel` with 4,096 positions
    ModernBERT        `transformers.ModernBertModel`, every third layer global, the others with its
                      window of 128; its gated feed-forward is 1,024 wide, as many products as 1,536
                      without a gate
    chunk and mean    `transformers.BertModel` over chunks of 256 tokens, the mean over all tokens

bf16 is autocast with float32 weights for all.
"""

from __future__ import annotations

from lib.config import environment

environment.set_process_environment(offline=True)  # before torch loads

import argparse  # noqa: E402
from functools import partial  # noqa: E402

import torch  # noqa: E402
from transformers import (  # noqa: E402
    BertConfig,
    BertModel,
    LongformerConfig,
    LongformerModel,
    ModernBertConfig,
    ModernBertModel,
    logging,
)
from turns import least_seconds, tabulate  # noqa: E402

from lib.student import Student  # noqa: E402

SIZE = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
POSITIONS, CHUNK = 4096, 256
TOKENS = 2048  # at least, of a batch of equal lengths
MIXED = [150, 300, 600, 1000]


def make_models() -> dict:
    """Name -> function from token ids to embeddings (documents, width)."""
    roberta = {"attention_window": 512, "max_position_embeddings": POSITIONS + 2}
    windowed = LongformerConfig(**SIZE, **roberta, type_vocab_size=1)
    bert = BertModel(BertConfig(**SIZE, max_position_embeddings=POSITIONS), False).eval()
    longformer = LongformerModel(windowed, add_pooling_layer=False).eval()
    gated = SIZE | {"intermediate_size": 1024, "max_position_embeddings": POSITIONS}
    special = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "cls_token_id"), 0)
    modern = ModernBertConfig(**gated, **special, sep_token_id=0, local_attention=128)
    return {
        "student": Student(windowed).eval(),
        "Longformer": partial(embed, longformer, POSITIONS),
        "full attention": partial(embed, bert, POSITIONS),
        "ModernBERT": partial(embed, ModernBertModel(modern).eval(), POSITIONS),
        "chunk and mean": partial(embed, bert, CHUNK),
    }


def embed(model, size: int, documents: list[list[int]]) -> torch.Tensor:
    """The mean over the tokens of each document, whose pieces of `size` tokens are one batch."""
    pieces = [
        (row, ids[start : start + size])
        for row, ids in enumerate(documents)
        for start in range(0, len(ids), size)
    ]
    longest = max(len(ids) for _, ids in pieces)
    batch = torch.tensor([ids + [1] * (longest - len(ids)) for _, ids in pieces])
    lengths = torch.tensor([[len(ids)] for _, ids in pieces])
    mask = (torch.arange(longest)[None] < lengths).long()
    states = model(input_ids=batch, attention_mask=mask).last_hidden_state
    sums = (states * mask[..., None]).sum(1)
    rows = torch.tensor([row for row, _ in pieces])
    totals = sums.new_zeros(len(documents), sums.shape[1]).index_add(0, rows, sums)
    return totals / torch.tensor([[len(ids)] for ids in documents])


def work(model, documents, precision: str) -> None:
    """One batch."""
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, precision == "bf16"):
        model(documents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 1024, 2048, 4096])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.set_verbosity_error()
    models = make_models()
    batches = {str(length): [length] * max(1, TOKENS // length) for length in given.lengths}
    for case, lengths in (batches | {"mixed": MIXED}).items():
        documents = [torch.randint(5, SIZE["vocab_size"], (length,)).tolist() for length in lengths]
        for precision in given.precisions:
            works = {
                name: partial(work, each, documents, precision) for name, each in models.items()
            }
            seconds = least_seconds(works, given.rounds)
            rates = {name: sum(lengths) / value for name, value in seconds.items()}
            print(case, precision, tabulate(rates, of="student"), flush=True)


if __name__ == "__main__":
    main()
