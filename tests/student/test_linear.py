import pytest
import torch

from lib.student import linear
from lib.student.linear import ROWS, Linear, _FilledLinear


@pytest.fixture(autouse=True, params=[True, False], ids=["oneDNN", "MKL"])
def library(request, monkeypatch):
    monkeypatch.setattr(linear, "ONEDNN", request.param)


@pytest.fixture
def layer() -> Linear:
    torch.manual_seed(0)
    return Linear(24, 40)


def gradients(layer: Linear, x: torch.Tensor, forward) -> tuple[torch.Tensor, ...]:
    x = x.clone().requires_grad_()
    out = forward(layer, x)
    return out.detach(), *torch.autograd.grad((out**3).sum(), [x, *layer.parameters()])


@pytest.mark.parametrize(
    ("rows", "widths"),
    [(0, (24, 40)), (1, (24, 40)), (6, (24, 40)), (300, (24, 40)), (513, (768, 576))],
)
def test_equals_torch_with_every_gradient(rows, widths):
    torch.manual_seed(0)
    layer, x = Linear(*widths).double(), torch.randn(rows, widths[0])
    expected = gradients(layer, x.double(), torch.nn.Linear.forward)
    for ours, theirs in zip(gradients(layer.float(), x, Linear.forward), expected, strict=True):
        largest = float(theirs.abs().max()) if rows else 0
        torch.testing.assert_close(ours, theirs.float(), rtol=1e-4, atol=1e-4 + 1e-5 * largest)


def test_float32_on_a_cpu_is_filled_up_and_nothing_else_is(layer, monkeypatch):
    asked = []

    def apply(x, weight, bias):
        asked.append(x.dtype)
        return x @ weight.t() + bias

    monkeypatch.setattr(_FilledLinear, "apply", apply)
    x = torch.randn(3, 24)
    layer(x)
    assert asked == [torch.float32]
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    layer(x[None])
    layer.double()(x.double())
    assert len(asked) == 1


def test_products_have_few_shapes_whatever_the_number_of_tokens(layer, monkeypatch):
    """oneDNN keeps a kernel for every shape, and a training sees every number of tokens."""
    product, shapes = linear._product, set()
    monkeypatch.setattr(
        linear, "_product", lambda x, *rest: shapes.add(tuple(x.shape)) or product(x, *rest)
    )
    for rows in (1, 37, ROWS):
        layer(torch.randn(rows, 24, requires_grad=True)).sum().backward()
    assert shapes == {(ROWS, 24), (ROWS, 40), (40, ROWS)}
    layer.weight.requires_grad_(False).grad = None
    layer(torch.randn(3, 24)).sum().backward()  # a frozen weight and a constant input
    assert layer.weight.grad is None and layer.bias.grad.unique().tolist() == [1 + 37 + ROWS + 3]
