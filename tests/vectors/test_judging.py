"""Nothing that is judged was fitted to, by any measure; and copies find nothing."""

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pytest

from lib.config import profiles
from lib.data.dataset_folder import content
from lib.data.task_files import Task
from lib.experiments.models import Model
from lib.store import Store
from lib.vectors import BASE, BOTH, CHUNKS, CUT, LSA, STUDENT, TFIDF, judging, own
from tests.vectors.conftest import make_text

COUNT = 40
TEXTS = [make_text(n) for n in range(COUNT)]
IDS = [str(n) for n in range(COUNT)]
DENSE = (BASE, CUT, CHUNKS, STUDENT)


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


def make_task(kind, rows, texts=None, **fields):
    examples = pd.DataFrame(rows, columns=["split", "ids", "label"])
    return Task(kind, texts or dict(zip(IDS, TEXTS, strict=True)), examples, **fields)


def make_pool(texts, groups=()):
    contents = np.array([*map(content, texts)], np.uint64)
    return judging.Pool(np.array(texts, dtype=object), contents, groups or [""] * len(texts))


GROUPS = {each: f"g{int(each) // 4}" for each in IDS}
SINGLES = [("train", (each,), "ab"[int(each) % 2]) for each in IDS]
PAIRS = [("train", (each, str((int(each) + 2) % 20)), "ab"[int(each) % 2]) for each in IDS[:20]]
PAIRS += [("test", (e, str(20 + (int(e) + 3) % 20)), "ab"[int(e) % 2]) for e in IDS[20:]]
TASKS = {
    "single texts": make_task("classification", SINGLES, folds=5, groups=GROUPS),
    "pairs": make_task("classification", PAIRS),
    "a retrieval": make_task("retrieval", [("relevant", (e, IDS[-1]), "") for e in IDS[:12]]),
    "a clustering": make_task("clustering", [("clusters", (e,), str(int(e) // 5)) for e in IDS]),
}


@pytest.mark.parametrize("name", TASKS)
def test_no_tested_text_is_fitted_to(tmp_path, name):
    spy = Spy(Store(tmp_path))
    pool = make_pool(TEXTS, [TASKS[name].groups.get(each, "") for each in IDS])
    measure = judging.judge_task(name, TASKS[name], pool, lambda texts: {BASE: spy})
    tested = {text for held_out, _ in spy.calls for text in held_out}
    kept = [{*held_out} for held_out, _ in spy.calls if held_out]
    assert len(measure.scores[BASE]) and kept
    if name == "single texts":  # each is tested once, with all of its group
        assert tested == {*TEXTS}
        for texts in kept:
            groups = {TEXTS.index(text) // 4 for text in texts}
            assert len(texts) == 4 * len(groups)
    if name == "a clustering":
        assert tested == {*TEXTS} and all(len(texts) % 5 == 0 for texts in kept)


def test_halves_hold_out_their_documents_and_whole_groups(tmp_path):
    spy, groups = Spy(Store(tmp_path)), [f"g{n // 5}" for n in range(COUNT)]
    measure = judging.judge_halves(make_pool(TEXTS, groups), lambda texts: {BASE: spy})
    assert len(measure.scores[BASE]) == COUNT == len(measure.groups)
    sizes = []
    for held_out, embedded in spy.calls:
        whole = [n for n, text in enumerate(TEXTS) if text in held_out]
        assert len(whole) == len(embedded) / 2 and {*embedded} <= {*held_out}
        sizes.append(len({groups[n] for n in whole}))
        assert len(whole) == 5 * sizes[-1]
    assert sum(sizes) == 8 and max(sizes) - min(sizes) <= 1


def test_a_half_that_two_documents_share_is_compared_once():
    texts = [f"the same words. other{n} words{n} end{n}" for n in range(4)]
    assert len(judging.draw_halves(texts)) == 1 and judging.draw_halves(["one", "two"]) == {}


def test_copies_are_one_example_whatever_their_case_and_punctuation(tmp_path):
    spelled = [form(text) for form in (str.upper, "{}...".format, str.split) for text in TEXTS]
    texts = [text if isinstance(text, str) else "- ".join(text) for text in spelled]
    names = [*map(str, range(len(texts)))]
    singles = [("train", (each,), "ab"[int(each) % 2]) for each in names]
    task = make_task("classification", singles, dict(zip(names, texts, strict=True)), folds=5)
    spy = Spy(Store(tmp_path))
    pool = make_pool(texts)
    measure = judging.judge_task("copies", task, pool, lambda texts: {BASE: spy})
    assert measure.examples == COUNT == len({*measure.groups.ravel()})
    assert len(judging.draw_halves(pool.texts)) == COUNT


def test_clusterings_that_agree_are_one_piece_of_evidence_whatever_they_call_it(tmp_path):
    """The label that they share means nothing; the third is another partition of the texts."""
    labels = [lambda n: n // 5, lambda n: 7 - n // 5, lambda n: n % 8]
    pool, groups = make_pool(TEXTS), []
    for label in labels:
        task = make_task("clustering", [("clusters", (e,), str(label(int(e)))) for e in IDS])
        make_models = lambda texts: {BASE: Letters(Store(tmp_path))}  # noqa: E731
        groups.append({*judging.judge_task("x", task, pool, make_models).groups.ravel()})
    assert [*map(len, groups)] == [8, 8, 8]
    assert groups[0] == groups[1] and len(groups[0] & groups[2]) < 8


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_a_text_belongs_to_the_groups_of_its_copies_and_the_same_copy_stands_for_all(order):
    texts = [TEXTS[0], TEXTS[0].upper(), "A reply: " + TEXTS[0]]
    pool = make_pool([texts[n] for n in order], [["", "m", "m"][n] for n in order])
    assert {*pool.texts} == {TEXTS[0], texts[2]} or {*pool.texts} == {*texts[1:]}
    assert len({*pool.groups}) == 1 and {*pool.find_related(pool.groups[:1])} == {*pool.texts}
    assert {*pool.texts} == {*make_pool(texts, ["", "m", "m"]).texts}


def test_unlabelled_texts_of_a_tested_group_are_held_out_too(tmp_path):
    replies = [f"You wrote: {text}" for text in TEXTS]
    pool, spy = make_pool([*TEXTS, *replies], 2 * IDS), Spy(Store(tmp_path))
    judging.judge_task("a clustering", TASKS["a clustering"], pool, lambda texts: {BASE: spy})
    for held_out, _ in spy.calls:
        assert {f"You wrote: {text}" for text in {*held_out} & {*TEXTS}} <= {*held_out}


def test_copies_of_tested_texts_are_fitted_to_by_no_mean(tmp_path):
    texts = dict(zip(IDS, TEXTS, strict=True)) | {f"{i}c": TEXTS[int(i)].upper() for i in IDS[:20]}
    rows = [("clusters", (each,), str(int(each.strip("c")) // 5)) for each in texts]
    pool, made = make_pool([*texts.values()]), []

    def make_models(read):
        made.append(own.Centred(Store(tmp_path), Letters(Store(tmp_path)), [*read]))
        return {BASE: made[0]}

    measure = judging.judge_task("x", make_task("clustering", rows, texts), pool, make_models)
    assert measure.examples == COUNT == len(made[0].documents)
    # The mean is that of all documents, as that of the saved model, not that of the task's.
    judging.judge_task("x", TASKS["a retrieval"], make_pool([*TEXTS, "another"]), make_models)
    assert {*made[1].documents} == {*TEXTS, "another"}
    copies = {TEXTS[0], TEXTS[0].upper()}
    for tested in copies:
        assert copies.isdisjoint(made[0].fit_outside([tested]).documents)


def test_the_interval_of_the_verdict_is_that_of_the_difference(capsys):
    """An asked model has the interval of the table, and a chosen one a wider one."""
    draw = np.random.default_rng(0).normal
    scores = {name: level + draw(0, 0.2, 200) for name, level in ((BASE, 0.5), (CUT, 0.55))}
    scores |= {CHUNKS: 0.7 + draw(0, 0.02, 200), TFIDF: draw(0.3, 0.1, 200)}
    scores[BOTH] = scores[BASE] - 0.1
    names = np.arange(200).astype(str)
    measure = judging.Measure("x", scores, names, 0.0, 200)
    for asked in (CUT, CHUNKS, None):
        report = judging.compare_models([measure], asked)
        row = next(each for each in report["table"] if each["model"] == report["model"])
        low, high = report["low"] - report["difference"], report["high"] - report["difference"]
        assert report["difference"] == pytest.approx(row["against_base"])
        assert high == pytest.approx(-low)
        wider = (high - low) / (row["against_high"] - row["against_low"])
        assert wider == pytest.approx(1) if asked else 1.1 < wider < 1.5


def combiner(tmp_path, documents):
    models = own.list_models(Store(tmp_path), documents, profiles.load("lab"))
    models |= dict.fromkeys(DENSE, Letters(Store(tmp_path)))
    return lambda texts: own.combine(models, texts)


@pytest.mark.parametrize("name", TASKS)
def test_every_measure_has_scores_of_each_model(tmp_path, name):
    measure = judging.judge_task(name, TASKS[name], make_pool(TEXTS), combiner(tmp_path, TEXTS))
    assert {*measure.scores} == {*DENSE, TFIDF, LSA, BOTH}
    means = np.array([each.mean() for each in measure.scores.values()])
    assert (means >= 0).all() and (means <= 1).all()
    if name == "single texts":
        assert (means > 0.9).all() and measure.chance == 0.5


def test_words_are_fitted_outside_the_fold(tmp_path):
    """Both halves of a document have words that no other has: no model of words knows them."""
    texts = [f"common text a{n} b{n}. common thing a{n} b{n}" for n in range(40)]
    measure = judging.judge_halves(make_pool(texts), combiner(tmp_path, texts))
    assert max(measure.scores[name].mean() for name in (TFIDF, LSA)) < 2 * measure.chance
