import pandas as pd

from lib import figures


def test_rows_of_the_readouts_follow_the_first_and_each_mark_is_at_its_score():
    scores = pd.DataFrame({"model": ["a", "b"], "none": [0.5, 0.3], "thesis": [0.1, 0.2]})
    (axis,) = figures.readouts(scores, {"thesis": "the thesis' heads", "none": "no head"}).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["b", "a"]
    drawn = {line.get_label(): list(line.get_xdata()) for line in axis.get_lines()}
    assert drawn == {"the thesis' heads": [0.2, 0.1], "no head": [0.3, 0.5]}
