"""The [CLS] student of the drafts: a Longformer with global attention on the first token."""

import numpy as np
import torch

from lib.student.cls import ClsStudent
from tests.student.tiny import make_random

IDS = [list(range(3, 3 + length)) for length in (5, 40, 21)]


def make():
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return ClsStudent(make_random(16, 128, **dropout)).eval()


def test_global_attention_reaches_beyond_the_window():
    """Of 40 tokens the last is outside the one-sided windows of 8 in both layers."""
    cls = make()
    np.testing.assert_allclose(cls.encode(IDS), cls(IDS).detach(), atol=1e-5)
    changed = [*IDS[1][:-1], 50]
    assert not np.allclose(cls.encode([IDS[1]]), cls.encode([changed]), atol=1e-6)


def test_checkpointing_repeats_the_gradients():
    cls, grads = make(), []
    cls.freeze_token_embeddings()
    for cls.gradient_checkpointing in (False, True):
        cls.train().zero_grad()
        cls(IDS).square().sum().backward()
        assert cls.longformer.is_activation_checkpointing is cls.gradient_checkpointing
        layer = cls.longformer.encoder.layer[0]
        grads.append(layer.attention.self.query_global.weight.grad.clone())
    assert grads[0].abs().sum() > 0
    torch.testing.assert_close(grads[0], grads[1])
    assert cls.longformer.embeddings.word_embeddings.weight.grad is None
