"""docs/to_onnx.py: a student in plain PyTorch, and written as ONNX, gives the embeddings of
`encode`.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch
from transformers import LongformerConfig, LongformerModel

from lib.config import paths
from lib.student import Student

LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 511, 513, 1000, 4095, 4096]


@pytest.fixture(scope="module")
def to_onnx():
    spec = importlib.util.spec_from_file_location("to_onnx", paths.ROOT / "docs" / "to_onnx.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """Two layers with windows of their own, 4,096 positions, weights large enough for attention
    that is not flat.
    """
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=90,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=4098,
        attention_window=[16, 512],
        initializer_range=0.3,
    )
    folder = tmp_path_factory.mktemp("longformer")
    LongformerModel(config).save_pretrained(folder)
    return Student.from_longformer(folder)


@pytest.fixture(scope="module")
def documents():
    """Ids of every length, the padding's among them, as a document may hold it."""
    draw = np.random.default_rng(0)
    return [draw.integers(0, 90, length) for length in LENGTHS]


def padded(documents):
    """Ids and mask (documents, longest) of documents of several lengths."""
    ids = np.full((len(documents), max(map(len, documents))), 1)
    mask = np.zeros_like(ids)
    for row, document in enumerate(documents):
        ids[row, : len(document)], mask[row, : len(document)] = document, 1
    return ids, mask


SIZES = [(1022, 64), (16, 77), ([16, 512], 300), (512, 511), (64, 64), (64, 32), (4, 9), (4, 3)]


@pytest.fixture
def make():
    """A student of any window and length, of random weights."""

    def make_student(window, limit):
        torch.manual_seed(0)
        layers = len(window) if isinstance(window, list) else 1
        config = LongformerConfig(
            vocab_size=90,
            hidden_size=16,
            num_hidden_layers=layers,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=limit + 2,
            attention_window=window,
            initializer_range=0.3,
        )
        return Student(config).eval()

    return make_student


@pytest.mark.parametrize("window, limit", SIZES)
def test_the_trace_of_a_student_holds_at_every_length(
    to_onnx, make, tmp_path, monkeypatch, window, limit
):
    """torch.export checks what it assumed of the sizes; the ONNX file is made of this trace."""
    student, seen = make(window, limit), []

    def export(model, example, path, *, dynamic_shapes, **_):
        traced = torch.export.export(model, example, dynamic_shapes=dynamic_shapes, strict=False)
        seen.append(traced.module())
        path.write_bytes(b"")

    monkeypatch.setattr(torch.onnx, "export", export)
    monkeypatch.setattr(to_onnx, "compare", lambda *_: None)
    to_onnx.write(student, tmp_path / "student.onnx")
    half = np.max(window) // 2
    for length in {1, 2, half - 1, half, half + 1, limit - 1, limit} & {*range(1, limit + 1)}:
        for count in (1, 3):
            ids = np.random.default_rng(length).integers(0, 90, (count, length))
            vectors = seen[0](torch.from_numpy(ids), torch.ones(count, length, dtype=torch.int64))
            np.testing.assert_allclose(vectors.detach().numpy(), student.encode(ids), atol=1e-5)
    nothing = torch.zeros(0, 1, dtype=torch.int64)
    with pytest.raises(AssertionError, match="input_ids"):  # onnxruntime would end the process
        seen[0](nothing, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("window, limit", [(1022, 64), (16, 77), (64, 64)])
def test_the_onnx_file_of_any_student_is_compared_before_it_is_written(
    to_onnx, make, tmp_path, monkeypatch, window, limit
):
    [*map(pytest.importorskip, ("onnx", "onnxscript", "onnxruntime"))]
    student = make(window, limit)
    to_onnx.write(student, tmp_path / "student.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["student.onnx"]
    before = (tmp_path / "student.onnx").read_bytes()
    encode = Student.encode
    monkeypatch.setattr(Student, "encode", lambda *inputs: 1.1 * encode(*inputs))
    with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
        to_onnx.write(student, tmp_path / "student.onnx")
    assert (tmp_path / "student.onnx").read_bytes() == before


def check(embed, student, documents):
    """One by one and in one padded batch. The largest entry of an embedding is about 1."""
    expected = student.encode(documents)
    for document, embedding in zip(documents, expected, strict=True):
        np.testing.assert_allclose(
            embed(*padded([document]))[0], embedding, atol=1e-5, err_msg=len(document)
        )
    np.testing.assert_allclose(embed(*padded(documents[:-2])), expected[:-2], atol=1e-5)


def test_the_plain_student_equals_encode_at_1_to_4096_tokens(to_onnx, student, documents):
    plain = to_onnx.PlainStudent(student).eval()
    with torch.inference_mode():
        check(lambda *inputs: plain(*map(torch.from_numpy, inputs)).numpy(), student, documents)


@pytest.mark.slow
def test_the_onnx_file_equals_encode_at_1_to_4096_tokens(to_onnx, student, documents, tmp_path):
    # the extra `onnx`
    _, _, onnxruntime = map(pytest.importorskip, ("onnx", "onnxscript", "onnxruntime"))
    to_onnx.write(student, str(tmp_path / "student.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "student.onnx")
    check(
        lambda ids, mask: session.run(None, {"input_ids": ids, "attention_mask": mask})[0],
        student,
        documents,
    )


@pytest.mark.slow
def test_the_int8_file_is_near_and_is_compared_before_it_is_written(
    to_onnx, make, tmp_path, monkeypatch
):
    [*map(pytest.importorskip, ("onnx", "onnxscript", "onnxruntime"))]
    student = make(16, 77)
    to_onnx.write(student, tmp_path / "student.onnx", int8=True)
    to_onnx.compare(student, tmp_path / "student.onnx", 0.98)
    with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
        to_onnx.compare(student, tmp_path / "student.onnx")  # it is not the float32 one
    encode = Student.encode
    monkeypatch.setattr(Student, "encode", lambda *inputs: encode(*inputs)[:, ::-1])
    with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
        to_onnx.write(student, tmp_path / "other.onnx", int8=True)
    assert [path.name for path in tmp_path.iterdir()] == ["student.onnx"]
