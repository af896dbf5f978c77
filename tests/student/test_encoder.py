"""lib.student.Student against transformers.LongformerModel: outputs and all gradients; and its bad
input.
"""

from __future__ import annotations

import copy
import threading
from functools import partial

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    CamembertConfig,
    CamembertModel,
    Data2VecTextConfig,
    Data2VecTextModel,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    ElectraModel,
    LongformerConfig,
    LongformerModel,
    ModernBertConfig,
    MPNetConfig,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from lib.student import Student
from lib.student.weights import tile_positions
from tests.threads import LIMIT, call_in_threads

VOCABULARY = 99


def settings(**changes):
    small = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    return (
        small
        | {"intermediate_size": 64, "max_position_embeddings": 130, "pad_token_id": 1}
        | changes
    )


def random_model(kind, config, seed=0):
    """A model whose weights are all random and large enough for attention to matter."""
    torch.manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.3).add_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    return model.eval()


def longformer(folder, window=16, **changes):
    """A Longformer checkpoint on disk and the stock model of it."""
    model = random_model(
        LongformerModel, LongformerConfig(**settings(attention_window=window, **changes))
    )
    model.save_pretrained(folder)
    return LongformerModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32)


def random_ids(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randint(2, VOCABULARY, (length,), generator=generator).tolist() for length in lengths
    ]


def embed(model, documents):
    """The stock model on a padded batch, mean over the tokens."""
    longest = max(map(len, documents))
    ids = torch.tensor([row + [1] * (longest - len(row)) for row in documents])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in documents])
    states = model(input_ids=ids, attention_mask=mask).last_hidden_state
    return (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    folder = tmp_path_factory.mktemp("longformer")
    longformer(folder)
    return Student.from_longformer(folder)


@pytest.mark.parametrize(
    ("lengths", "window", "checkpointing"),
    [
        ([1], 32, False),
        ([1, 2, 31, 32, 33, 100], 32, True),
        ([700, 5, 129], 128, False),
        ([600, 257, 256, 900], 512, False),
        ([4096, 1], 512, False),
        ([300, 40], [32, 256], False),
        ([300, 40], [32, 256], True),
    ],
)
def test_outputs_and_all_gradients_equal_longformer(tmp_path, lengths, window, checkpointing):
    theirs = longformer(tmp_path, window, max_position_embeddings=4098)
    ours = Student.from_longformer(tmp_path, dropout=0.0).train()
    ours.gradient_checkpointing = checkpointing
    documents = random_ids(lengths)
    target = torch.randn(len(lengths), 32, generator=torch.Generator().manual_seed(1))
    result, expected = ours(documents), embed(theirs, documents)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)
    (result * target).sum().backward()
    (expected * target).sum().backward()
    ours_grads = {name: parameter.grad for name, parameter in ours.named_parameters()}
    their_grads = {
        name: parameter.grad
        for name, parameter in theirs.named_parameters()
        if "_global." not in name
    }
    assert ours_grads.keys() == their_grads.keys()
    # Keys' biases shift all scores of a query alike: their gradient is zero but for rounding, hence
    # the scale of all.
    largest = max(grad.abs().max().item() for grad in their_grads.values())
    for name, grad in ours_grads.items():
        scale = max(their_grads[name].abs().max().item(), 1e-3 * largest)
        torch.testing.assert_close(
            grad / scale, their_grads[name] / scale, rtol=0, atol=1e-4, msg=name
        )


def test_a_document_has_the_same_bits_alone_and_in_any_batch(student):
    documents = random_ids([1, 128, 17, 64, 2, 3, 63, 65])
    together = student.encode(documents)
    for batch_tokens in (1, 100, 10_000):
        backwards = student.encode(documents[::-1], batch_tokens=batch_tokens)
        np.testing.assert_array_equal(backwards[::-1], together)
    for row, document in enumerate(documents):
        np.testing.assert_array_equal(student.encode([document])[0], together[row])


def test_encode_gives_what_forward_gives(student):
    documents = random_ids([1, 128, 17])
    np.testing.assert_allclose(
        student(documents).detach().numpy(), student.encode(documents), atol=1e-5
    )


def test_the_padding_id_inside_a_document_is_placed_as_in_longformer(tmp_path):
    theirs, ours = longformer(tmp_path), Student.from_longformer(tmp_path)
    document = [5, 1, 7, 1, 1, 9]
    expected = theirs(
        input_ids=torch.tensor([document]), attention_mask=torch.ones(1, 6)
    ).last_hidden_state.mean(1)
    torch.testing.assert_close(ours([document]), expected, rtol=0, atol=1e-5)


def test_encode_gives_float32_and_leaves_the_mode_alone(student):
    documents = random_ids([10, 40])
    student.train()
    first, second = student.encode(documents), student.encode([np.array(ids) for ids in documents])
    assert student.training and first.dtype == np.float32 and first.shape == (2, 32)
    np.testing.assert_array_equal(first, second)  # no dropout
    student.eval()
    half = student.encode(documents, precision="bf16")
    assert half.dtype == np.float32 and 0 < np.abs(half - first).max() < 0.15
    assert student.encode([]).shape == (0, 32)


@pytest.mark.parametrize("first_ends", [True, False])
def test_threads_share_a_student_in_training_mode(student, first_ends):
    """One of two calls ends while the other still computes, which must go on without dropout."""
    student, documents = copy.deepcopy(student).train(), random_ids([10, 40])
    expected = student.encode(documents)
    begun, ended = [threading.Event(), threading.Event()], threading.Event()

    def wait_for_other(*_):
        place = int(begun[0].is_set())
        begun[place].set()
        assert begun[1].wait(LIMIT)
        if bool(place) == first_ends:
            assert ended.wait(LIMIT)

    def encode(second):
        assert not second or begun[0].wait(LIMIT)
        vectors = student.encode(documents)
        ended.set()
        return vectors

    student.register_forward_pre_hook(wait_for_other)
    for vectors in call_in_threads(partial(encode, False), partial(encode, True)):
        np.testing.assert_array_equal(vectors, expected)
    assert student.training


def test_dropout_is_that_of_the_checkpoint_unless_set(tmp_path):
    longformer(tmp_path, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.4)
    documents = random_ids([20])
    dropped = Student.from_longformer(tmp_path)
    assert dropped.embeddings.dropout.p == 0.2
    assert dropped.encoder["layer"][1].attention["self"].dropout == 0.4
    expected = dropped(documents)
    dropped.train()
    assert not torch.allclose(dropped(documents), expected, atol=1e-3)
    torch.testing.assert_close(
        Student.from_longformer(tmp_path, dropout=0.0).train()(documents), expected
    )
    with pytest.raises(
        ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"
    ):
        Student.from_longformer(tmp_path, dropout=1.5)


def test_checkpointing_repeats_the_dropout(tmp_path):
    longformer(tmp_path, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3)
    model = Student.from_longformer(tmp_path).train()
    grads = []
    for checkpointing in (False, True):
        model.gradient_checkpointing = checkpointing
        model.zero_grad()
        torch.manual_seed(5)
        model(random_ids([30, 9])).pow(2).sum().backward()
        grads.append(model.encoder["layer"][0].attention["self"].query.weight.grad.clone())
    torch.testing.assert_close(grads[0], grads[1])


def test_weights_are_float32_whatever_is_stored(tmp_path):
    longformer(tmp_path).to(torch.bfloat16).save_pretrained(tmp_path)
    model = Student.from_longformer(tmp_path)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert all(parameter.requires_grad for parameter in model.parameters())
    model.freeze_token_embeddings()
    model(random_ids([5])).sum().backward()
    frozen = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert frozen == ["embeddings.word_embeddings.weight"]


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        (BertModel, BertConfig(**settings(pad_token_id=0))),
        (ElectraModel, ElectraConfig(**settings(pad_token_id=0, embedding_size=32))),
        (RobertaModel, RobertaConfig(**settings())),
        (XLMRobertaModel, XLMRobertaConfig(**settings())),
        (CamembertModel, CamembertConfig(**settings())),
        (Data2VecTextModel, Data2VecTextConfig(**settings())),
    ],
)
def test_from_encoder_equals_the_encoder_where_the_window_covers_all(tmp_path, kind, config):
    theirs = random_model(kind, config)
    theirs.save_pretrained(tmp_path)
    ours = Student.from_encoder(tmp_path, None, 1024, 512)
    for document in random_ids([1, 20, 128]):
        expected = theirs(input_ids=torch.tensor([document])).last_hidden_state.mean(1)
        torch.testing.assert_close(ours([document]), expected, rtol=0, atol=2e-5)
    assert ours.max_positions == 512 and ours.config.attention_window == [1024, 1024]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (MPNetConfig(), "mpnet with a bias by relative position"),
        (DebertaV2Config(), "deberta-v2 with attention by relative position"),
        (ModernBertConfig(), "modernbert with rotary positions"),
        (ElectraConfig(), "electra with narrow token embeddings"),
        (DistilBertConfig(), "distilbert with an architecture of its own"),
    ],
)
def test_a_base_of_another_architecture_is_refused_with_the_reason(tmp_path, config, why):
    config.save_pretrained(tmp_path)
    with pytest.raises(
        ValueError,
        match=f"is a {why}; a student can be made of bert, electra, roberta, .* absolute",
    ):
        Student.from_encoder(tmp_path, [0], 8, 40)


def test_from_encoder_takes_the_chosen_layers(tmp_path):
    theirs = random_model(BertModel, BertConfig(**settings(num_hidden_layers=4)))
    theirs.save_pretrained(tmp_path)
    ours = Student.from_encoder(tmp_path, [3, 1], [8, 16], 40).state_dict()
    for new, old in enumerate((3, 1)):
        for part in ("attention.self.value.weight", "output.LayerNorm.bias"):
            assert torch.equal(
                ours[f"encoder.layer.{new}.{part}"],
                theirs.state_dict()[f"encoder.layer.{old}.{part}"],
            )


def test_positions_are_tiled():
    tiled = tile_positions(torch.tensor([[1.0], [2.0], [3.0]]), padding=1, max_positions=7)
    assert tiled.flatten().tolist() == [0, 0, 1, 2, 3, 1, 2, 3, 1]


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[5, 6], []], r"expected texts or lists of token ids; document 1 is \[\]"),
        ([[5, VOCABULARY]], "document 0 has 2 tokens with ids from 5 to 99"),
        ([[5, 6], [-1]], "document 1 has 1 tokens with ids from -1 to -1; expected"),
        ([[5] * 129], "document 0 has 129 tokens .* expected at most 128,"),
        ([5, 6], "expected texts or lists of token ids; document 0 is 5"),
        ([None], "expected texts or lists of token ids; document 0 is None"),
        ([np.zeros((20, 20))], "expected texts or lists of token ids; document 0 is array"),
        ([[5.0, 6.5]], "expected texts or lists of token ids; document 0"),
        ([[True, False]], "expected texts or lists of token ids; document 0"),
    ],
)
def test_bad_ids(student, documents, message):
    for call in (student, student.encode):
        with pytest.raises(ValueError, match=message) as error:
            call(documents)
        assert "\n" not in str(error.value)


def test_bad_calls(student):
    with pytest.raises(ValueError, match="at least one array"):
        student([])
    with pytest.raises(ValueError, match="precision must be .*got 'fp16'"):
        student.encode([[5]], precision="fp16")
    with pytest.raises(ValueError, match="has no tokenizer; pass token ids"):
        student.encode(["a text"])


def test_bad_checkpoints(tmp_path):
    with pytest.raises(ValueError, match="there is no checkpoint folder .*nowhere"):
        Student.from_longformer(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="cannot read the configuration of .*empty: .*config.json"):
        Student.from_longformer(tmp_path / "empty")
    random_model(BertModel, BertConfig(**settings())).save_pretrained(tmp_path / "bert")
    with pytest.raises(
        ValueError, match="is a bert, expected a longformer; load it with Student.from_encoder"
    ):
        Student.from_longformer(tmp_path / "bert")
    for layers in ([2], [], [-1]):
        with pytest.raises(ValueError, match="layers must be indices from 0 to 1"):
            Student.from_encoder(tmp_path / "bert", layers, 8, 40)
    with pytest.raises(
        ValueError, match="attention_window must be an even number of at least 4, .* got 7"
    ):
        Student.from_encoder(tmp_path / "bert", [0], 7, 40)
    with pytest.raises(ValueError, match="cannot read .*bert: .*attention_window"):
        Student.from_encoder(tmp_path / "bert", [0, 1], [8, 8, 8], 40)
