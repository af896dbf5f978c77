"""The run-time checks of shape annotations are on, report what they should, and let the library's
own errors pass."""

from __future__ import annotations

import jaxtyping
import pytest
import torch

from lib.losses import contrastive, max_margin, mse


def test_the_hook_is_installed():
    assert hasattr(mse, "__wrapped__"), "lib was imported before conftest installed the hook"


def test_an_argument_accepted_against_its_annotation_is_reported():
    with pytest.raises(jaxtyping.TypeCheckError, match="as_printed"):
        contrastive(torch.ones(2, 3), torch.ones(2, 3), as_printed="yes")


def test_the_librarys_own_error_comes_first():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        mse(torch.ones(2, 3), torch.ones(2, 4))


def test_an_integer_is_a_float():
    assert max_margin(torch.ones(2, 3), torch.ones(2, 3), gamma=1).shape == (2,)
