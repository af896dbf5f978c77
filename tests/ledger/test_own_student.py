"""Whether a student of a person's documents is any good: intervals by hand, and the advice."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lib.distillation.variants import parse
from lib.ledger import own_student
from lib.store.parallel import WorkerError
from tests.fake_bench import FakeBench

NAMES = [*own_student.MODELS, "cosine"]


def measured(*scores, groups=None, chance=0.0):
    groups = np.arange(len(scores[0])) if groups is None else groups
    rows = pd.DataFrame(
        {"model": NAMES, "seed": 0, "task": "t", "chance": chance, "examples": len(groups)}
    )
    rows = rows.assign(scores=list(scores), groups=[groups] * len(scores))
    return own_student._measure_intervals("t MRR", rows)


def test_intervals_are_those_of_paired_differences():
    generator = np.random.default_rng(0)
    scores = np.clip(generator.normal(0.5, 0.2, (5, 400)), 0, 1)
    table = measured(*scores)
    assert table["model"].tolist() == [*own_student.MODELS.values(), "student (cosine)"]
    assert set(table["examples"]) == {400}
    for row, own in zip(table.itertuples(), scores, strict=True):
        low, high = stats.ttest_1samp(own, 0).confidence_interval()
        assert (row.value, row.low, row.high) == pytest.approx((own.mean(), low, high), rel=0.01)
    low, high = stats.ttest_1samp(scores[4] - scores[0], 0).confidence_interval()
    row = table.iloc[-1]
    assert row["against_base"] == pytest.approx((scores[4] - scores[0]).mean())
    assert row["against_high"] - row["against_low"] == pytest.approx(high - low, rel=0.02)
    base = table[["against_base", "against_low", "against_high"]].iloc[0]
    assert base.iloc[0] == 0 and base.isna().tolist() == [False, True, True], (
        "it does not differ from itself"
    )


def test_an_interval_ends_where_scores_do():
    table = measured(*[np.r_[np.zeros(20), 1.0]] * 4, np.r_[np.ones(20), 0.0])
    assert table["low"].min() == 0 and table["high"].max() == 1


def test_texts_of_one_group_count_as_one():
    scores = np.random.default_rng(0).random((5, 40))
    alone = measured(*scores)
    twins = measured(*np.tile(scores, 2), groups=np.tile(np.arange(40), 2))
    assert twins["high"].to_numpy() == pytest.approx(alone["high"].to_numpy(), abs=0.01)


def test_it_says_plainly_when_a_student_is_worse_than_its_start():
    base, noise = np.linspace(0.3, 0.6, 60), np.tile([0.1, -0.1], 30)
    words = {
        "worse than": base - 0.2,
        "better than": base + 0.2,
        "as good as": base + noise / 10,
        "not distinguishable from": base + noise,
    }
    for word, student in words.items():
        cells, lines = own_student.describe_comparison(
            measured(base, base, base, base, student + noise / 10), []
        )
        assert lines[0] == "One seed: the intervals account for other texts, not for other seeds."
        assert f"t MRR: the student is {word} the base, where it started" in lines
        taken = (
            "student (cosine), Student.load(out)"
            if word == "better than"
            else "base, bench.base_student()"
        )
        assert lines[-1].startswith(f"Over all measures: use {taken}.encode(texts)")
        assert ("or train with another loss or on fewer texts" in lines[-1]) == (
            word != "better than"
        )
        assert (cells["against base"] == "").tolist() == [True] + 4 * [False], (
            "a base has no difference from itself"
        )


def test_it_names_what_is_better_than_the_student_and_which_to_take():
    """Paired: teacher and TF-IDF are better on nearly every text, though all intervals overlap."""
    base, noise = np.linspace(0.1, 0.8, 60), np.tile([0.01, -0.01], 30)
    table = measured(base, base + 0.03 + noise, base + noise, base + 0.06 + noise, base + 0.01)
    assert table["low"].max() < table["high"].min()
    _, lines = own_student.describe_comparison(table, [])
    (line,) = [line for line in lines if "better than the student" in line]
    assert line == "t MRR: better than the student: TF-IDF (0.510) and teacher, cut (0.480)"
    assert lines[-1].startswith(
        "Over all measures: use TF-IDF, tfidf(texts, texts), or train with another loss"
    )
    _, lines = own_student.describe_comparison(
        measured(base, base, base, base, base + 0.2 + noise), []
    )
    assert not any("better than the student" in line or "guessing" in line for line in lines)


def test_one_model_is_advised_over_all_measures():
    """Better than the base on a measure and worse on none; the student before a mean that is not
    told from it.
    """
    base, noise = np.linspace(0.1, 0.8, 60), np.tile([0.02, -0.02], 30)
    ahead, behind, level = base + 0.1 + noise, base - 0.05 + noise, base + 3 * noise

    def advised(*measures, chance=0.0):
        tables = [
            measured(base, *scores, chance=chance).assign(measure=f"m{n}")
            for n, scores in enumerate(measures)
        ]
        _, lines = own_student.describe_comparison(pd.concat(tables, ignore_index=True), [])
        assert sum(": use " in line for line in lines) == 1
        return lines[-1].removeprefix("Over all measures: use ").split(", ")[0]

    assert (
        advised((level, level, ahead, ahead), (level, level, behind, ahead)) == "student (cosine)"
    )
    assert advised((level, level, ahead, level), (level, level, level, behind)) == "TF-IDF"
    assert advised((level, level, ahead, level), (level, level, behind, level)) == "base", (
        "worse on the second"
    )
    assert advised((level, level, ahead + 0.001 + 2 * noise, ahead)) == "student (cosine)", (
        "not told from the best"
    )
    assert advised((level, level, ahead + 0.02 + noise, ahead)) == "TF-IDF"
    assert advised((level, level, level, level)) == "base"
    assert advised((level, level, level, ahead), chance=0.99) == "base", "all guess"


def test_it_says_when_no_model_is_above_guessing():
    right = np.random.default_rng(0).permuted(
        np.tile(np.r_[np.ones(31), np.zeros(29)], (5, 1)), axis=1
    )
    for chance, above in ((0.5, False), (0.3, True)):
        table = measured(*right, chance=chance)
        assert table["value"].tolist() == pytest.approx([31 / 60] * 5), (
            "values are not corrected for chance"
        )
        lines = own_student.describe_comparison(table, [])[1]
        assert ("t MRR: no model is above guessing (0.50)" in lines) == (not above)
        assert sum(line.startswith("t MRR: ") for line in lines) == 1 and "use base, " in lines[-1]


def test_what_does_not_vary_has_no_interval_and_a_difference_ends_at_one():
    """One query with one target, and the same score everywhere, whose mean is rounded."""
    table = measured([1.0], [1.0], [0.5], [1.0], [1.0])
    cells, lines = own_student.describe_comparison(table, [])
    assert cells["value"].tolist() == ["1.000", "1.000", "0.500", "1.000", "1.000"]
    assert cells["against base"].tolist() == ["", "+0.000", "-0.500", "+0.000", "+0.000"]
    few = "; fewer than 20 examples (1) say little"
    assert (
        f"t MRR: the student is not distinguishable from the base, where it started{few}" in lines
    )
    same = np.full(23, 0.1)
    table = measured(same, same + 0.7, same, same, same + 0.7)
    assert table[["low", "high", "against_low", "against_high"]].isna().all(axis=None)
    assert set(table["than_base"]) == {"not distinguishable from"}
    assert not any("say little" in line for line in own_student.describe_comparison(table, [])[1])
    table = measured([0.0, 0.3], [1.0, 0.0], [0.5, 0.1], [0.4, 0.9], [0.9, 0.2])
    assert table["against_low"].min() == -1 and table["against_high"].max() == 1, "of three or less"


@pytest.fixture(autouse=True)
def halves_of_the_bench(monkeypatch):
    """Benches here say themselves what halves of documents give."""
    monkeypatch.setattr(
        own_student, "judge_halves", lambda bench, *given: bench.judge_halves(*given)
    )


def make_rows(task, metric, count=9, **fields):
    """Scores of every model, as `Bench.run` gives them."""
    scores = list(np.random.default_rng(0).random((5, count)))
    frame = pd.DataFrame({"model": NAMES, "task": task, "metric": metric, "chance": 0.1, **fields})
    return frame.assign(scores=scores, groups=[np.arange(count)] * 5)


def make_bench(classifications=(), retrievals=(), **functions):
    given = {"judge_halves": lambda *_: make_rows("halves", "MRR"), **functions}
    bench = FakeBench("smoke", **given)
    bench.classifications, bench.retrievals = list(classifications), list(retrievals)
    return bench


def test_a_folder_without_tasks_has_its_halves():
    table, failed = own_student.compare_student(None, parse("cosine"), 0, make_bench())
    assert not failed
    assert table["measure"].unique().tolist() == ["halves MRR"] and len(table) == 5


def test_a_retrieval_counts_its_queries():
    """Nine pairs of a query and a target are three queries."""
    bench = make_bench(retrievals=["r"], retrieve=lambda *_, **__: make_rows("r", "MAP", queries=3))
    table, _ = own_student.compare_student(None, parse("cosine"), 0, bench)
    counts = dict(zip(table["measure"], table["examples"], strict=True))
    assert counts == {"halves MRR": 9, "r MAP": 3}


def test_a_task_that_fails_costs_its_own_rows():
    asked = []

    def run(bench, models, *, seeds, tasks, split):
        names = [str(model) for model in models]
        asked.append((names, seeds, split))
        if tasks == ["bad"]:
            raise ValueError("n_splits=5 cannot be greater\nthan the number of members")
        return make_rows(*tasks, "accuracy", 30)

    def fail(*_):
        raise ValueError("no halves")

    bench = make_bench(["bad", "good"], run=run)
    table, failed = own_student.compare_student(None, parse("cosine"), 3, bench)
    alone = [([name], [3], "test") for name in NAMES]
    assert asked == [(NAMES, [3], "test"), *alone, (NAMES, [3], "test")]
    assert table["measure"].unique().tolist() == ["halves MRR", "good accuracy"]
    assert len(failed) == 1 and "bad" in failed[0] and "\n" not in failed[0]
    assert failed[0] in own_student.describe_comparison(table, failed)[1]
    bench = make_bench(["bad"], run=run, judge_halves=fail)
    with pytest.raises(ValueError, match="no halves; bad could not be"):
        own_student.compare_student(None, parse("cosine"), 0, bench)


def make_failing(measure, *fail, error=ValueError):
    """What judges all models but some, which cost all that are judged with them."""

    def judge(bench, *given, **_):
        names = [str(model) for model in given[-1]]
        for name in names:
            if name in fail:
                raise error(f"no vocabulary\nin {name}")
        rows = make_rows(measure, "MRR", 30)
        return rows[rows["model"].isin(names)]

    return judge


@pytest.mark.parametrize("method", ["run", "retrieve", "judge_halves"])
def test_a_model_that_fails_costs_its_own_row(method):
    bench = make_bench(
        ["t"],
        ["r"],
        **{"run": make_failing("t"), "retrieve": make_failing("r")}
        | {method: make_failing("m", "TF-IDF", "SBERT")},
    )
    table, failed = own_student.compare_student(None, parse("cosine"), 0, bench)
    left = table[table["measure"] == "m MRR"]["model"].tolist()
    assert left == ["base", "teacher, chunks", "student (cosine)"]
    assert len(table) == 3 + 2 * 5
    for line, name in zip(failed, ("teacher, cut", "TF-IDF"), strict=True):
        assert name in line and "no vocabulary" in line and "\n" not in line
    lines = own_student.describe_comparison(table, failed)[1]
    assert {*failed} <= {*lines}


def test_without_base_or_student_there_is_nothing_to_compare():
    for name in ("Longformer", "cosine"):
        bench = make_bench(["t"], run=make_failing("t", name))
        table, failed = own_student.compare_student(None, parse("cosine"), 0, bench)
        assert table["measure"].unique().tolist() == ["halves MRR"]
        assert len(failed) == 1 and "t could not be judged" in failed[0]


def test_what_is_no_matter_of_a_model_is_not_tried_again():
    """A worker was killed, say: another would be, too."""
    asked = []

    def run(bench, models, **_):
        asked.append(len(models))
        raise WorkerError("out of memory")

    own_student.compare_student(None, parse("cosine"), 0, make_bench(["t"], run=run))
    assert asked == [5]


def test_a_model_that_a_measure_lacks_is_not_advised():
    base, noise = np.linspace(0.1, 0.8, 60), np.tile([0.02, -0.02], 30)
    table = measured(base, base, base, base + 0.1 + noise, base)
    tables = [table.assign(measure="a MRR"), table.assign(measure="b MRR")]
    best = own_student.describe_comparison(pd.concat(tables, ignore_index=True), [])[1][-1]
    assert "use TF-IDF" in best
    tables[1] = tables[1][tables[1]["model"] != "TF-IDF"]
    best = own_student.describe_comparison(pd.concat(tables, ignore_index=True), [])[1][-1]
    assert "use base" in best
