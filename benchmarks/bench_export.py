"""Speed of an export on one core: in sentence-transformers, and in `lib.student`, which reads it.

    python benchmarks/bench_export.py

The weights are random: 6 layers, 384 wide, window 512; six documents have 300 to 2,600 tokens.
Tokens per second are of CPU time, in the fastest of three rounds. Both sides give the same
embeddings, which is asserted.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import random
import tempfile

import numpy as np
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LongformerConfig, PreTrainedTokenizerFast
from turns import least_seconds

from lib.student import Student

LENGTHS = [400, 1300, 1500, 600, 2600, 300]
WORDS = ["<unk>", "<pad>", *(f"w{number}" for number in range(30_000))]


def make_student() -> Student:
    """A random student with a word for a token."""
    sizes = {"vocab_size": len(WORDS), "hidden_size": 384, "num_hidden_layers": 6}
    sizes |= {"intermediate_size": 1536, "max_position_embeddings": 4098}
    words = {word: index for index, word in enumerate(WORDS)}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", pad_token="<pad>"
    )
    return Student(LongformerConfig(attention_window=512, **sizes), tokenizer).eval()


def main() -> None:
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS[2:], k=length)) for length in LENGTHS]
    with tempfile.TemporaryDirectory() as folder:
        make_student().export(f"{folder}/export")
        student = Student.load(f"{folder}/export")
        stock = SentenceTransformer(f"{folder}/export", device="cpu")
    sides = {
        "lib.student": lambda: student.encode(texts),
        "sentence-transformers, one batch": lambda: stock.encode(texts, batch_size=len(texts)),
        "sentence-transformers, one at a time": lambda: stock.encode(texts, batch_size=1),
    }
    for encode in sides.values():
        np.testing.assert_allclose(encode(), student.encode(texts), atol=1e-4)
    for side, seconds in least_seconds(sides, rounds=3).items():
        print(f"{side:37} {sum(LENGTHS) / seconds:5.0f} tokens per second")


if __name__ == "__main__":
    main()
