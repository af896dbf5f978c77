"""What a GPU would run, checked without one: by tensors that say that they are on a GPU, on the `meta` device, which
has shapes but no numbers, on the CPU in bfloat16, and with `torch.cuda` replaced."""

import numpy as np
import pytest
import torch
from transformers import LongformerConfig

from lib.config import profiles
from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.variants import parse
from lib.experiments import models, structural_teacher
from lib.student import Student, attention, encoder


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
    return Student(config)


@pytest.fixture
def fast_attention(monkeypatch):
    """The calls of CUDA's fast attention, which here returns the queries."""
    import torch.nn.attention.varlen as varlen

    calls = []
    monkeypatch.setattr(
        varlen,
        "varlen_attn",
        lambda q, *others, **named: calls.append((q, *others, named)) or q * 1,
    )
    attention._edges.cache_clear()
    yield calls
    attention._edges.cache_clear()


class OnCuda(torch.Tensor):
    """Says that it is on a GPU, and is not; so does all that is computed from it."""

    is_cuda = True


def bfloat16_qkv() -> list[torch.Tensor]:
    return [torch.randn(10, 2, 4).bfloat16().as_subclass(OnCuda) for _ in range(3)]


def test_bfloat16_on_cuda_goes_to_the_fast_attention(fast_attention):
    q, k, v = bfloat16_qkv()
    assert attention.sliding_window(q, k, v, [3, 7], 4).shape == q.shape
    ((*given, edges, same, longest, longest_too, named),) = fast_attention
    assert all(ours is theirs for ours, theirs in zip(given, (q, k, v), strict=True))
    assert edges is same and edges.dtype == torch.int32 and edges.tolist() == [0, 3, 10]
    assert longest == longest_too == 7 and named == {"window_size": (2, 2)}


def test_attention_dropout_keeps_training_from_it(fast_attention):
    """O4: the base's .1 stayed on, and no parameter turned it off."""
    attention.sliding_window(*bfloat16_qkv(), [3, 7], 4, dropout=0.1)
    assert not fast_attention
    assert profiles.load("lab_gpu").training.attention_dropout == 0


@pytest.mark.parametrize(("kind", "pieces"), [(OnCuda, [2049]), (torch.Tensor, [683, 683, 683])])
def test_the_feed_forward_is_cut_into_pieces_on_a_cpu_alone(monkeypatch, kind, pieces):
    """None of a single row, for which GELU would be oneDNN's."""
    rows, feed_forward = [], encoder.Layer.feed_forward
    monkeypatch.setattr(
        encoder.Layer, "feed_forward", lambda self, x: rows.append(len(x)) or feed_forward(self, x)
    )
    layer = tiny_student().eval().encoder["layer"][0]
    with torch.no_grad():
        layer(torch.randn(2049, 32).as_subclass(kind), [700, 1, 1348])
    assert rows == pieces


def test_shapes_and_devices_of_all_layers_on_the_meta_device(monkeypatch):
    """A tensor made on the CPU in between would be an error, as it would on a GPU."""
    monkeypatch.setattr(encoder, "sliding_window", lambda q, *_, **__: q * 1)
    student = tiny_student().to("meta").train()
    for student.gradient_checkpointing in (False, True):
        embeddings = student(
            [[5 + place % 90 for place in range(length)] for length in (700, 1, 1500)]
        )
        assert (
            embeddings.shape == (3, 32)
            and embeddings.device.type == "meta"
            and embeddings.requires_grad
        )


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
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
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
    """Autocast, on the CPU as on a GPU: near the float32 training, and not equal to it; in one process after it."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(20, 80, 24)
    ids = [generator.integers(5, 100, length).tolist() for length in lengths]
    vectors = generator.normal(size=(24, 32)).astype(np.float32)
    data = training.DistillationData(ids, lengths, vectors)
    losses, seen = {}, set()
    for precision in ("fp32", "bf16"):
        student = tiny_student()
        objective = Objective(
            parse("cosine"), student.dim, contextual_dim=None, width=1.0, max_structural_len=64
        )
        objective.register_forward_pre_hook(lambda _, arguments: seen.add(arguments[0].dtype))
        options = dict(
            batch_size=6, learning_rate=1e-3, seed=0, warmup_updates=1, precision=precision
        )
        losses[precision] = training.distill(student, objective, data, **options).loss
        assert {parameter.dtype for parameter in student.parameters()} == {torch.float32}
    assert seen == {torch.float32}
    assert losses["bf16"] != losses["fp32"]
    np.testing.assert_allclose(losses["bf16"], losses["fp32"], rtol=0.02)
