"""Pictures that explain: what they show is what they were given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import FancyArrowPatch

from lib import figures


def count_arrows(axis) -> int:
    return sum(isinstance(patch, FancyArrowPatch) for patch in axis.patches)


def read_texts(axis) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_a_history_has_a_panel_for_each_measure_and_a_line_for_each_student():
    measured = pd.DataFrame(
        {"cosine distance": [1.0, 0.5, 1.0, 0.9], "MSE": [0.1, 0.2, 0.1, 0.0]}
    ).assign(student=["cosine", "cosine", "MSE", "MSE"], update=[1, 2, 1, 2])
    axes = figures.histories(measured).axes
    assert [axis.get_title() for axis in axes] == ["cosine distance", "MSE"]
    assert [list(line.get_ydata()) for line in axes[1].lines] == [[0.1, 0.2], [0.1, 0.0]]


def test_words_and_each_step_of_a_document_are_drawn():
    words = {"apple": [1.0, 1.0], "saw": [-1.0, 0.0]}
    path = np.array([[0.0, 0.0], [0.3, 0.2], [0.5, 0.4]])
    one, two = figures.word_pulls(words, {"one step": path[:2], "two steps": path}).axes
    assert read_texts(one) == [*words] and (count_arrows(one), count_arrows(two)) == (1, 2)


def test_a_heat_map_writes_each_cosine_without_a_minus_before_a_zero():
    (axis,) = figures.heat_map(np.array([[1.0, -0.001], [-0.001, 1.0]]), ["a", "b"]).axes
    assert read_texts(axis) == ["1.00", "0.00", "0.00", "1.00"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a  1", "b  2"]


@pytest.mark.filterwarnings("error")
def test_nearest_texts_are_counted_and_shown_from_the_word_on():
    texts = ["It was a long and cold war of $5 and $6", "Warm days", "war", "Peace"]
    rows = pd.DataFrame({"text": texts, "cosine": [0.9, 0.8, 0.7, 0.6]})
    rows["model"] = ["DM", "DM", "DBOW", "DBOW"]
    figure = figures.nearest(rows, "war")
    figure.draw_without_rendering()
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["DM: 1 of 2 contain “war”", "DBOW: 1 of 2 contain “war”"]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [r"… long and cold war of \$5 and \$6", "Warm days"]
