"""Names are known before anything is computed; what is there is read; students repeat."""

import pickle

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.experiments.bench import Bench
from lib.experiments.embedders import Teacher
from lib.news import chapter, models, tuning
from lib.news.chapter import News
from lib.news.losses import triplet
from lib.news.models import DistilledStudent
from lib.store import NotComputed, Store

TINY = {"news.documents": 32, "news.epochs": 1}
STUDENTS = ["bag;cosine", "BiGRU;cosine", "BiLSTM;cosine", "Transformer(2x4);cosine", "CNN-1;MSE"]


class FakeSBERT:
    """A token for each word; vectors are the limit, the length of the text, 1 and 1."""

    dim = 4

    def __init__(self, max_tokens):
        torch.manual_seed(0)  # as a teacher that draws random numbers when it is loaded
        self.max_tokens = max_tokens
        self.model = torch.nn.Embedding(200, 16).requires_grad_(False)
        self.model.get_input_embeddings = lambda: self.model

    def tokenize(self, texts):
        counts = [min(len(text.split()), self.max_tokens - 2) for text in texts]
        ids = [np.array([1, *range(5, 5 + count), 2], dtype=np.int32) for count in counts]
        return ids, np.array(counts)

    def encode(self, texts, batch_size=32):
        return np.array([[self.max_tokens, len(text), 1, 1] for text in texts], dtype=np.float32)


@pytest.fixture
def load(tmp_path, monkeypatch):
    """A function (changed settings) -> News of smoke, whose teacher costs nothing."""
    fake = property(lambda teacher: FakeSBERT(teacher.section.max_tokens))
    monkeypatch.setattr(Teacher, "sbert", fake)

    def load_news(store="store", **changes):
        profile = profiles.load("smoke", overrides=TINY | changes)
        return News(Bench(profile, Store(tmp_path / store)))

    return load_news


@pytest.mark.parametrize(
    ("setting", "value", "renamed"),
    [
        ("news.epochs", 2, True),
        ("news.rates", {"other": 0.5}, True),
        ("news.max_tokens", 20, True),
        ("news.words", 15, True),
        ("news.documents", 33, True),
        ("news.tokens", "random", True),
        ("news.tuned_teacher", True, True),
        ("width", 0.2, True),
        ("corpus.seed", 7, True),
        ("heads.epochs", 1, False),  # of another chapter
        ("news.positives", 0.3, False),  # whose labels it does not learn from
        ("news.triplets", 9, False),
    ],
)
def test_settings_that_count_name_another_student(load, setting, value, renamed):
    benches = (load(), load(**{setting: value}))
    before, after = (news.model("bag;cosine").product.key for news in benches)
    assert (before != after) == renamed


def test_a_student_has_a_name_before_anything_is_computed(load, monkeypatch, tmp_path):
    monkeypatch.setattr(Teacher, "sbert", property(lambda _: pytest.fail("a teacher is loaded")))
    before, after = load(), load(**{"news.positives": 0.3})  # other labels
    names = {before.model(model, seed).product.key for model in STUDENTS for seed in (0, 1)}
    names |= {news.model("LSTM;triplet").product.key for news in (before, after)}
    assert len(names) == 2 * len(STUDENTS) + 2
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("model", "count"),
    [("BiGRU+1 linear;triplet", 10), ("LSTM+2 linear+dropout;MSE;annotated", None)],
)
def test_triplets_are_capped_and_annotated_documents_are_not(load, model, count):
    whole, capped = (load(**{"news.triplets": most}).model(model) for most in (None, 10))
    counts = [len(each.examples) + len(each.held_out) for each in (whole, capped)]
    assert counts[0] > 10 and counts[1] == (count or counts[0])
    side = load().sides["train"]
    assert capped.documents == side.texts  # never from a tested side
    assert capped.examples.max() < len(side.texts)


def test_held_out_windows_are_the_last_and_windows_are_cut_shorter(load):
    news = load(**{"news.words": 10, "news.max_tokens": 64})
    student = news.model("bag;cosine")
    assert len(student.examples) == 32 and student.held_out.ravel().tolist() == [32, 33, 34]
    assert (student.taught.embed(student.documents)[:][:, 0] == 12).all()
    assert (news.embed(chapter.TEACHER, 0)["public"][:, 0] == 64).all()


def test_what_is_there_is_read_and_a_reading_bench_computes_nothing(load, monkeypatch):
    news, pairs = load(), [("bag;cosine", 0), (chapter.TOKENS, 0), (chapter.TFIDF_BEFORE, 0)]
    reading = News(news.bench.reading())
    reading.prepare(pairs)
    with pytest.raises(NotComputed):
        reading.embed("bag;cosine", 0)
    news.prepare(pairs)
    monkeypatch.setattr(DistilledStudent, "_trained", property(lambda _: pytest.fail("again")))
    load().prepare(pairs)
    for pair in pairs:
        first, second = (each.embed(*pair) for each in (news, reading))
        assert first.keys() == second.keys() == {"train", "public", "private", "rated"}
        assert all(abs(first[use] - second[use]).max() == 0 for use in first)
    with pytest.raises(NotComputed):
        reading.embed("bag;cosine", 1)


@pytest.mark.parametrize("model", ["BiGRU;attentive;cosine", "LSTM+2 linear+dropout;complex;α=0.5"])
def test_a_student_gives_the_same_bytes_whoever_made_its_teachers_rows(load, model):
    """It may be the first that needs them, and loading a teacher draws random numbers."""
    first, later = load("first"), load("later")
    later.prepare([("CNN-1;MSE", 0), ("bag;triplet", 0)])
    runs = ((first, 3), (later, 3), (later, 4))
    one, again, other = (news.embed(model, seed)["public"].tobytes() for news, seed in runs)
    assert one == again != other


def test_jobs_travel(load, monkeypatch):
    jobs, news = [], load()
    monkeypatch.setattr(chapter, "run_jobs", lambda given, _: jobs.extend(given))
    news.prepare([(model, 9) for model in [*STUDENTS, chapter.TEACHER]])
    assert [label for label, *_ in jobs] == [*(f"{model}, seed 9" for model in STUDENTS), "SBERT"]
    for _, function, (model, parts) in pickle.loads(pickle.dumps(jobs)):
        function(model, parts)
    jobs.clear()
    news.prepare([(model, 9) for model in STUDENTS])
    assert not jobs


def test_models_that_embed_without_training(load):
    news = load()
    table = FakeSBERT(0).model.weight.numpy()
    words = [min(len(text.split()), 46) for text in news.clustered["rated"]]
    means = [table[5 : 5 + count].mean(0) for count in words]  # without special tokens
    np.testing.assert_allclose(news.embed(chapter.TOKENS, 0)["rated"], means, rtol=1e-5)
    assert len(np.unique(news.embed(chapter.ONE, 0)["public"])) == 1
    own, before = (news.embed(model, 0) for model in (chapter.TFIDF, chapter.TFIDF_BEFORE))
    assert own["public"].shape[1] != own["private"].shape[1]  # each is fitted to its own texts
    assert before["public"].shape[1] == before["private"].shape[1]
    assert np.isnan(news.measure_size(chapter.TFIDF)) and news.measure_size(chapter.TOKENS) > 0


def tune(news, epochs):
    """The mean loss after a tuning, and the weights as bytes."""
    teacher = news.teacher
    encoder = teacher.untuned.sbert
    torch.manual_seed(tuning.SEED)
    sbert = tuning.TunedSBERT(encoder)
    tuning.tune(sbert, teacher.documents, teacher.triplets, epochs)
    vectors = torch.from_numpy(sbert.encode(teacher.documents))
    loss = triplet(*vectors[teacher.triplets].unbind(1)).mean().item()
    return loss, b"".join(values.numpy().tobytes() for values in sbert.model.state_dict().values())


def test_the_loss_falls_and_a_second_run_gives_the_same_bytes(own, reports):
    loss, weights = tune(own(reports), 6)
    assert loss < 0.5 * tune(own(reports), 0)[0]
    assert tune(own(reports), 6) == (loss, weights)


def test_a_vector_is_the_mean_of_the_layer_over_the_real_tokens(own, reports):
    teacher = tuning.TunedSBERT(own(reports).untuned.sbert)
    texts = ["One.", "A text of several more words than the other one."]
    vectors = teacher.encode(texts)
    assert vectors.shape == (2, 256) and vectors.dtype == np.float32
    with torch.no_grad():  # one is padded beside a longer text
        np.testing.assert_allclose(teacher.embed(texts).numpy(), vectors, atol=1e-6)
        for text, vector in zip(texts, vectors, strict=True):
            ids = torch.tensor([teacher.tokenizer(text)["input_ids"]])
            layer = teacher.model.news_head(teacher.model(ids).last_hidden_state)[0].mean(0)
            np.testing.assert_allclose(layer / layer.norm(), vector, atol=1e-6)


def test_no_tested_text_or_label_reaches_the_tuned_teacher(own, reports):
    before = own(reports).teacher
    assert {text.split()[0] for text in before.documents} == {"fire"}  # topic 12 trains
    swap = {"15_3": "15_4", "15_4": "15_3", "18_3": "18_4"}
    for row in reports[6:]:
        row["text"] = f"other words {row['id']} altogether"
        row["label"] = (
            swap.get(row["label"], row["label"]) if row["id"][-1] == "2" else row["label"]
        )
    after = own(reports).teacher
    assert after.product.key == before.product.key and after.documents == before.documents
    assert (after.triplets == before.triplets).all()
    reports[0]["text"] += " and more"
    assert own(reports).teacher.product.key != before.product.key


def test_the_tuned_teacher_is_kept_and_teaches(own, reports, monkeypatch):
    student = "BiGRU+1 linear;attentive;cosine"
    news = own(reports, tuned_teacher=True)
    for model, dim in ((chapter.TEACHER, 256), (chapter.UNTUNED, 384), (student, 256)):
        assert news.embed(model, 0)["public"].shape == (6, dim)
    head = 4 * (384 * 256 + 256) / 2**20  # the layer that tuning adds
    sizes = [news.measure_size(model) for model in (chapter.TEACHER, chapter.UNTUNED)]
    assert sizes[0] - sizes[1] == pytest.approx(head, rel=1e-6)
    monkeypatch.setattr(tuning, "tune", lambda *_: pytest.fail("tuned again"))
    again = News(news.bench)
    vectors = again.teacher.encode(again.sides["train"].texts)
    np.testing.assert_allclose(vectors, news.embed(chapter.TEACHER, 0)["train"], atol=1e-5)
    assert models.read_sizes(own(reports, tuned_teacher=False).teacher, 1).output == 384
