"""Folds part neither groups nor equal texts, so nothing is foretold that is not in the vectors."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from lib.data.examples import downsample, make_folds, make_group_folds, read_examples, read_queries
from lib.data.task_files import Task
from lib.evaluation.readouts import judge
from lib.teachers.words import Lexical

GAPS = (" ", "  ", ", ", " \n", "... ")
WORDS = [f"word{number}" for number in range(200)]


def make_task(texts, labels, pairs=None, tested=(), **options):
    """A cross-validated classification of texts, or of pairs of their places."""
    inputs = [(str(row),) for row in range(len(texts))] if pairs is None else pairs
    inputs = [tuple(map(str, ids)) for ids in inputs[: len(labels)]]
    named = {str(row): text for row, text in enumerate(texts)}
    splits = ["test" if row in tested else "train" for row in range(len(labels))]
    columns = {"split": splits, "ids": inputs, "label": ["no" if n == 0 else "yes" for n in labels]}
    return Task("classification", named, pd.DataFrame(columns), **({"folds": 5} | options))


def draw_texts(count, seed=0):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 40)) for _ in range(count)]


@pytest.mark.parametrize("kind", ["compare", "none", "words", "pairs", "stars"])
@pytest.mark.parametrize("copies", [1, 5])
def test_coins_are_foretold_at_chance_however_often_a_text_is_given(copies, kind):
    shares = []
    for seed in range(4):
        distinct, coins = draw_texts(60, seed), np.random.default_rng(seed).permutation(60) % 2
        texts = [text.replace(" ", gap) for gap in GAPS[:copies] for text in distinct]
        texts[-60:] = [text.replace("word", "WO\u00adRD") for text in texts[-60:]]
        order, pairs = np.random.default_rng(seed).permutation(len(texts)), None
        texts, labels = [texts[row] for row in order], np.tile(coins, copies)[order]
        if kind == "pairs":  # two texts that no other pair has
            pairs = np.argsort(order).reshape(-1, 2)  # the places of a pair's two texts
            labels = np.tile(coins[:30], copies)
        elif kind == "stars":  # a coin of each first text, which two or more pairs share
            pairs = [(row % 20, 20 + row) for row in range(20 * (1 + copies))]
            texts = draw_texts(20 + len(pairs), seed)
            labels = np.array([coins[first] for first, _ in pairs])
        examples = read_examples("coin", make_task(texts, labels, pairs), "test", per_split=0)
        vectors = Lexical.fit(examples.texts).weigh(examples.texts).toarray()
        shares.append(judge(vectors, examples, "compare" if pairs is not None else kind).mean())
    # In balanced folds, a class that is tested more is trained on less: a little below one half.
    assert 0.3 < np.mean(shares) < 0.6


def test_folds_are_the_thesis_own_but_for_groups_and_repeated_texts():
    labels = np.random.default_rng(0).integers(0, 2, 60)
    for pairs in (None, [(row, 60 + row) for row in range(60)]):
        task = make_task(draw_texts(120 if pairs else 60), labels, pairs)
        parts = read_examples("", task, "test", per_split=0).parts
        for ours, theirs in zip(parts, StratifiedKFold(5).split(labels, labels), strict=True):
            assert all(map(np.array_equal, ours, theirs))
    groups = np.concatenate([np.arange(12), np.random.default_rng(1).integers(0, 12, 48)])
    texts = draw_texts(60)
    texts[7] = texts[groups.tolist().index(groups[7])].replace(" ", "\n")  # of the same group
    task = make_task(texts, labels, groups={str(r): f"g{g}" for r, g in enumerate(groups)})
    parts = read_examples("", task, "test", per_split=0).parts
    expected = StratifiedGroupKFold(5).split(labels, labels, groups)
    assert {tuple(test) for _, test in parts} == {tuple(test) for _, test in expected}


def test_no_fold_shares_a_text_or_group_with_another():
    random = np.random.default_rng(0)
    texts = [*draw_texts(70), *(text.replace(" ", "\n") for text in draw_texts(70)[:30])]
    groups = {str(row): f"g{random.integers(25)}" for row in range(0, 100, 2)}
    task = make_task(texts, random.integers(0, 2, 100), groups=groups)
    parts = read_examples("", task, "test", per_split=0).parts
    assert sorted(np.concatenate([test for _, test in parts])) == [*range(100)]
    words = [text.split()[0] + text.split()[1] for text in texts]
    for train, test in parts:
        sides = [{words[r] for r in p} | {groups.get(str(r), r) for r in p} for p in (train, test)]
        assert not sides[0] & sides[1]
    with pytest.raises(ValueError, match="a group stays in one fold"):
        make_folds([{row % 3} for row in range(20)], np.arange(20) % 3 // 2, 3)


@pytest.mark.parametrize("seed", range(4))
def test_group_folds_differ_by_at_most_one_group_and_part_neither_groups_nor_texts(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 20, random.integers(5, 30))
    groups = [f"g{number}" for number, size in enumerate(sizes) for _ in range(size)]
    contents = random.permutation(len(groups))
    contents[5] = contents[-1]  # the same text in two groups
    folds = make_group_folds(groups, contents.tolist())
    assert sorted(np.concatenate(folds)) == [*range(len(groups))]
    linked = max(sizes.max(), sizes[0] + sizes[-1], sizes[:6].max() + sizes[-1])
    assert max(map(len, folds)) <= min(map(len, folds)) + linked
    for one, other in itertools.combinations(folds, 2):
        assert not {groups[row] for row in one} & {groups[row] for row in other}
        assert not {*contents[one]} & {*contents[other]}


@pytest.mark.parametrize(("count", "folds"), [(2, 2), (12, 2), (60, 3), (500, 5)])
def test_few_items_have_few_folds_of_equal_size(count, folds):
    for groups in ([str(n) for n in range(count)], ["one"] * count):
        sizes = [len(fold) for fold in make_group_folds(groups, range(count))]
        assert len(sizes) == folds and max(sizes) <= min(sizes) + 1
    with pytest.raises(ValueError, match="two different texts"):
        make_group_folds(["one"] * count, [7] * count)


def test_each_chapter_is_judged_on_its_own_examples():
    labels = np.concatenate([np.arange(30) % 2, np.arange(30) % 3 // 2])
    task = make_task(draw_texts(60), labels, tested=range(30, 60), cross_fit=True)
    for split, first, chance, cut in (("validation", 0, 0.5, 10), ("test", 30, 2 / 3, 30)):
        examples = read_examples("OC", task, split, per_split=1000)
        assert [int(name) for name in examples.text_ids] == [*range(first, first + 30)]
        assert examples.tested.tolist() == [*range(30)] and examples.chance == chance
        few = read_examples("OC", task, split, per_split=1000, trained_on=0.5)
        assert {len(train) for train, _ in few.parts} == {12} and len(few.tested) == 30
        assert len(read_examples("OC", task, split, per_split=10).labels) == cut
    given = read_examples("OC", replace(task, cross_fit=False), "test", per_split=0, trained_on=10)
    ((train, _),) = given.parts
    assert (len(train), given.chance, given.tested.tolist()) == (10, 2 / 3, [*range(30, 60)])


def test_queries_are_sources_with_targets_or_texts_that_share_a_cluster():
    texts, columns = {name: f"{name} text" for name in "abcde"}, ["split", "ids", "label"]
    rows = [("relevant", ids, "") for ids in (("b", "e"), ("b", "a"))]
    retrieval = Task("retrieval", texts, pd.DataFrame(rows, columns=columns))
    assert read_queries(retrieval).relevant == {1: [0, 4]}
    clusters = {"a": "one", "b": "two", "c": "one", "d": "alone", "e": "one"}
    rows = [("clusters", (each,), label) for each, label in clusters.items()]
    clustering = Task("clustering", texts, pd.DataFrame(rows, columns=columns))
    assert read_queries(clustering).relevant == {0: [2, 4], 2: [0, 4], 4: [0, 2]}
    twins = read_queries(replace(clustering, texts=texts | {"c": "b  text"}))
    assert twins.text_ids == [*"acde"] and twins.relevant[1] == [0, 3]
    copies = read_queries(replace(retrieval, texts=texts | {"a": "B, text", "c": "E text."}))
    assert copies.text_ids == [*"acd"] and copies.relevant == {0: [1]}  # none finds its copy
    with pytest.raises(ValueError, match="no cluster has two texts"):
        read_queries(replace(clustering, texts={"a": "a"}))


def test_downsampling_keeps_the_shares_of_classes():
    # Shares .5, .3, .2 of 7: floors 3, 2, 1; what is left over goes to the smallest class.
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    assert downsample(labels, 7).tolist() == [0, 1, 2, 5, 6, 8, 9]
    assert downsample(labels, 10).tolist() == downsample(labels, 99).tolist() == [*range(10)]
    rare = np.array([0] * 50 + [1] * 49 + [2])
    kept = downsample(rare, 99)
    assert len(kept) == len({*kept.tolist()}) == 99 and np.bincount(rare[kept])[2] == 1
