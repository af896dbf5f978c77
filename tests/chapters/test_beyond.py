"""Notebook 10: what each ingredient adds, and students beside what needs no training."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from lib.chapters import beyond
from lib.config import profiles
from lib.config.schema import HeadSettings
from lib.distillation.variants import MM_MSE, NO_WEIGHTING, parse
from lib.evaluation.readouts import Examples
from lib.store import Product, Store
from lib.vectors.names import BASE, BOTH, CLASSIFIER, STUDENT, TFIDF
from tests.fake_bench import FakeBench

GRID = profiles.grid("beyond")
INGREDIENTS = {"untrained student": "Longformer"} | GRID["ingredients"]
EXAMPLES = 60


def test_what_the_grid_names_is_there_and_by_its_one_name():
    labels = [*GRID["final"].values(), *GRID["drafts"], *GRID["students"].values()]
    labels += INGREDIENTS.values()
    assert [parse(label).identity for label in labels] == labels
    assert {*GRID["twins"], *GRID["twins"].values()} == {*GRID["drafts"].values()}
    assert set(GRID["trained_factors"]) <= set(GRID["factors"])
    known = {*HeadSettings.model_fields}
    assert {name for changes in GRID["heads"].values() for name in changes} <= known
    assert len({*INGREDIENTS.values()}) == len(INGREDIENTS)
    assert {name for pair in GRID["steps"].values() for name in pair} == {*INGREDIENTS}
    assert {*GRID["compared_students"].values()} <= {*INGREDIENTS.values()}
    assert {NO_WEIGHTING["cosine"], MM_MSE} < {*INGREDIENTS.values()}, "students of Chapter 4"


def make_records(models):
    """Records of students with one task of pairs."""
    shared = {"task": "OC", "metric": "accuracy", "readout": "compare", "split": "validation"}
    shared |= {"chance": 0.5, "device": "cpu", "seed": 0, "value": 0.9}
    rows = [shared | {"model": model, "groups": np.arange(EXAMPLES)} for model in models]
    return pd.DataFrame(rows)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    """A bench with one task of pairs, on which two models say the label and the others nothing."""
    numbers = np.random.default_rng(0)
    texts = [f"text {number}" for number in range(EXAMPLES)]
    labels = np.arange(EXAMPLES) % 2
    rows = np.arange(EXAMPLES)
    folds = [(rows[rows % 3 != fold], rows[rows % 3 == fold]) for fold in range(3)]
    examples = Examples("OC", texts, texts, rows[:, None], labels, 2, folds)
    told = np.eye(2, dtype="f4")[labels]
    asked = []

    def make_model(name):
        noise = numbers.standard_normal((EXAMPLES, 2)).astype("f4")
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        vectors = {TFIDF: sparse.csr_array(told), BOTH: told}.get(name, noise)
        embed = lambda part: asked.append(name) or vectors  # noqa: E731
        return SimpleNamespace(product=Product("made", {"name": name}), embed=embed, encode=embed)

    made = {name: (make_model(name),) for name in beyond.UNTRAINED}
    made[CLASSIFIER] = (*made[TFIDF], *made[BASE])
    monkeypatch.setattr(beyond, "list_untrained", lambda _: made)
    bench = FakeBench(
        "mini",
        run=lambda bench, models, *, seeds: make_records(models),
        examples=lambda *_: examples,
        store=Store(tmp_path),
        base=make_model(STUDENT),
    )
    bench.asked = asked
    return bench


def test_models_without_training_are_judged_once_on_the_students_examples(bench):
    records = beyond.run_table(bench).set_index("model")
    right = {TFIDF, BOTH, CLASSIFIER}  # the words of the last say it, whatever their weight is
    values = records.loc[[*beyond.UNTRAINED], "value"]
    assert (values[[*right]] == 1).all() and values.drop([*right]).between(0.3, 0.7).all()
    assert {*records["chance"]} == {0.5} and records["task"].eq("OC").all()
    asked = len(bench.asked)
    pd.testing.assert_frame_equal(beyond.run_table(bench).set_index("model"), records)
    assert len(bench.asked) == asked, "records are kept"
