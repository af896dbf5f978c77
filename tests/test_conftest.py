"""Shape annotations are checked at run time, behind the library's own errors."""

import jaxtyping
import pytest
import torch

from lib.losses import mse, structural_mask


def test_annotations_are_checked_behind_the_librarys_own_errors():
    with pytest.raises(jaxtyping.TypeCheckError, match="lengths"):
        structural_mask([1.5], 2)
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\)"):
        mse(torch.ones(2, 3), torch.ones(2, 4))
