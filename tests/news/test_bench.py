"""What a profile becomes: texts, teacher's rows, and what is made again when something changes."""

import pickle

import numpy as np
import pytest

from lib.data.dataset_folder import Documents
from lib.experiments.bench import Bench
from lib.news import bench as news_bench
from lib.news import distil, embedders
from lib.news.bench import NewsBench
from lib.news.teacher import TeacherRows
from lib.store.cache import Cache, NotComputed
from lib.store.code import list_imported

TINY = {"news.documents": 32, "news.epochs": 1}


@pytest.fixture(autouse=True)
def artifacts(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))


def look_at(self, texts):
    """Stands for a teacher: vectors of 3 numbers, a token for each word up to the limit."""
    ids = [np.arange(min(len(text.split()), self.max_tokens), dtype=np.int32) + 5 for text in texts]
    vectors = [[self.max_tokens, len(text), 1] for text in texts]
    return {"vectors": np.array(vectors, dtype=np.float32), "ids": ids}


def look_up(source, max_tokens):
    return {
        "tokens": np.arange(600.0, dtype=np.float32).reshape(200, 3),
        "reduced": np.ones((200, 8), dtype=np.float32),
        "megabytes": np.array(1.0),
        "output": np.array(3),
    }


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function (changed settings) -> NewsBench of smoke, whose teacher costs nothing."""
    monkeypatch.setattr(TeacherRows, "__call__", look_at)
    monkeypatch.setattr(news_bench.TeacherSource, "load", lambda *_: None)
    monkeypatch.setattr(news_bench, "read_token_embeddings", look_up)

    def load_profile(cache=None, **changes):
        bench = Bench.load("smoke", overrides=TINY | changes)
        if cache is not None:
            bench.cache = Cache(tmp_path / cache)
        return NewsBench(bench)

    return load_profile


def test_a_setting_that_counts_names_another_student(load):
    product = load().student_product("bag;cosine", 0)
    assert load().student_product("bag;cosine", 0).name == product.name
    assert load().student_product("bag;cosine", 1).key != product.key
    assert load().student_product("BiGRU;cosine", 0).key != product.key
    for change in (
        {"news.epochs": 2},
        {"news.rates": {"other": 0.5}},
        {"news.max_tokens": 20},
        {"news.words": 15},
        {"news.documents": 33},
        {"news.tokens": "random"},
        {"width": 0.2},
        {"corpus.seed": 7},
    ):
        assert load(**change).student_product("bag;cosine", 0).key != product.key, change
    # Nothing that this student reads: another chapter's settings, labels, the number of triplets.
    for change in ({"heads.epochs": 1}, {"news.triplets": 9}):
        assert load(**change).student_product("bag;cosine", 0).key == product.key, change


def test_labels_change_the_students_that_learn_from_them(load):
    before, after = load(), load(**{"news.positives": 0.3})
    for model, same in (("bag;cosine", True), ("bag;triplet", False)):
        keys = [news.student_product(model, 0).key for news in (before, after)]
        assert (keys[0] == keys[1]) == same, model


def test_what_the_teacher_says_names_the_student(load, monkeypatch):
    key = load("first").student_product("bag;cosine", 0).key

    def look_elsewhere(self, texts):
        return look_at(self, texts) | {"vectors": np.eye(len(texts), 3)}

    monkeypatch.setattr(TeacherRows, "__call__", look_elsewhere)
    assert load("second").student_product("bag;cosine", 0).key != key


def test_the_code_of_students_makes_no_teachers_rows_again():
    teacher = list_imported(["lib.news.teacher"])
    student = list_imported(["lib.news.distil"])
    assert not {"lib.news.students", "lib.news.distil", "lib.news.tuning"} & {*teacher}
    assert {"lib.news.students", "lib.news.designs", "lib.news.losses", "lib.losses.mse"} <= {
        *student
    }
    assert not {"lib.news.bench", "lib.news.results", "lib.news.clustering"} & {*student}


def test_triplets_are_capped_and_annotated_documents_are_not(load):
    whole, capped = load(), load(**{"news.triplets": 10})
    counts = []
    for model in ("BiGRU+1 linear;triplet", "LSTM+2 linear+dropout;MSE;annotated"):
        for news in (whole, capped):
            lesson, use = news._plan_lesson(model, 0)
            assert use == "train"
            counts.append(len(lesson.examples) + len(lesson.held_out))
    assert counts[0] > 10 == counts[1] and counts[2] == counts[3] > 10


def test_held_out_windows_are_the_last_and_windows_are_cut_shorter(load):
    news = load(**{"news.words": 10, "news.max_tokens": 64})
    lesson, use = news._plan_lesson("bag;cosine", 0)
    assert use == "distilled" and [len(lesson.examples), len(lesson.held_out)] == [32, 3]
    assert lesson.held_out.ravel().tolist() == [32, 33, 34]
    assert (lesson.teacher[:][:, 0] == 12).all() and len(lesson.rows[0]) <= 12
    assert (news.embed_model(embedders.TEACHER, 0)["public"][:, 0] == 64).all()


def test_windows_are_read_once_however_many_models_there_are(load, monkeypatch):
    reads, read = [], Documents.__getitem__
    monkeypatch.setattr(
        Documents, "__getitem__", lambda self, row: reads.append(row) or read(self, row)
    )
    news = load()
    news.prepare([("bag;cosine", 0), ("CNN-1;MSE", 0)])
    assert len(reads) == 2 * 35  # to name them, and for the teacher
    assert {*news.texts} == {"distilled", "train", "public", "private", "rated"}


def test_what_is_there_is_read_and_a_reading_bench_computes_nothing(load, monkeypatch):
    news = load()
    reading = NewsBench(news.bench.reading())
    with pytest.raises(NotComputed):
        reading.prepare([("bag;cosine", 0)])
    news.prepare([("bag;cosine", 0)])
    monkeypatch.setattr(distil, "train_and_embed", lambda *_: pytest.fail("trained again"))
    again = load()
    again.prepare([("bag;cosine", 0)])
    first, second = (each.embed_model("bag;cosine", 0) for each in (news, again))
    assert {*first} == {"train", "public", "private", "rated", "megabytes", "held_out"}
    assert all(np.array_equal(first[name], second[name]) for name in first)
    assert reading.embed_model("bag;cosine", 0)["public"].shape == first["public"].shape
    with pytest.raises(NotComputed):
        reading.embed_model("bag;cosine", 1)


def test_jobs_travel_to_other_processes(load):
    job = load()._student_job("BiGRU;cosine", 0)
    cache, product, lesson, start = pickle.loads(pickle.dumps(job))
    assert product.name == job[1].name and start == job[3] and cache.folder == job[0].folder
    assert [*map(len, lesson.rows)] == [*map(len, job[2].rows)]


def test_what_takes_long_is_begun_first(load, monkeypatch):
    """So that no core waits for one long training at the end."""
    begun = []
    monkeypatch.setattr(
        news_bench,
        "train_news_student",
        lambda _, product, *__: begun.append(product.inputs["model"]),
    )
    names = ["bag;cosine", "BiGRU;cosine", "BiLSTM;cosine", "Transformer(2x4);cosine", "CNN-1;MSE"]
    load().prepare([(name, 9) for name in [*names, "teacher"]])
    assert begun == [names[1], names[3], names[2], names[0], names[4]]


def test_both_word_baselines_count_alike():
    """They differ in whose words they know, not in how they weigh them."""
    texts = {"public": ("fire in Oslo harbour", "trial in Lima", "a fire again")}
    first = embedders.embed_words(texts)["public"]
    second = embedders.embed_words(texts, texts["public"])["public"]
    np.testing.assert_allclose(first.toarray(), second.toarray())
