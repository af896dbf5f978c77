"""Write a student as ONNX: `python docs/to_onnx.py students/mine mine.onnx` (docs/export.md).

With `--int8` behind it, weights of linear layers are int8, and what these read is rounded to 8 bits
while it runs.
"""

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

try:
    import numpy as np
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import pad

    from lib.student import Student
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}; needs: pip install -e '.[onnx]'") from None


BLOCK = 128  # tokens; larger ones see more keys than their window has
LEAST_COSINE = 0.98  # of an int8 file's vectors and the student's


class PlainStudent(nn.Module):
    """A student in plain PyTorch: ids and mask, both (documents, tokens), to embeddings."""

    def __init__(self, student: Student):
        super().__init__()
        self.student = student

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        counted = (input_ids != self.student.padding).long()
        positions = counted.cumsum(1) * counted + self.student.padding
        x = self.student.embeddings(input_ids, position_ids=positions)
        for layer in self.student.encoder["layer"]:
            attended = attend(layer.attention["self"], x, attention_mask.bool())
            x = layer.feed_forward(layer.attention["output"](attended, x))
        mask = attention_mask.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1)


def attend(attention: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """Attend in blocks of `BLOCK` tokens or half a window, which see half a window on each side.

    A trace holds for all lengths only if none is a case apart: there is one block more than needed,
    so two at least, and an axis with a number of blocks is never split again.
    """
    half, heads, (documents, tokens, _) = attention.window // 2, attention.heads, x.shape
    size = min(half, BLOCK)
    blocks, reach = (tokens - 1) // size + 2, size + 2 * half
    extra = blocks * size - tokens
    rows = torch.arange(blocks)[:, None] * size
    queries, keys = rows + torch.arange(size), rows + torch.arange(reach)
    projections = attention.query, attention.key, attention.value
    # (heads * documents, tokens, head_dim), then (heads * documents * blocks, size or reach, ...)
    q, k, v = (
        project(x).unflatten(-1, (heads, -1)).permute(2, 0, 1, 3).flatten(0, 1)
        for project in projections
    )
    q = pad(q, (0, 0, 0, extra))[:, queries].flatten(0, 1)
    k, v = (pad(y, (0, 0, half, half + extra))[:, keys].flatten(0, 1) for y in (k, v))
    distance = torch.arange(reach)[None] - torch.arange(half, half + size)[:, None]
    seen = pad(mask, (half, half + extra))[:, keys]
    allowed = (distance.abs() <= half) & seen[:, :, None]  # (documents, blocks, size, reach)
    allowed = allowed.expand(heads, -1, -1, -1, -1).flatten(0, 2)
    scores = torch.bmm(q / q.shape[-1] ** 0.5, k.transpose(1, 2))
    weights = scores.masked_fill(~allowed, torch.finfo(x.dtype).min).softmax(-1)
    place = torch.arange(heads) * documents + torch.arange(documents)[:, None, None]
    place = place * blocks * size + torch.arange(tokens)[:, None]  # (documents, tokens, heads)
    return torch.bmm(weights, v).flatten(0, 1)[place].flatten(2)


def write(student: Student, path: str, int8: bool = False) -> None:
    """Write the ONNX file: one document or more, of any length up to the student's longest.

    `ValueError` if onnxruntime does not embed as the student does; then nothing is written.
    """
    longest = student.max_positions
    tokens = min(longest, max(student.config.attention_window) + 1)
    example = torch.full((2, tokens), student.padding + 1)
    sizes = {
        0: torch.export.Dim("documents", min=1),  # none would end onnxruntime's process
        1: torch.export.Dim("tokens", min=1, max=longest),
    }
    with tempfile.TemporaryDirectory(dir=Path(path).resolve().parent) as folder:
        file = Path(folder) / "unfinished.onnx"
        torch.onnx.export(
            PlainStudent(student).eval(),
            (example, torch.ones_like(example)),
            file,
            input_names=["input_ids", "attention_mask"],
            output_names=["embeddings"],
            dynamic_shapes=(sizes, sizes),
            external_data=False,
        )
        if int8:
            file = quantise(file)
        compare(student, file, LEAST_COSINE if int8 else None)
        file.replace(path)


def quantise(file: Path) -> Path:
    """Write the file beside it whose linear layers have int8 weights, a scale for each output.

    With 7 of the 8 bits no sum overflows on a processor without VNNI.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole = file.with_suffix(".int8.onnx")
    settings = {"weight_type": QuantType.QInt8, "per_channel": True, "reduce_range": True}
    quantize_dynamic(file, whole, op_types_to_quantize=["MatMul", "Gemm"], **settings)
    return whole


def compare(student: Student, file: Path, least_cosine: float | None = None) -> None:
    """`ValueError` unless the file gives the student's embeddings, around blocks and at the end.

    To rounding, or with `least_cosine` to that cosine.
    """
    import onnxruntime

    session = onnxruntime.InferenceSession(file)
    half, longest = max(student.config.attention_window) // 2, student.max_positions
    draw = np.random.default_rng(0)
    for length in {1, half - 1, half, half + 1, longest - 1, longest} & {*range(1, longest + 1)}:
        ids = draw.integers(0, student.config.vocab_size, (2, length))
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        (vectors,), expected = session.run(None, inputs), student.encode(ids)
        if least_cosine is None:
            difference = np.abs(vectors - expected).max()
            near = difference <= 1e-4 * np.abs(expected).max()
        else:
            norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
            difference = 1 - ((vectors * expected).sum(axis=1) / norms).min()
            near = difference <= 1 - least_cosine
        if not near:
            told = f"onnxruntime gives other embeddings, by {difference:.2g}"
            raise ValueError(f"{length} tokens: {told}; nothing was written")


if __name__ == "__main__":
    needed = ("onnx", "onnxscript", "onnxruntime")  # torch looks for the second after a minute
    if not all(map(find_spec, needed)):
        raise SystemExit("needs: pip install -e '.[onnx]'")
    paths = [argument for argument in sys.argv[1:] if argument != "--int8"]
    if len(paths) != 2:
        raise SystemExit("usage: python docs/to_onnx.py <folder of a student> <file.onnx> [--int8]")
    try:
        write(Student.load(paths[0]), paths[1], int8="--int8" in sys.argv)
    except (ValueError, OSError) as error:
        raise SystemExit(f"to_onnx.py: {error}") from None
