"""Models are judged by texts that nothing was fitted on, and scores are those done by hand."""

import warnings

import numpy as np
import pytest

from lib.data.task_files import Task
from lib.vectors import judging
from lib.vectors.judging import Judged
from lib.vectors.lexical import WordCounts
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, TFIDF
from tests.vectors.conftest import make_text

DENSE = (BASE, CUT, CHUNKS)


def make_judged(collection, texts, of=lambda text: [text.count("river"), text.count("court"), 1]):
    """Dense vectors count two words."""
    vectors = np.array([of(text) for text in texts], dtype=np.float32)
    return Judged(collection, texts, dict.fromkeys(DENSE, vectors))


def list_rows(count, **fields):
    return [
        {"text": make_text(("river", "court")[n % 2], n), **{k: f(n) for k, f in fields.items()}}
        for n in range(count)
    ]


def test_blank_and_repeated_texts_do_not_count(collect):
    rows = [{"text": "One sea."}, {"text": " "}, {"text": "One  sea."}, {"text": "Two seas."}]
    collection = collect(rows)
    assert collection.rows.tolist() == [0, 3] and collection.groups == ["id 0", "id 3"]
    assert collection.words.counts.shape == (2, 2)


def test_what_is_judged_is_left_out_of_what_is_fitted(collect):
    collection = collect([{"text": f"common alone{n}"} for n in range(6)])
    lexical = collection.fit(np.array([True] + [False] * 5), least=1)
    words = {collection.words.words[column] for column in lexical.columns}
    assert "alone1" in words and "alone0" not in words


def test_documents_of_stop_words_alone_are_nothing_to_fit_to(collect):
    collection = collect([{"text": "sea boat"}, {"text": "it is what it was"}])
    assert collection.fit(np.array([True, False])) is None
    assert collection.fit(np.array([True, True])) is None


def test_texts_without_words_have_no_lexical_models(collect):
    collection = collect([{"text": "the"}, {"text": "of the"}, {"text": "and"}])
    assert collection.words is None and len(collection.groups) == 3
    judged = make_judged(collection, ["the", "of the", "and"])
    models = judged.fit_models(np.arange(2), np.array([2]), np.zeros(3, bool))
    assert [*models] == [*DENSE]


def test_folds_do_not_cut_a_group():
    groups = [f"g{n // 3}" for n in range(60)]
    folds = judging.make_group_folds(groups)
    assert sorted(np.concatenate(folds)) == [*range(60)] and len(folds) == 3
    for number, fold in enumerate(folds):
        others = {groups[place] for other in folds[:number] for place in other}
        assert not others & {groups[place] for place in fold}


@pytest.mark.parametrize(("count", "folds"), [(2, 2), (12, 2), (60, 3), (500, 5)])
def test_few_documents_have_few_folds(count, folds):
    assert len(judging.make_group_folds([str(n) for n in range(count)])) == folds
    assert len(judging.make_group_folds(["one"] * count)) == folds


def test_halves_of_documents_that_tell_nothing_find_each_other_by_their_words(collect):
    collection = collect(list_rows(24, group=lambda n: f"g{n // 2}"))
    halves = judging.draw_halves(collection, rate=1.3)
    assert len(halves.places) == 24
    judged = make_judged(collection, halves.texts, of=lambda text: [1, 0, 0])
    frame = judging.judge_halves(halves, judged).set_index("model")
    scores = frame["scores"].map(np.mean)
    assert scores[TFIDF] > scores[BASE] and [*frame.index] == [*DENSE, TFIDF, LSA, BOTH]
    assert len(frame["groups"].iloc[0]) == 24 == frame["examples"].iloc[0]
    assert 0 < frame["chance"].iloc[0] < 0.3


def test_a_half_that_two_documents_share_is_compared_once(collect):
    collection = collect([{"text": f"the same words. other{n} words{n} end{n}"} for n in range(4)])
    halves = judging.draw_halves(collection, 1.0)
    assert len(halves.places) == 1 and halves.shared == 3
    short = judging.draw_halves(collect([{"text": "one"}, {"text": "two"}], "short"), 1.0)
    assert len(short.places) == 0 == short.shared


def make_classification(count, groups=None):
    texts = {str(n): row["text"] for n, row in enumerate(list_rows(count))}
    inputs = {"train": [(str(n),) for n in range(count)]}
    labels = {"train": np.arange(count) % 2}
    return Task("classification", texts, inputs, labels, ["a", "b"], folds=5, groups=groups or {})


def test_a_classification_has_a_row_for_each_model_and_one_for_the_classifier(collect):
    task = make_classification(40)
    collection = collect(list_rows(40))
    judged = make_judged(collection, [*task.texts.values()])
    frame = judging.judge_task("kinds", task, judged).set_index("model")
    assert [*frame.index] == [*DENSE, TFIDF, LSA, BOTH, CLASSIFIER]
    assert (frame["scores"].map(np.mean) > 0.9).all()
    assert frame["chance"].iloc[0] == 0.5 and frame["groups"].iloc[0].shape == (40, 1)


def test_classes_of_fewer_texts_than_folds_are_no_warning(collect):
    task = make_classification(40)
    task.labels["train"][:] = np.arange(40) < 3
    judged = make_judged(collect(list_rows(40)), [*task.texts.values()])
    with warnings.catch_warnings(action="error"):
        judging.judge_task("kinds", task, judged)


def test_pairs_are_judged_without_the_classifier(collect):
    rows = list_rows(40)
    texts = {str(n): row["text"] for n, row in enumerate(rows)}
    pairs = [(str(n), str((n + 1 + n % 2 * 5) % 40)) for n in range(40)]
    same = np.array([int(int(a) % 2 == int(b) % 2) for a, b in pairs])
    inputs = {"train": pairs[:30], "test": pairs[30:]}
    labels = {"train": same[:30], "test": same[30:]}
    task = Task("classification", texts, inputs, labels, ["no", "yes"])
    judged = make_judged(collect(rows), [*texts.values()])
    frame = judging.judge_task("alike", task, judged)
    assert CLASSIFIER not in set(frame["model"]) and len(frame["scores"].iloc[0]) == 10


def test_dense_vectors_that_know_nothing_get_no_weight_and_others_do():
    words = WordCounts.read([f"apple{n % 2} pear{n}" for n in range(60)])
    labels = np.arange(60) % 2
    noise = np.random.default_rng(0).normal(size=(60, 8)).astype("f4")
    assert judging.choose_weight(words.counts, noise, labels, None) == 0
    blank = WordCounts.read(["pear plum"] * 60).counts
    told = np.eye(2, dtype="f4")[labels]
    assert judging.choose_weight(blank, told, labels, None) > 0
    assert judging.choose_weight(blank[:3], told[:3], np.array([0, 1, 2]), None) == 0.5


def test_texts_of_a_cluster_find_each_other(collect):
    rows = list_rows(24)
    texts = {str(n): row["text"] for n, row in enumerate(rows)}
    clusters = {name: ("x" if int(name) % 2 else "y") for name in texts} | {"23": "alone"}
    task = Task("clustering", texts, clusters=clusters)
    queries = judging.read_queries(task)
    assert len(queries.relevant) == 23 and 23 not in queries.relevant
    judged = make_judged(collect(rows), [*texts.values()])
    frame = judging.judge_task("kinds", task, judged).set_index("model")
    assert frame["scores"].map(np.mean)[BASE] > 0.9 and frame["examples"].iloc[0] == 23


@pytest.mark.parametrize(
    "task",
    [
        Task("retrieval", {"0": "One.", "1": "Two."}, relevant={"0": ["1"]}),
        Task("clustering", {"0": "One.", "1": "Two."}, clusters={"0": "a", "1": "b"}),
    ],
    ids=lambda task: task.kind,
)
def test_queries_are_two_at_least(task):
    with pytest.raises(ValueError, match="one source|no cluster"):
        judging.read_queries(task)


def test_a_retrieval_is_judged_by_folds_as_by_one(collect):
    rows = list_rows(24)
    texts = {str(n): row["text"] for n, row in enumerate(rows)}
    relevant = {str(n): [str((n + 2) % 24), str((n + 4) % 24)] for n in range(12)}
    task = Task("retrieval", texts, relevant=relevant)
    judged = make_judged(collect(rows), [*texts.values()])
    frame = judging.judge_task("like", task, judged).set_index("model")
    queries = judging.ranking.read_queries(task)
    mean, each = judging.ranking.score_queries(judged.dense[BASE], queries, "MAP", None)
    scores = frame.loc[BASE, "scores"]
    assert scores.mean() == pytest.approx(mean) and len(scores) == len(each) == 24
    assert frame.loc[BASE, "groups"].shape == (24, 2)


def test_folds_of_unequal_size_keep_the_mean_over_queries():
    parts = [(0.5, np.array([0.4, 0.6]), 1), (1.0, np.array([1.0]), 3)]
    combined = judging.combine_folds(parts)
    assert combined.mean() == pytest.approx((0.5 + 3 * 1.0) / 4)
