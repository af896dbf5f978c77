"""Pictures that explain: what they show is what they were given."""

import pandas as pd
import pytest

from lib import figures


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
    rows = pd.DataFrame({"text": texts, "cosine": [0.9, 0.8, 0.7, 0.6]})
    rows["model"] = ["DM", "DM", "DBOW", "DBOW"]
    figure = figures.nearest(rows, "war")
    figure.draw_without_rendering()
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["DM: 1 of 2 contain “war”", "DBOW: 1 of 2 contain “war”"]
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [r"… long and cold war of \$5 and \$6", "Warm days"]
