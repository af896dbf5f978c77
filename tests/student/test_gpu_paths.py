"""What a GPU would run, checked without one: on torch's fake CUDA tensors, which have a device and shapes but no
numbers, on the CPU in bfloat16, and with `torch.cuda` replaced."""

import contextlib

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import LongformerConfig, LongformerModel

from lib.config import profiles
from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.variants import parse
from lib.experiments import models, structural_teacher
from lib.student import Student, attention, encoder

LENGTHS = [700, 1, 1500]


def tiny_student(attention_dropout: float = 0.0) -> Student:
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        attention_window=64,
        max_position_embeddings=2050,
        type_vocab_size=1,
        attention_probs_dropout_prob=attention_dropout,
    )
    return Student.from_longformer(LongformerModel(config, add_pooling_layer=False))


@pytest.fixture
def fast_attention(monkeypatch):
    """The calls of CUDA's fast attention, which here returns the queries."""
    import torch.nn.attention.varlen as varlen

    calls = []
    monkeypatch.setattr(varlen, "varlen_attn", lambda q, *others, **named: calls.append((q, *others, named)) or q * 1)
    attention._edges.cache_clear()
    yield calls
    attention._edges.cache_clear()


@contextlib.contextmanager
def on_fake_cuda(student: Student):
    """The student as if it were on a GPU, and all that is computed in the block."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.autocast("cuda", torch.bfloat16):
        for module in student.modules():
            for name, parameter in module._parameters.items():
                if parameter is not None:
                    fake = torch.empty(parameter.shape, device="cuda")
                    module._parameters[name] = nn.Parameter(fake)
        yield [torch.arange(5, 5 + length).remainder(90).tolist() for length in LENGTHS]


def test_training_on_cuda_in_bfloat16_goes_to_the_fast_attention_if_attention_has_no_dropout(fast_attention):
    student = tiny_student().train()
    with on_fake_cuda(student) as documents:
        embeddings = student(documents)
    assert embeddings.shape == (3, 32) and embeddings.device.type == "cuda" and embeddings.requires_grad
    assert len(fast_attention) == 2  # layers
    for q, k, v, edges, same, longest, _, named in fast_attention:
        assert {q.shape, k.shape, v.shape} == {(2201, 2, 16)} and {q.dtype, k.dtype, v.dtype} == {torch.bfloat16}
        assert edges is same and edges.shape == (4,) and edges.dtype == torch.int32 and edges.device == q.device
        assert longest == 1500 and named == {"window_size": (32, 32)}


def test_with_attention_dropout_training_does_not(fast_attention, monkeypatch):
    monkeypatch.setattr(attention._Blocks, "apply", lambda q, k, v, *_: q * 1)
    student = tiny_student(attention_dropout=0.1).train()
    with on_fake_cuda(student) as documents:
        student(documents)
    assert not fast_attention
    student.eval()
    with on_fake_cuda(student) as documents:
        student(documents)
    assert len(fast_attention) == 2


@pytest.mark.parametrize(("device", "pieces"), [("cuda", [2201]), ("cpu", [1024, 1024, 153])])
def test_the_feed_forward_is_cut_into_pieces_on_a_cpu_alone(fast_attention, monkeypatch, device, pieces):
    rows, feed_forward = [], encoder.Layer.feed_forward
    monkeypatch.setattr(encoder.Layer, "feed_forward", lambda self, x: rows.append(len(x)) or feed_forward(self, x))
    student = tiny_student().eval()
    with torch.no_grad():
        if device == "cuda":
            with on_fake_cuda(student) as documents:
                student(documents)
        else:
            student([torch.arange(5, 5 + length).remainder(90).tolist() for length in LENGTHS])
    assert rows == 2 * pieces


def test_what_encoding_caches_can_be_kept_for_a_backward_pass():
    """O4: a tensor made in inference mode raises an error in training."""
    attention._edges.cache_clear()
    with torch.inference_mode():
        edges = attention._edges((2, 3), torch.device("cpu"))
    assert attention._edges((2, 3), torch.device("cpu")) is edges and not edges.is_inference()
    assert edges.tolist() == [0, 2, 5]


@pytest.mark.parametrize(("rank", "gpu"), [(None, 0), ("0", 0), ("3", 3)])
def test_each_of_several_processes_has_a_gpu_of_its_own(monkeypatch, rank, gpu):
    """O4: all went to the first."""
    chosen = []
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank:
        monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    models.device.cache_clear()
    assert models.device() == "cuda" and chosen == [gpu]
    models.device.cache_clear()


def test_the_structural_teacher_computes_where_the_student_does(monkeypatch):
    """O4: it stayed on one thread of the CPU; the mean of chunks asks this same teacher."""
    monkeypatch.setattr(models, "device", lambda: "meta")
    teacher = structural_teacher.load(profiles.load("smoke"))
    assert {parameter.device.type for parameter in teacher.model.parameters()} == {"meta"}


def test_training_in_bfloat16_keeps_weights_and_losses_in_float32():
    """Autocast, on the CPU as on a GPU: near the float32 training, and not equal to it."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(20, 80, 24)
    ids = [generator.integers(5, 100, length).tolist() for length in lengths]
    vectors = generator.normal(size=(24, 32)).astype(np.float32)
    data = training.DistillationData(ids, lengths, vectors)
    losses, seen = {}, set()
    for precision in ("fp32", "bf16"):
        student = tiny_student()
        objective = Objective(parse("cosine"), student.dim, contextual_dim=None, width=1.0, max_structural_len=64)
        objective.register_forward_pre_hook(lambda _, arguments: seen.add(arguments[0].dtype))
        options = dict(batch_size=6, learning_rate=1e-3, seed=0, warmup_updates=1, precision=precision)
        losses[precision] = training.distill(student, objective, data, **options).loss
        assert {parameter.dtype for parameter in student.parameters()} == {torch.float32}
    assert seen == {torch.float32}
    assert losses["bf16"] != losses["fp32"]
    np.testing.assert_allclose(losses["bf16"], losses["fp32"], rtol=0.02)
