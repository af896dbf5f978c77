"""The run-time checks of shape annotations report what they should, and let the library's own
errors pass."""

import jaxtyping
import pytest
import torch

from lib.losses import contrastive, max_margin, mse


def test_annotations_are_checked_behind_the_librarys_own_errors():
    assert hasattr(mse, "__wrapped__"), "lib was imported before conftest installed the hook"
    with pytest.raises(jaxtyping.TypeCheckError, match="as_printed"):
        contrastive(torch.ones(2, 3), torch.ones(2, 3), as_printed="yes")
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        mse(torch.ones(2, 3), torch.ones(2, 4))
    assert max_margin(torch.ones(2, 3), torch.ones(2, 3), gamma=1).shape == (2,)
