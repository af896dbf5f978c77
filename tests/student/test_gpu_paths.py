"""What a student would run on a GPU, checked without one; and, where there is one, on it.

Some tensors say that they are on a GPU; others are on the `meta` device: shapes without numbers.
"""

import copy

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.distillation import variants
from lib.distillation.objective import Objective
from lib.distillation.training import DistillationData, distill
from lib.student import Student, attention, encoder
from tests.student.tiny import make_random

GPU = "cuda"
DOCUMENTS = [[5 + (7 * place) % 90 for place in range(length)] for length in (700, 1, 300)]


@pytest.fixture
def fast_attention(monkeypatch):
    """The calls of CUDA's fast attention, which here returns the queries."""
    import torch.nn.attention.varlen as varlen

    calls = []
    record = lambda q, *others, **named: calls.append((q, *others, named)) or q * 1  # noqa: E731
    monkeypatch.setattr(varlen, "varlen_attn", record)
    attention._edges.cache_clear()
    yield calls
    attention._edges.cache_clear()


class OnCuda(torch.Tensor):
    """Says that it is on a GPU, and is not; so does all that is computed from it."""

    is_cuda = True


def test_bfloat16_on_cuda_goes_to_the_fast_attention(fast_attention):
    q, k, v = (torch.randn(10, 2, 4).bfloat16().as_subclass(OnCuda) for _ in range(3))
    assert attention.sliding_window(q, k, v, [3, 7], 4).shape == q.shape
    ((*given, edges, same, longest, longest_too, named),) = fast_attention
    assert all(ours is theirs for ours, theirs in zip(given, (q, k, v), strict=True))
    assert edges is same and edges.dtype == torch.int32 and edges.tolist() == [0, 3, 10]
    assert longest == longest_too == 7 and named == {"window_size": (2, 2)}
    attention.sliding_window(q, k, v, [3, 7], 4, dropout=0.1)
    assert len(fast_attention) == 1, "it has no dropout"


def test_shapes_and_devices_of_all_layers_on_the_meta_device(monkeypatch):
    """A tensor made on the CPU in between would be an error, as it would on a GPU."""
    monkeypatch.setattr(encoder, "sliding_window", lambda q, *_, **__: q * 1)
    student = make_random(64, 2048).to("meta").train()
    for student.gradient_checkpointing in (False, True):
        embeddings = student(DOCUMENTS)
        assert embeddings.shape == (3, 32) and embeddings.device.type == "meta"
        assert embeddings.requires_grad


def test_what_encoding_caches_can_be_kept_for_a_backward_pass():
    """A tensor made in inference mode raises an error in training."""
    attention._edges.cache_clear()
    with torch.inference_mode():
        edges = attention._edges((2, 3), torch.device("cpu"))
    assert attention._edges((2, 3), torch.device("cpu")) is edges and not edges.is_inference()
    assert edges.tolist() == [0, 2, 5]


def embeddings_and_gradients(student: Student, device: str, mixed: bool, checkpointing: bool):
    """Those of `forward`, the gradients of a random pull as one vector, and those of `encode`."""
    student = copy.deepcopy(student).to(device)
    student.train(checkpointing).gradient_checkpointing = checkpointing
    with torch.autocast(device, torch.bfloat16, enabled=mixed):
        embeddings = student(DOCUMENTS)
    pull = torch.randn(embeddings.shape, generator=torch.Generator().manual_seed(1)).to(device)
    (embeddings.float() * pull).sum().backward()
    gradients = torch.cat([parameter.grad.flatten() for parameter in student.parameters()])
    encoded = torch.tensor(student.encode(DOCUMENTS, precision="bf16" if mixed else "fp32"))
    return [each.detach().double().cpu() for each in (embeddings, gradients, encoded)]


@pytest.mark.gpu
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("mixed", "tolerance"), [(False, 1e-4), (True, 3e-2)])
def test_a_student_on_a_gpu_is_that_on_the_cpu(mixed, tolerance, checkpointing):
    student = make_random(64, 2048, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    expected = embeddings_and_gradients(student, "cpu", False, False)
    found = embeddings_and_gradients(student, GPU, mixed, checkpointing)
    for ours, reference in zip(found, expected, strict=True):
        assert (ours - reference).norm() < tolerance * reference.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("attention_dropout", [0.0, 0.1])
def test_a_training_on_a_gpu(tmp_path, attention_dropout):
    """Both losses, dropout, a checkpoint, and what a second call resumes."""
    documents = DOCUMENTS * 4
    rows = np.random.default_rng(0).standard_normal((2, len(documents), 32), dtype=np.float32)
    data = DistillationData(documents, np.array([*map(len, documents)]), rows[0], rows[1])
    changes = {"batch_size": 3, "warmup_share": 0.25, "accumulation": 1, "precision": "bf16"}
    changes["checkpoint_every"] = 2
    settings = profiles.load("smoke").training.model_copy(update=changes)

    def train():
        torch.manual_seed(0)
        student = make_random(64, 2048, attention_probs_dropout_prob=attention_dropout).to(GPU)
        objective = Objective(variants.parse("cosine;100d;S:32;C:32;None;λ=0.5"), 32, 32).to(GPU)
        given = student, objective, data, settings
        return student, distill(*given, seed=0, checkpoint=tmp_path / "kept")

    (trained, history), (resumed, same) = train(), train()
    assert len(history["loss"]) == 4 and np.isfinite(history["loss"]).all()
    assert same == history
    for ours, theirs in zip(trained.parameters(), resumed.parameters(), strict=True):
        assert ours.device.type == GPU and torch.equal(ours, theirs)
