"""Nothing that is judged was fitted to, by any measure; and copies find nothing."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from lib.data.task_files import Task
from lib.experiments.model import Model
from lib.store import Store
from lib.vectors import measures, models
from lib.vectors.models import Dense
from lib.vectors.names import BASE, BOTH, CHUNKS, CLASSIFIER, CUT, LSA, STUDENT, TFIDF
from tests.vectors.conftest import make_text

COUNT = 40
TEXTS = [make_text(("river", "court")[n % 2], n) for n in range(COUNT)]
IDS = [str(n) for n in range(COUNT)]
TOLD = np.arange(COUNT) % 2


@dataclass(frozen=True, eq=False)
class Spy(Model):
    """Random vectors; lists what each fold embeds and must not be fitted to."""

    calls: list = field(default_factory=list)
    held_out: tuple = ()

    def fit_outside(self, texts):
        return Spy(self.store, self.calls, tuple(texts))

    def embed(self, texts):
        self.calls.append((self.held_out, [*texts]))
        return np.random.default_rng(len(texts)).normal(size=(len(texts), 3))


@dataclass(frozen=True, eq=False)
class Letters(Model):
    """Vectors that tell the subjects apart."""

    def embed(self, texts):
        return np.array([[text.count("river"), text.count("court"), 1] for text in texts], "f4")


def make_task(kind, **fields):
    return Task(kind, dict(zip(IDS, TEXTS, strict=True)), **fields)


TASKS = {
    "single texts": make_task(
        "classification",
        inputs={"train": [(each,) for each in IDS]},
        labels={"train": TOLD},
        classes=["a", "b"],
        folds=5,
        groups={each: f"g{int(each) // 4}" for each in IDS},
    ),
    "pairs": make_task(
        "classification",
        inputs={
            "train": [(each, str((int(each) + 2) % 20)) for each in IDS[:20]],
            "test": [(each, str(20 + (int(each) + 3) % 20)) for each in IDS[20:]],
        },
        labels={"train": TOLD[:20], "test": TOLD[20:]},
        classes=["a", "b"],
    ),
    "a retrieval": make_task("retrieval", relevant={each: [IDS[-1]] for each in IDS[:12]}),
    "a clustering": make_task("clustering", clusters={each: str(int(each) // 5) for each in IDS}),
}


@pytest.mark.parametrize("name", TASKS)
def test_no_tested_text_is_fitted_to(tmp_path, name):
    spy = Spy(Store(tmp_path))
    frame = measures.judge_task(name, TASKS[name], {CUT: spy, BASE: spy, TFIDF: Letters(spy.store)})
    scored = len(frame["scores"].iloc[0])
    tested = {text for held_out, _ in spy.calls for text in held_out}
    kept = [{*held_out} for held_out, _ in spy.calls]
    assert scored and min(map(len, kept)) > 0
    if name == "single texts":  # each is tested once, with all of its group
        assert tested == {*TEXTS}
        for texts in kept:
            groups = {TEXTS.index(text) // 4 for text in texts}
            assert len(texts) == 4 * len(groups)
    if name == "a clustering":
        assert tested == {*TEXTS} and all(len(texts) % 5 == 0 for texts in kept)


def test_halves_hold_out_their_documents_and_whole_groups(tmp_path):
    spy, groups = Spy(Store(tmp_path)), [f"g{n // 5}" for n in range(COUNT)]
    halves = measures.draw_halves(TEXTS, 1.3)
    frame = measures.judge_halves(halves, TEXTS, groups, {BASE: spy})
    assert len(frame["scores"].iloc[0]) == COUNT == len(frame["groups"].iloc[0])
    sizes = []
    for held_out, embedded in spy.calls:
        whole = [n for n, text in enumerate(TEXTS) if text in held_out]
        assert len(whole) == len(embedded) / 2 and {*embedded} <= {*held_out}
        sizes.append(len({groups[n] for n in whole}))
        assert len(whole) == 5 * sizes[-1]
    assert sum(sizes) == 8 and max(sizes) - min(sizes) <= 1
    with pytest.raises(ValueError, match="fewer than two"):
        measures.judge_halves(measures.draw_halves(TEXTS[:1], 1.3), TEXTS[:1], groups[:1], {})


def test_a_half_that_two_documents_share_is_compared_once():
    texts = [f"the same words. other{n} words{n} end{n}" for n in range(4)]
    halves = measures.draw_halves(texts, 1.0)
    assert len(halves) == 1 and measures.draw_halves(["one", "two"], 1.0) == {}


def combine(tmp_path, documents, texts):
    store = Store(tmp_path)
    dense = {name: Dense(name, Letters(store), 99) for name in (BASE, CUT, CHUNKS, STUDENT)}
    return models.combine(dense, models.fit_words(store, documents), texts)


def test_every_measure_has_a_row_for_each_model(tmp_path):
    everything = combine(tmp_path, TEXTS, TEXTS)
    for name, task in TASKS.items():
        frame = measures.judge_task(name, task, everything).set_index("model")
        classified = [CLASSIFIER] if name == "single texts" else []
        order = [BASE, CUT, CHUNKS, STUDENT, TFIDF, LSA, BOTH, *classified]
        assert frame.index.tolist() == order, "the order of the table"
        assert frame["scores"].map(np.mean).between(0, 1).all()
        if name == "single texts":
            assert (frame["scores"].map(np.mean) > 0.9).all() and frame["chance"].iloc[0] == 0.5


def test_words_are_fitted_outside_the_fold(tmp_path):
    """Both halves of a document have words that no other has: no model of words knows them."""
    texts = [f"common text a{n} b{n}. common thing a{n} b{n}" for n in range(40)]
    halves = measures.draw_halves(texts, 1.0)
    lexical = combine(tmp_path, texts, [half for pair in halves.values() for half in pair])
    frame = measures.judge_halves(halves, texts, texts, lexical)
    scores = frame.set_index("model")["scores"].map(np.mean)
    assert scores[[TFIDF, LSA]].max() < 2 * frame["chance"].iloc[0]


def test_texts_without_words_have_no_models_of_words(tmp_path):
    texts = [f"{a} {b} of the" for a in "äöüß" for b in "éèêë"]
    task = Task("clustering", dict(enumerate(texts)), clusters={n: n % 4 for n in range(16)})
    frame = measures.judge_task("t", task, combine(tmp_path, ["the", "of the"], texts))
    assert {*frame["model"]} == {BASE, CUT, CHUNKS, STUDENT} and BOTH not in {*frame["model"]}
