"""Pictures that explain: what they show is what they were given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import FancyArrowPatch

from lib import figures

TEACHER = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])


def count_arrows(axis) -> int:
    return sum(isinstance(patch, FancyArrowPatch) for patch in axis.patches)


def read_texts(axis) -> list[str]:
    return [text.get_text() for text in axis.texts]


def test_an_embedding_that_a_loss_leaves_alone_has_no_arrow():
    student = np.array([[1.7, 0.0], [0.8, 0.8], [-1.0, 0.0]])
    turned = np.array([[0.0, 0.0], [-0.4, 0.4], [0.0, 0.0]])
    arrows = {"MSE": TEACHER - student, "cosine": turned, "nothing": 0 * turned}
    axes = figures.pulls(student, TEACHER, arrows).axes
    assert [axis.get_title() for axis in axes[:3]] == [*arrows]
    assert [count_arrows(axis) for axis in axes[:3]] == [2, 1, 0]
    assert read_texts(axes[0]) == ["A", "B", "C"]


def test_a_walk_has_a_dot_for_each_step():
    path = np.stack([scale * TEACHER for scale in (1, 2, 3)])
    (axis,) = figures.walks(TEACHER, {"γ = 1": path}).axes
    drawn = [line.get_xydata().tolist() for line in axis.lines]
    assert all(path[:, document].tolist() in drawn for document in range(3))


def test_a_history_has_a_panel_for_each_measure_and_a_line_for_each_student():
    measured = pd.DataFrame(
        {"cosine distance": [1.0, 0.5, 1.0, 0.9], "MSE": [0.1, 0.2, 0.1, 0.0]}
    ).assign(student=["cosine", "cosine", "MSE", "MSE"], update=[1, 2, 1, 2])
    axes = figures.histories(measured).axes
    assert [axis.get_title() for axis in axes] == ["cosine distance", "MSE"]
    assert [list(line.get_ydata()) for line in axes[1].lines] == [[0.1, 0.2], [0.1, 0.0]]


@pytest.mark.filterwarnings("error")
def test_nearest_texts_are_counted_and_shown_from_the_word_on():
    texts = ["It was a long and cold war of $5 and $6", "Warm days", "war", "Peace"]
    found = pd.DataFrame({"text": texts, "cosine": [0.9, 0.8, 0.7, 0.6]})
    found["model"] = ["DM", "DM", "DBOW", "DBOW"]
    figure = figures.nearest(found, "war")
    figure.draw_without_rendering()
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["DM: 1 of 2 contain “war”", "DBOW: 1 of 2 contain “war”"]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [r"… long and cold war of \$5 and \$6", "Warm days"]


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


def test_texts_are_shown_as_they_are_and_pale_where_they_were_not_read():
    html = figures.show_reading("a < b?", [("0.5 x", "read, <b>not</b>", 6), ("0.4 y", "all", 3)])
    assert "a &lt; b?" in html.data and "<b>not</b>" not in html.data
    read, rest = html.data.split("opacity")
    assert "read, " in read and "&lt;b&gt;not" in rest
    assert html.data.count("opacity") == 1, "what was read to its end is not pale anywhere"
