"""Write a student as ONNX: `python docs/to_onnx.py students/mine mine.onnx` (docs/export.md)."""

import sys
from importlib.util import find_spec

try:
    import torch
    from torch import Tensor, nn
    from torch.nn.functional import pad

    from lib.student import Student
except ModuleNotFoundError as missing:
    raise SystemExit(f"{missing}; needs: pip install -e '.[onnx]'") from None


class PlainStudent(nn.Module):
    """A student in plain PyTorch: ids and mask, both (documents, tokens), to embeddings."""

    def __init__(self, student: Student):
        super().__init__()
        self.student = student

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        counted = (input_ids != self.student.padding).long()
        x = self.student.embeddings(input_ids, counted.cumsum(1) * counted + self.student.padding)
        for layer in self.student.encoder["layer"]:
            attended = attend(layer.attention["self"], x, attention_mask.bool())
            x = layer.feed_forward(layer.attention["output"](attended, x))
        mask = attention_mask.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1)


def attend(attention: nn.Module, x: Tensor, mask: Tensor) -> Tensor:
    """Attend in blocks of half a window, each of which sees itself and its two neighbours."""
    half, tokens = attention.window // 2, x.shape[1]
    extra = -tokens % half
    projections = attention.query, attention.key, attention.value
    q, k, v = (project(x).unflatten(-1, (attention.heads, -1)) for project in projections)
    q = pad(q, (0, 0, 0, 0, 0, extra)).unflatten(1, (-1, half))
    k, v = (neighbours(pad(y, (0, 0, 0, 0, half, half + extra)), half) for y in (k, v))
    seen = neighbours(pad(mask, (half, half + extra)), half)
    distance = torch.arange(3 * half)[None] - torch.arange(half, 2 * half)[:, None]
    # (documents, blocks, 1, queries, keys)
    allowed = (distance.abs() <= half) & seen[:, :, None, None]
    scores = torch.einsum("dbqhc,dbkhc->dbhqk", q / q.shape[-1] ** 0.5, k)
    weights = scores.masked_fill(~allowed, torch.finfo(x.dtype).min).softmax(-1)
    return torch.einsum("dbhqk,dbkhc->dbqhc", weights, v).flatten(1, 2).flatten(2)[:, :tokens]


def neighbours(x: Tensor, size: int) -> Tensor:
    """(documents, blocks, 3 size, ...) of (documents, (blocks + 2) size, ...)."""
    blocks = x.unflatten(1, (-1, size))
    return torch.cat([blocks[:, :-2], blocks[:, 1:-1], blocks[:, 2:]], dim=2)


def write(student: Student, path: str) -> None:
    """Write the ONNX file: any number of documents, of any length up to the student's longest."""
    example = torch.full((2, student.max_positions // 2), student.padding + 1)
    sizes = {
        0: torch.export.Dim("documents"),
        1: torch.export.Dim("tokens", max=student.max_positions),
    }
    torch.onnx.export(
        PlainStudent(student).eval(),
        (example, torch.ones_like(example)),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["embeddings"],
        dynamic_shapes=(sizes, sizes),
        external_data=False,
    )


if __name__ == "__main__":
    if not all(map(find_spec, ("onnx", "onnxscript"))):  # which torch looks for after a minute
        raise SystemExit("needs: pip install -e '.[onnx]'")
    write(Student.load(sys.argv[1]), sys.argv[2])
