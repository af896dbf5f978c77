"""The run-time checks of shape annotations are on, report what they should, and let the library's
own errors pass."""

from __future__ import annotations

import beartype
import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from lib.losses import contrastive, max_margin, mse


def test_the_hook_is_installed():
    assert hasattr(mse, "__wrapped__"), "lib was imported before conftest installed the hook"


def test_a_result_that_breaks_its_annotation_is_reported():
    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def per_row(x: Float[Tensor, "batch dim"]) -> Float[Tensor, " batch"]:
        return x.sum(dim=0)  # one value per dimension

    assert per_row(torch.zeros(3, 3)).shape == (3,)
    with pytest.raises(jaxtyping.TypeCheckError, match="return value"):
        per_row(torch.zeros(2, 3))


def test_an_argument_accepted_against_its_annotation_is_reported():
    with pytest.raises(jaxtyping.TypeCheckError, match="as_printed"):
        contrastive(torch.ones(2, 3), torch.ones(2, 3), as_printed="yes")


def test_the_librarys_own_error_comes_first():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        mse(torch.ones(2, 3), torch.ones(2, 4))


def test_an_integer_is_a_float():
    assert max_margin(torch.ones(2, 3), torch.ones(2, 3), gamma=1).shape == (2,)
