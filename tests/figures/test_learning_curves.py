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


def test_a_panel_of_shares_has_a_line_for_each_student_and_their_median(shares):
    first, second = figures.gradient_shares(shares).axes
    assert len(first.lines) == 4
    assert first.lines[-1].get_ydata().tolist() == pytest.approx([0.1, 0.2, 0.3])
    assert first.get_ylim() == second.get_ylim()


def test_a_heavier_context_is_compared_with_another_seed(factors):
    first, second = figures.heavier_context(factors).axes
    same, another = first.lines
    assert same.get_xdata().tolist() == [1, 16] and same.get_ydata().tolist() == [0.99, 0.84]
    assert another.get_ydata() == [0.95, 0.95]
    assert [text.get_text() for text in first.get_xticklabels()] == ["×1\n20%", "×16\n20%"]
    assert second.get_title() == "with max-margin MSE"


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
