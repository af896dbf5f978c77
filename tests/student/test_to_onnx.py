"""docs/to_onnx.py: in plain PyTorch and as ONNX, a student gives the embeddings of `encode`."""

import numpy as np
import pytest
import torch

from docs import to_onnx
from lib.student import Student
from tests.student.tiny import make_random

LENGTHS = [1, 2, 15, 17, 256, 513, 4096]


SIZES = [(1022, 64), (16, 77), ([16, 512], 300), (64, 64), (64, 32), (4, 9), (4, 3)]


def make(window, limit):
    layers = len(window) if isinstance(window, list) else 1
    return make_random(window, limit, num_hidden_layers=layers)


@pytest.mark.parametrize("window, limit", SIZES)
def test_the_trace_of_a_student_holds_at_every_length(tmp_path, monkeypatch, window, limit):
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
            ids = np.random.default_rng(length).integers(0, 100, (count, length))
            vectors = seen[0](torch.from_numpy(ids), torch.ones(count, length, dtype=torch.int64))
            np.testing.assert_allclose(vectors.detach().numpy(), student.encode(ids), atol=1e-5)
    nothing = torch.zeros(0, 1, dtype=torch.int64)
    with pytest.raises(AssertionError, match="input_ids"):  # onnxruntime would end the process
        seen[0](nothing, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("window, limit", [(1022, 64), (16, 77)])
def test_a_file_is_compared_before_it_is_written(tmp_path, monkeypatch, window, limit):
    [*map(pytest.importorskip, ("onnx", "onnxscript", "onnxruntime"))]
    student, file, encode = make(window, limit), tmp_path / "student.onnx", Student.encode
    to_onnx.write(student, file)
    to_onnx.compare(student, file)
    exported = file.read_bytes()  # which takes seconds; from here on it is what an export gives
    monkeypatch.setattr(torch.onnx, "export", lambda _, __, path, **___: path.write_bytes(exported))
    to_onnx.write(student, file, int8=True)
    to_onnx.compare(student, file, 0.98)
    with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
        to_onnx.compare(student, file)  # it is near the float32 one, and not the same
    before = file.read_bytes()
    monkeypatch.setattr(Student, "encode", lambda *inputs: 1.1 * encode(*inputs)[:, ::-1])
    for int8 in (False, True):
        with pytest.raises(ValueError, match="onnxruntime gives other embeddings"):
            to_onnx.write(student, file, int8)
    assert file.read_bytes() == before and [*tmp_path.iterdir()] == [file]


def test_the_plain_student_equals_encode_in_a_padded_batch():
    """At 1 to 4096 tokens; documents may hold the padding's id."""
    draw, student = np.random.default_rng(0), make([16, 512], 4096)
    documents = [draw.integers(0, 100, length) for length in LENGTHS]
    batch = [torch.from_numpy(document) for document in documents]
    ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=1)
    mask = torch.nn.utils.rnn.pad_sequence([*map(torch.ones_like, batch)], batch_first=True)
    with torch.inference_mode():
        vectors = to_onnx.PlainStudent(student).eval()(ids, mask).numpy()
    np.testing.assert_allclose(vectors, student.encode(documents), atol=1e-5)
