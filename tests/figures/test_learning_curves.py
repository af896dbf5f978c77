import pandas as pd
import pytest

from lib import figures


@pytest.fixture
def shares():
    rows = [
        (group, name, update, 0.1 + update / 100)
        for group in "ab"
        for name in "xyz"
        for update in (0, 10, 20)
    ]
    return pd.DataFrame(rows, columns=["group", "model", "update", "share"])


@pytest.fixture
def factors():
    rows = [
        (loss, k, k / (10 + k), 0.2, 1 - k / 100, 0.95)
        for loss in ("cosine", "mm-MSE")
        for k in (1, 4, 16)
    ]
    frame = pd.DataFrame(
        rows, columns=["loss", "factor", "expected", "share", "cosine", "another_seed"]
    )
    frame.loc[frame["factor"] == 4, ["share", "cosine"]] = None  # a factor that nobody trained
    return frame


def test_shares_are_drawn_over_training_by_factor_and_with_what_they_do(shares, factors):
    figure = figures.gradient_shares(shares, factors)
    over_training, by_factor, apart = figure.axes
    medians = [
        line for line in over_training.lines if len(line.get_xdata())
    ]  # the others are the legend's
    assert len(medians) == 2  # one for each group
    assert medians[1].get_ydata().tolist() == pytest.approx([0.1, 0.2, 0.3])
    expected, measured = by_factor.lines[:2]
    assert expected.get_xdata().tolist() == [1, 4, 16] and measured.get_xdata().tolist() == [1, 16]
    assert apart.lines[0].get_ydata().tolist() == [0.99, 0.84] and apart.lines[1].get_ydata() == [
        0.95,
        0.95,
    ]


def test_lengths_of_training_start_at_the_base():
    rows = [("base", 0, seed, 0.2, 0.5, 0.9) for seed in (0, 1)]
    rows += [
        ("cosine", updates, seed, 0.4, 0.5 + updates / 100 + seed / 50, 0.9)
        for updates in (10, 40)
        for seed in (0, 1)
    ]
    columns = ["model", "updates", "seed", "cosine", "no head", "heads"]
    distance, score, _ = figures.length_of_training(pd.DataFrame(rows, columns=columns)).axes
    base, means, seeds = score.lines
    assert base.get_ydata() == [0.5, 0.5]
    assert means.get_xdata().tolist() == [0, 10, 40]
    assert means.get_ydata() == pytest.approx([0.5, 0.61, 0.91])
    assert len(seeds.get_xdata()) == 4
    assert distance.lines[1].get_ydata() == pytest.approx([0.2, 0.4, 0.4])


def test_rows_of_the_readouts_follow_the_first_and_each_mark_is_at_its_score():
    scores = pd.DataFrame({"model": ["a", "b"], "none": [0.5, 0.3], "thesis": [0.1, 0.2]})
    (axis,) = figures.readouts(scores, {"thesis": "the thesis' heads", "none": "no head"}).axes
    assert [label.get_text() for label in axis.get_yticklabels()] == ["b", "a"]
    drawn = {line.get_label(): list(line.get_xdata()) for line in axis.get_lines()}
    assert drawn == {"the thesis' heads": [0.2, 0.1], "no head": [0.3, 0.5]}
