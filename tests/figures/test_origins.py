"""Which document the numbers of a batch come from."""

import numpy as np
import pytest

from lib import figures


@pytest.mark.parametrize("features", [4, 20])
def test_the_colour_of_a_number_is_that_of_its_document_wherever_it_went(features):
    batch = np.arange(3 * features).reshape(3, features)
    moved, shifted = np.roll(batch, 1, axis=0), np.roll(batch, 1)
    figure = figures.draw_origins({"before": batch, "moved": moved, "shifted": shifted})
    before, after, flat = (axis.images[0].get_array() for axis in figure.axes)
    np.testing.assert_array_equal(after, np.roll(before, 1, axis=0))
    np.testing.assert_array_equal(flat[0, 1:], before[0, :-1])
    np.testing.assert_array_equal(flat[0, 0], before[2, -1])
    shares = [axis.get_xlabel().split("%")[0] for axis in figure.axes]
    assert shares == ["100", "0", f"{100 - 100 / features:.0f}"]
