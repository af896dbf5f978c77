"""The smallest students: with a tokenizer, for tests of what reads texts, and without."""

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, BertTokenizerFast, LongformerConfig

from lib.student import Student

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(60))]


def save_tokenizer(folder, padding=0, **options):
    """One that pads to 128 tokens, as MiniLM's does; `padding` is the id of its padding, 0 or 1."""
    ids = {word: i for i, word in enumerate(WORDS)} | {"[PAD]": padding, "[UNK]": 1 - padding}
    backend = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.enable_padding(length=128)
    options = {"model_max_length": 16} | options
    BertTokenizerFast(tokenizer_object=backend, **options).save_pretrained(folder)


def make_student(folder):
    """Two layers of a random BERT, saved in `folder`, as a student that reads 40 tokens."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 16}
    BertModel(BertConfig(vocab_size=len(WORDS), **sizes)).save_pretrained(folder / "bert")
    save_tokenizer(folder / "bert")
    return Student.from_encoder(folder / "bert", [0, 1], 8, 40)


def make_random(window, limit, **changes):
    """A student without a tokenizer, of weights so large that attention is not flat."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 64, "attention_window": window, "initializer_range": 0.3}
    config = LongformerConfig(max_position_embeddings=limit + 2, **sizes | changes)
    return Student(config).eval()
