"""What a student would run on a GPU, checked without one.

Some tensors say that they are on a GPU; others are on the `meta` device: shapes without numbers.
"""

import pytest
import torch
from transformers import LongformerConfig

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
    attention.sliding_window(*bfloat16_qkv(), [3, 7], 4, dropout=0.1)
    assert not fast_attention


@pytest.mark.parametrize(("kind", "pieces"), [(OnCuda, [2049]), (torch.Tensor, [683, 683, 683])])
def test_the_feed_forward_is_cut_into_pieces_on_a_cpu_alone(monkeypatch, kind, pieces):
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
    """A tensor made in inference mode raises an error in training."""
    attention._edges.cache_clear()
    with torch.inference_mode():
        edges = attention._edges((2, 3), torch.device("cpu"))
    assert attention._edges((2, 3), torch.device("cpu")) is edges and not edges.is_inference()
    assert edges.tolist() == [0, 2, 5]
