"""Projections: parsing, building, scaling, errors."""

import pytest
from torch import nn

from lib.distillation import projection


def test_layers_of_a_label():
    first, relu, second = projection.build("768(ReLU)x1024", 384)
    assert (first.in_features, first.out_features) == (384, 768)
    assert (second.in_features, second.out_features) == (768, 1024)
    assert [type(m) for m in (first, relu, second)] == [nn.Linear, nn.ReLU, nn.Linear]
    # Without (ReLU) there is none between; a last (ReLU) stays.
    assert [type(m) for m in projection.build("3x2(ReLU)", 4)] == [nn.Linear, nn.Linear, nn.ReLU]
    assert isinstance(projection.build("-", 5), nn.Identity)


def test_scale():
    for label in ("768(ReLU)x4096(ReLU)x1024", "1024x2048", "768"):
        assert projection.scale(label, 1.0) == label
    assert projection.scale("768(ReLU)x1024(ReLU)x768", 0.5) == "384(ReLU)x512(ReLU)x384"
    assert projection.scale("100(ReLU)x768", 0.333) == "33(ReLU)x256"  # 33.3 and 255.7
    assert projection.scale("3x1", 0.01) == "1x1"  # never below 1
    assert projection.scale("-", 0.5) == "-"


@pytest.mark.parametrize("label", ["0", "768(relu)", "768(ReLU)x", "768x٣"])
def test_a_bad_label_says_what_was_expected(label):
    with pytest.raises(ValueError, match="expected widths as in 768"):
        projection.build(label, 4)
