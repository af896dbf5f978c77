"""docs/to_onnx.py: a student in plain PyTorch, and written as ONNX, gives the embeddings of
`encode`.
"""

import importlib.util

import numpy as np
import pytest
import torch
from transformers import LongformerConfig

from lib.config import paths
from lib.student import Student

LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 255, 256, 257, 511, 513, 1000, 4095, 4096]


@pytest.fixture(scope="module")
def to_onnx():
    spec = importlib.util.spec_from_file_location("to_onnx", paths.ROOT / "docs" / "to_onnx.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SIZES = [(1022, 64), (16, 77), ([16, 512], 300), (512, 511), (64, 64), (64, 32), (4, 9), (4, 3)]


def make(window, limit):
    """A student of random weights, large enough for attention that is not flat."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 90, "hidden_size": 16, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": len(window) if isinstance(window, list) else 1}
    sizes |= {"intermediate_size": 16, "initializer_range": 0.3, "attention_window": window}
    return Student(LongformerConfig(max_position_embeddings=limit + 2, **sizes)).eval()


@pytest.mark.parametrize("window, limit", SIZES)
def test_the_trace_of_a_student_holds_at_every_length(
    to_onnx, tmp_path, monkeypatch, window, limit
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
@pytest.mark.parametrize(
    "window, limit, int8",
    [(1022, 64, False), (16, 77, False), (64, 64, False), (16, 77, True)],
)
def test_the_file_of_any_student_is_compared_before_it_is_written(
    to_onnx, tmp_path, monkeypatch, window, limit, int8
):
    [*map(pytest.importorskip, ("onnx", "onnxscript", "onnxruntime"))]
    student, file, encode = make(window, limit), tmp_path / "student.onnx", Student.encode
    to_onnx.write(student, file, int8)
    to_onnx.compare(student, file, 0.98)
    if int8:  # it is near the float32 one, and not the same
        with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
            to_onnx.compare(student, file)
    before = file.read_bytes()
    monkeypatch.setattr(Student, "encode", lambda *inputs: 1.1 * encode(*inputs)[:, ::-1])
    with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
        to_onnx.write(student, file, int8)
    assert file.read_bytes() == before and [*tmp_path.iterdir()] == [file]


def test_the_plain_student_equals_encode_at_1_to_4096_tokens(to_onnx):
    """One by one and in one padded batch; documents may hold the padding's id."""
    draw, student = np.random.default_rng(0), make([16, 512], 4096)
    documents = [draw.integers(0, 90, length) for length in LENGTHS]
    plain, expected = to_onnx.PlainStudent(student).eval(), student.encode(documents)
    for rows in (*([row] for row in range(len(LENGTHS))), range(len(LENGTHS) - 2)):
        batch = [torch.from_numpy(documents[row]) for row in rows]
        ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=1)
        mask = torch.nn.utils.rnn.pad_sequence([*map(torch.ones_like, batch)], batch_first=True)
        with torch.inference_mode():
            vectors = plain(ids, mask).numpy()
        np.testing.assert_allclose(vectors, expected[rows], atol=1e-5)
