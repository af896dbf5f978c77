"""The table that says whether a student of one's own documents is any good."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from lib.config import paths, profiles
from lib.data import check
from lib.distillation import variants
from lib.experiments import runs, text_sets
from lib.ledger import own_student

NAMES = [*own_student.MODELS, "cosine"]


def measured(*scores, groups=None, chance=0.0):
    groups = np.arange(len(scores[0])) if groups is None else groups
    rows = pd.DataFrame(
        {"model": NAMES, "seed": 0, "task": "t", "chance": chance, "examples": len(groups)}
    )
    rows = rows.assign(scores=list(scores), groups=[groups] * len(scores))
    return own_student._measured(("t", "MRR"), rows)


def test_intervals_are_those_of_paired_differences():
    generator = np.random.default_rng(0)
    scores = np.clip(generator.normal(0.5, 0.2, (5, 400)), 0, 1)
    table = measured(*scores)
    assert table["model"].tolist() == [*own_student.MODELS.values(), "student (cosine)"] and set(
        table["examples"]
    ) == {400}
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
    alone, twins = (
        measured(*scores),
        measured(*np.tile(scores, 2), groups=np.tile(np.arange(40), 2)),
    )
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
        cells, lines = own_student.told(measured(base, base, base, base, student + noise / 10), [])
        assert lines[0] == "One seed: the intervals are about other texts, not about other seeds."
        assert f"t MRR: the student is {word} the base, its start" in lines
        taken = (
            "student (cosine), Student.load(out)"
            if word == "better than"
            else "base, base_student(profile)"
        )
        assert lines[-1].startswith(f"Over all measures: take {taken}.encode(texts)")
        assert ("or train with another loss, or fewer texts" in lines[-1]) == (
            word != "better than"
        )
        assert (cells["against_base"] == "").tolist() == [True] + 4 * [False], (
            "a base has no difference from itself"
        )


def test_it_names_what_is_better_than_the_student_and_which_to_take():
    """Paired: teacher and TF-IDF are better on nearly every text, though all intervals overlap."""
    base, noise = np.linspace(0.1, 0.8, 60), np.tile([0.01, -0.01], 30)
    table = measured(base, base + 0.03 + noise, base + noise, base + 0.06 + noise, base + 0.01)
    assert table["low"].max() < table["high"].min()
    _, lines = own_student.told(table, [])
    (line,) = [line for line in lines if "better than the student" in line]
    assert line == "t MRR: better than the student: TF-IDF (0.510) and teacher, cut (0.480)"
    assert lines[-1].startswith(
        "Over all measures: take TF-IDF, tfidf(texts, texts), or train with another loss"
    )
    _, lines = own_student.told(measured(base, base, base, base, base + 0.2 + noise), [])
    assert not any("better than the student" in line or "guessing" in line for line in lines)


def test_one_model_is_advised_over_all_measures():
    """Better than the base on a measure and worse on none; the student before a mean that is not told from it."""
    base, noise = np.linspace(0.1, 0.8, 60), np.tile([0.02, -0.02], 30)
    ahead, behind, level = base + 0.1 + noise, base - 0.05 + noise, base + 3 * noise

    def advised(*measures, chance=0.0):
        tables = [
            measured(base, *scores, chance=chance).assign(measure=f"m{n}")
            for n, scores in enumerate(measures)
        ]
        _, lines = own_student.told(pd.concat(tables, ignore_index=True), [])
        assert sum("take" in line for line in lines) == 1
        return lines[-1].removeprefix("Over all measures: take ").split(", ")[0]

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


@pytest.mark.parametrize("model", [*own_student.CODE])
def test_the_advised_line_of_code_is_that_of_the_page(model):
    """The page has the imports; the models are the profile's own."""
    page = (paths.ROOT / "docs/own_documents.md").read_text(encoding="utf-8")
    (block,) = [
        code
        for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "base_student" in code
    ]
    names = {"texts": ["a river and a boat", "the court of the town", "an apple"]}
    exec(block, names)
    vectors = eval(own_student.CODE[model], names)
    assert vectors.shape[0] == 3 and vectors.shape[1] == (
        384 if model != "TF-IDF" else vectors.shape[1]
    )


def test_it_says_when_no_model_is_above_guessing():
    right = np.random.default_rng(0).permuted(
        np.tile(np.r_[np.ones(31), np.zeros(29)], (5, 1)), axis=1
    )
    for chance, above in ((0.5, False), (0.3, True)):
        table = measured(*right, chance=chance)
        assert table["value"].tolist() == pytest.approx([31 / 60] * 5), (
            "values are not corrected for chance"
        )
        lines = own_student.told(table, [])[1]
        assert ("t MRR: no model is above guessing (0.50)" in lines) == (not above)
        assert sum(line.startswith("t MRR: ") for line in lines) == 1 and "take base, " in lines[-1]


def test_what_does_not_vary_has_no_interval_and_a_difference_ends_at_one():
    """One query with one target, and the same score everywhere, whose mean is rounded."""
    table = measured([1.0], [1.0], [0.5], [1.0], [1.0])
    cells, lines = own_student.told(table, [])
    assert cells["value"].tolist() == ["1.000", "1.000", "0.500", "1.000", "1.000"]
    assert cells["against_base"].tolist() == ["", "+0.000", "-0.500", "+0.000", "+0.000"]
    few = "; fewer than 20 examples (1) say little"
    assert f"t MRR: the student is not distinguishable from the base, its start{few}" in lines
    same = np.full(23, 0.1)
    table = measured(same, same + 0.7, same, same, same + 0.7)
    assert table[["low", "high", "against_low", "against_high"]].isna().all(axis=None)
    assert set(table["than_base"]) == {"not distinguishable from"}
    assert not any("say little" in line for line in own_student.told(table, [])[1])
    table = measured([0.0, 0.3], [1.0, 0.0], [0.5, 0.1], [0.4, 0.9], [0.9, 0.2])
    assert table["against_low"].min() == -1 and table["against_high"].max() == 1, "of three or less"


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.delenv("THESIS_DATA", raising=False)
    task = tmp_path / "notes/tasks/kind"
    task.mkdir(parents=True)
    texts = [f"first {n} words and the second {n}" for n in range(30)]
    texts += [
        "  ".join(texts[25].split()),
        "single",
    ]  # of the test one again, and one that has no halves
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(texts)]
    (tmp_path / "notes/documents.jsonl").write_text("\n".join(rows))
    for split, numbers in (
        ("train", range(10)),
        ("validation", (10, 11)),
        ("test", (*range(20, 30), 30, 31)),
    ):
        lines = [json.dumps({"id": n, "label": n % 2}) for n in numbers]
        (task / f"{split}.jsonl").write_text("\n".join(lines))
    return profiles.load("lab", overrides=check.suggested(tmp_path / "notes")[0])


def test_halves_are_of_documents_that_training_does_not_read(profile, monkeypatch, capsys):
    read, ways = [], []

    def perfect(texts, precision="the teacher's own"):
        read.append(list(texts))
        ways.append(precision)
        return np.eye(len(texts) // 2)[
            np.tile(np.arange(len(texts) // 2), 2)
        ]  # a half has its other half's vector

    def useless(texts):
        return np.ones((len(texts), 2))  # all are one: the first of the others is the nearest

    encoder = SimpleNamespace(encode=perfect, max_positions=6, to=lambda device: encoder)
    monkeypatch.setattr(runs, "base_student", lambda profile: encoder)
    monkeypatch.setattr(runs.structural_teacher, "load", lambda profile: encoder)
    monkeypatch.setattr(runs.baselines, "mean_of_chunks", lambda teacher, texts: useless(texts))
    monkeypatch.setattr(
        runs.baselines, "tfidf", lambda corpus, texts: sparse.csr_array(useless(texts))
    )
    monkeypatch.setattr(runs, "precision", lambda profile: "the students'")
    frame = runs.halves(encoder, variants.parse("cosine"), profile)
    assert ways == ["the students'", "the teacher's own", "the students'"]
    held_out = (
        len(text_sets.corpus(profile).validation) + 2 + 10
    )  # of the corpus; validated and tested on
    bar = capsys.readouterr().err
    assert all(f"halves of {held_out} documents by {name}: " in bar for name in frame["model"]), (
        "nothing is silent"
    )
    assert frame["chance"][0] == pytest.approx(
        np.mean([1 / rank for rank in range(1, 2 * held_out)])
    )
    scores = dict(zip(frame["model"], frame["scores"], strict=True))
    assert {len(values) for values in scores.values()} == {held_out}
    assert [np.mean(scores[name]) for name in ("Longformer", "SBERT", "cosine")] == [1, 1, 1]
    assert np.mean(scores["SBERT, mean of chunks"]) < 0.3 and np.mean(scores["TF-IDF"]) < 0.3
    trained = {document.text.split()[1] for document in text_sets.corpus(profile).train}
    assert read[0][0].split()[1] not in trained and not trained & {
        text.split()[1] for text in read[0][:held_out]
    }
    assert set(map(len, map(str.split, read[0]))) == {3}, (
        "cut where the student stops reading, then halved"
    )


def test_a_folder_without_tasks_has_its_halves(profile, monkeypatch):
    alone = profile.model_copy(update={"tasks": profile.tasks.model_copy(update={"folders": {}})})
    halves = pd.DataFrame({"model": NAMES, "task": "halves", "metric": "MRR", "chance": 0.1})
    halves = halves.assign(
        scores=list(np.random.default_rng(0).random((5, 9))), groups=[np.arange(9)] * 5
    )
    monkeypatch.setattr(runs, "halves", lambda *_: halves)
    monkeypatch.setattr(own_student.experiments, "run", lambda **_: 1 / 0)
    table, failed = own_student.compare(None, variants.parse("cosine"), 0, alone)
    assert not failed
    assert table["measure"].unique().tolist() == ["halves MRR"] and len(table) == 5


def test_a_retrieval_counts_its_queries(profile, monkeypatch):
    """Nine pairs of a query and a target are three queries."""
    frame = pd.DataFrame(
        {"model": NAMES, "task": "r", "metric": "MAP", "chance": 0.1, "queries": 3}
    )
    frame = frame.assign(
        scores=list(np.random.default_rng(0).random((5, 9))), groups=[np.arange(9)] * 5
    )
    monkeypatch.setattr(
        runs, "halves", lambda *_: frame.assign(task="halves", metric="MRR").drop(columns="queries")
    )
    monkeypatch.setattr(own_student.tasks, "classification_names", lambda _: ())
    monkeypatch.setattr(own_student.tasks, "retrieval_names", lambda _: ("r",))
    monkeypatch.setattr(own_student.experiments, "retrieve", lambda *_, **__: frame)
    table, _ = own_student.compare(None, variants.parse("cosine"), 0, profile)
    assert dict(zip(table["measure"], table["examples"], strict=True)) == {
        "halves MRR": 9,
        "r MAP": 3,
    }
    assert "3.0" not in own_student.told(table, [])[0].to_string()


def test_a_task_that_fails_costs_its_own_rows(profile, monkeypatch):
    halves = pd.DataFrame({"model": NAMES, "task": "halves", "metric": "MRR", "chance": 0.1})
    halves = halves.assign(
        scores=list(np.random.default_rng(0).random((5, 30))), groups=[np.arange(30)] * 5
    )

    def run(models, *, tasks, **_):
        if tasks == ["bad"]:
            raise ValueError("n_splits=5 cannot be greater\nthan the number of members")
        return halves.assign(task=tasks[0], metric="accuracy")

    def no_halves(*_):
        raise ValueError("no halves")

    monkeypatch.setattr(runs, "halves", lambda *_: halves)
    monkeypatch.setattr(own_student.experiments, "run", run)
    monkeypatch.setattr(own_student.tasks, "classification_names", lambda _: ("bad", "good"))
    table, failed = own_student.compare(None, variants.parse("cosine"), 0, profile)
    assert table["measure"].unique().tolist() == ["halves MRR", "good accuracy"]
    assert failed == [
        "bad could not be judged: n_splits=5 cannot be greater than the number of members"
    ]
    assert failed[0] in own_student.told(table, failed)[1]
    monkeypatch.setattr(runs, "halves", no_halves)
    monkeypatch.setattr(own_student.tasks, "classification_names", lambda _: ("bad",))
    with pytest.raises(
        ValueError, match="^halves of documents could not be judged: no halves; bad could not be"
    ):
        own_student.compare(None, variants.parse("cosine"), 0, profile)


def test_documents_of_one_word_have_no_halves(profile, monkeypatch):
    words = [SimpleNamespace(text=f"word{n}", group="", id=str(n)) for n in range(8)]
    monkeypatch.setattr(runs.text_sets, "corpus", lambda _: SimpleNamespace(validation=words))
    monkeypatch.setattr(runs, "read", lambda _: {})
    with pytest.raises(
        ValueError, match="^none of 8 held-out documents has two words, hence no halves$"
    ):
        runs.halves(SimpleNamespace(max_positions=6), variants.parse("cosine"), profile)
