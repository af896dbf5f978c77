"""The judge and its classifiers: by hand, vectors that know all or nothing, invariances."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

from lib.evaluation import readouts
from lib.evaluation.readouts import by_comparing, by_similarity, choose_cut, judge, judge_models
from tests.evaluation.test_heads import change

SETTINGS = change(epochs=40, learning_rate=0.01, repeats=2)


def make_examples(columns, seed=0, count=300):
    """Texts of two topics: a text's class is its topic, a pair's whether both have the same."""
    random = np.random.default_rng(seed)
    topics = random.permutation(np.arange(80) % 2)
    inputs = random.integers(0, 80, (count, columns))
    labels = (topics[inputs[:, 0]] == topics[inputs[:, -1]]).astype(int)
    if columns == 1:
        inputs, labels = np.arange(80)[:, None], topics
    parts = [*StratifiedKFold(3).split(labels, labels)]
    names = [f"{row}" for row in range(80)]
    return readouts.Examples("OC", names, names, inputs, labels, 2, parts), topics


@pytest.mark.parametrize("columns", [1, 2])
def test_perfect_vectors_are_alike_where_labels_say_so(columns):
    examples, _ = make_examples(columns, count=1000)  # so many that each text is in a positive pair
    vectors = readouts.make_perfect_vectors(examples)
    assert vectors.shape == (80, 384) and len(np.unique(vectors, axis=0)) == 2
    for classifier in ("compare", "none"):
        assert judge(vectors, examples, classifier).mean() == 1
    apart = replace(examples, labels=0 * examples.labels)  # nothing that belongs together
    distinct = np.unique(readouts.make_perfect_vectors(apart), axis=0)
    assert len(distinct) == (1 if columns == 1 else 80)


def test_scores_are_in_the_order_of_tested_examples_and_chance_is_their_largest_class():
    examples, _ = make_examples(1)
    assert replace(examples, labels=(np.arange(80) < 20).astype(int)).chance == 0.75
    shuffled = replace(examples, parts=[(a, b[::-1]) for a, b in examples.parts[::-1]])
    vectors = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    for classifier in readouts.CLASSIFIERS:
        expected = judge(vectors, examples, classifier)
        np.testing.assert_array_equal(judge(vectors, shuffled, classifier), expected)
        with pytest.raises(ValueError, match="160 vectors of 80 texts"):
            judge(np.tile(vectors, (2, 1)), examples, classifier)


def test_heads_of_several_models_are_trained_side_by_side_and_alone_alike():
    examples, topics = make_examples(1)
    random = np.random.default_rng(0)
    wide = random.normal(size=(80, 6)).astype(np.float32)
    models = [("good", 0, np.eye(2, dtype=np.float32)[topics]), ("bad", 3, wide), ("bad", 4, wide)]
    records = judge_models(models, examples, "thesis", SETTINGS)
    for model, record in zip(models, records, strict=True):
        (alone,) = judge_models([model], examples, "thesis", SETTINGS)
        np.testing.assert_array_equal(record["scores"], alone["scores"])
        folds = [np.isin(examples.tested, test) for _, test in examples.parts]
        shares = [record["scores"][fold].mean() for fold in folds]
        assert record["accuracy"] == pytest.approx(np.mean(shares)), "folds count the same"
        assert {*record["scores"]} <= {0.0, 0.5, 1.0}, "of two heads"
    good, bad, other = (record["accuracy"] for record in records)
    assert good == pytest.approx(1) and bad != other


def test_no_head_of_one_seed_is_one_of_another(monkeypatch):
    seeds = set()

    def train(trials, *_):
        seeds.update(trial.seed for trial in trials)
        return [trial.labels[trial.test] for trial in trials]

    monkeypatch.setattr("lib.evaluation.heads.train_heads", train)
    models = [("a", seed, np.eye(80)) for seed in range(3)]
    judge_models(models, make_examples(1)[0], "thesis", SETTINGS)
    assert len(seeds) == 3 * SETTINGS.repeats


def test_vectors_may_be_fitted_anew_for_each_fold():
    examples, topics = make_examples(1)
    vectors, asked = np.eye(2)[topics] + np.random.default_rng(0).normal(0, 0.8, (80, 2)), []

    def embed(fold):
        asked.append(fold.tested.tolist())
        return vectors

    right = readouts.judge_folds(embed, examples, "compare")
    np.testing.assert_array_equal(right, judge(vectors, examples, "compare"))
    assert asked == [test.tolist() for _, test in examples.parts]


# ---- classifiers --------------------------------------------------------------------------------


def make_trial(features, inputs, labels, tested=2):
    """The last items are tested."""
    train, test = np.split(np.arange(len(labels)), [len(labels) - tested])
    inputs = np.arange(len(labels))[:, None] if inputs is None else inputs
    return readouts.Trial(np.asarray(features), inputs, np.asarray(labels), train, test)


def test_a_text_goes_to_the_nearest_centroid_and_of_equal_ones_to_the_largest_class():
    features = [[1, 0], [2, 0.1], [0, 1], [0.1, 3], [5, 1], [1, 5]]
    assert by_similarity(make_trial(features, None, [0, 0, 1, 1, 0, 1])).tolist() == [0, 1]
    for constant in (np.full((13, 7), 0.1), np.zeros((13, 7))):
        labels = np.array([0, 1, 1, 2, 2, 2, 1, 1, 3, 3, 0, 0, 0])  # class 1 is trained on most
        assert by_similarity(make_trial(constant, None, labels)).tolist() == [1, 1]
        order = np.r_[np.random.default_rng(0).permutation(11), 11, 12]
        assert by_similarity(make_trial(constant, None, labels[order])).tolist() == [1, 1]


def place_pairs(cosines):
    """Vectors, and pairs of the first with each other one, that have these cosines."""
    cosines = np.array([1, *cosines])
    features = np.stack([cosines, np.sqrt(1 - cosines**2)], 1)
    return features, np.stack([np.zeros(len(cosines) - 1, int), np.arange(1, len(cosines))], 1)


@pytest.mark.parametrize("share", [0.03, 0.5, 0.9])
def test_no_cut_of_cosines_has_more_right_answers(share):
    random = np.random.default_rng(0)
    for _ in range(50):
        labels = (random.random(60) < share).astype(int)
        cosines = (labels * random.random() + random.normal(size=60)).round(1)  # some are equal
        values = np.unique(cosines)
        cuts = [-np.inf, *(values[:-1] + values[1:]) / 2, np.inf]
        right = [((cosines > cut) == labels).sum() for cut in cuts]
        assert choose_cut(cosines, labels) == cuts[int(np.argmax(right))]  # the lowest of the best


def test_pairs_above_the_cut_are_positive_never_those_below_it():
    labels = np.array([1, 1, 1, 0, 0, 0, 1, 0, 1, 0])
    cosines = np.array([0.9, 0.8, 0.7, 0.3, 0.2, 0.1, 0.6, 0.4, 0.51, 0.49])
    for shown, expected in ((cosines, [1, 0, 1, 0]), (-cosines, [1] * 4), (0 * cosines, [1] * 4)):
        assert by_similarity(make_trial(*place_pairs(shown), labels, 4)).tolist() == expected
    assert choose_cut(cosines, 0 * labels) == np.inf == -choose_cut(cosines, 0 * labels + 1)
    assert choose_cut(-cosines, (cosines > 0.85).astype(int)) == np.inf, "one in ten: always no"


def test_a_vector_of_zeros_has_the_cosine_0():
    features, inputs = place_pairs([0.4, 0.3, -0.1, -0.2, 0.2])
    features[-1] = 0
    for stored in (features, sparse.csr_array(features)):
        trial = replace(make_trial([], inputs, [1, 1, 1, 0, 0], 1), features=stored)
        assert by_similarity(trial).tolist() == [1]  # the cut is at -0.15
        trial = replace(trial, labels=np.array([1, 1, 0, 0, 0]))
        assert by_similarity(trial).tolist() == [0]  # the cut is at 0.1


@pytest.mark.parametrize("columns", [1, 2])
def test_scale_shift_and_the_order_of_a_pair_play_no_role_when_comparing(columns):
    random = np.random.default_rng(0)
    features, inputs = random.standard_normal((40, 5)), random.integers(0, 40, (60, columns))
    trial = make_trial(features, inputs, random.integers(0, 2, 60), tested=10)
    moved = replace(trial, features=features * random.uniform(0.1, 10, 5) + random.normal(size=5))
    np.testing.assert_array_equal(by_comparing(trial), by_comparing(moved))
    turned = replace(trial, inputs=inputs[:, ::-1])
    np.testing.assert_array_equal(by_comparing(trial), by_comparing(turned))


def test_a_tested_pair_plays_no_role_for_others_when_comparing():
    random = np.random.default_rng(0)
    features, pairs = random.normal(size=(80, 8)), np.arange(80).reshape(40, 2)
    trial = make_trial(features, pairs, random.permutation(40) % 2, tested=20)
    before = by_comparing(trial)
    features[-2:] *= 1000
    assert before[:-1].tolist() == by_comparing(trial)[:-1].tolist() and 5 < before.sum() < 15


def test_comparing_has_the_penalty_of_weights_with_variance_one_over_width():
    """The solution is where the gradient of the penalised loss is zero, by hand."""
    random = np.random.default_rng(0)
    features = random.standard_normal((2000, 3))
    labels = (features[:, 0] + random.standard_normal(2000) > 0.5).astype(int)
    x = (features - features[:50].mean(0)) / features[:50].std(0)
    weights, bias = np.zeros(3), 0.0
    for _ in range(5000):
        error = 1 / (1 + np.exp(-(x[:50] @ weights + bias))) - labels[:50]
        weights -= 0.01 * (error @ x[:50] + 3 * weights)
        bias -= 0.01 * error.sum()
    answers = by_comparing(make_trial(features, None, labels, 1950))
    assert answers.tolist() == (x[50:] @ weights + bias > 0).astype(int).tolist()


def test_words_decide_a_texts_class_and_common_words_a_pairs():
    vectors = [[1.0, 0, 1], [1, 1, 0], [0, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
    trial = make_trial(vectors, None, [1, 1, 0, 0, 1, 0])
    trial = replace(trial, features=sparse.csr_array(trial.features))
    assert readouts.by_words(trial).tolist() == [1, 0]
    articles = np.repeat(range(8), 25)  # no word of the tested pairs occurs in a training pair
    random = np.random.default_rng(0)
    train, test = random.integers(0, 100, (200, 2)), random.integers(100, 200, (100, 2))
    inputs = np.concatenate([train, test])
    labels = (articles[inputs[:, 0]] == articles[inputs[:, 1]]).astype(int)
    words = sparse.csr_array(np.eye(8)[articles])
    trial = replace(make_trial([], inputs, labels, 100), features=words)
    assert (readouts.by_words(trial) == labels[200:]).all()
