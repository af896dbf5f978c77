"""The smallest student with a tokenizer, for tests of what reads texts."""

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, BertTokenizerFast

from lib.student import Student

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(60))]


def save_tokenizer(folder):
    backend = Tokenizer(
        models.WordPiece({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    backend.normalizer, backend.pre_tokenizer = (
        normalizers.BertNormalizer(),
        pre_tokenizers.BertPreTokenizer(),
    )
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    BertTokenizerFast(tokenizer_object=backend, model_max_length=64).save_pretrained(folder)


def make_student(folder):
    """Two layers of a random BERT, saved in `folder`, as a student that reads 40 tokens."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=16,
    )
    BertModel(config).save_pretrained(folder / "bert")
    save_tokenizer(folder / "bert")
    return Student.from_encoder(folder / "bert", [0, 1], 8, 40)
