"""Names are known before anything is computed; what is there is read; students repeat."""

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.experiments.bench import Bench
from lib.experiments.models import Teacher
from lib.news import chapter
from lib.news.chapter import News
from lib.store import Store
from tests.news.conftest import TINY


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
        return [np.array([1, *range(5, 5 + count), 2], dtype=np.int32) for count in counts]

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


COUNTED = {"news.epochs": 2, "news.rates": {"other": 0.5}, "news.max_tokens": 20, "news.words": 15}
COUNTED |= {"news.documents": 33, "news.tokens": "random", "width": 0.2, "corpus.seed": 7}
# Of another chapter; of pairs and triplets, which it does not learn from.
UNREAD = {"heads.epochs": 1, "news.positives": 0.3, "news.triplets": 9}


def test_settings_name_a_student_before_anything_is_computed(load, monkeypatch, tmp_path):
    monkeypatch.setattr(Teacher, "sbert", property(lambda _: pytest.fail("a teacher is loaded")))
    before = load().model("bag;cosine").product.key
    for name, value in (COUNTED | UNREAD).items():
        after = load(**{name: value}).model("bag;cosine").product.key
        assert (before != after) == (name in COUNTED), name
    assert load().model("bag;cosine", 1).product.key != before
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def test_what_students_learn_from(load):
    """Triplets are capped, and annotated documents are not; windows are cut shorter."""
    few = load(**{"news.triplets": 10})
    for identity, capped in (("LSTM;triplet", True), ("LSTM;MSE;annotated", False)):
        student = few.model(identity)
        assert (sum(map(len, student.examples)) == 10) == capped
        assert student.documents == few.sides["train"].texts  # never of a tested side
    news = load(**{"news.words": 10, "news.max_tokens": 64})
    student = news.model("bag;cosine")  # the last windows are held out
    assert [part.ravel().tolist() for part in student.examples] == [[*range(32)], [32, 33, 34]]
    assert (student.taught.embed(student.documents)[:][:, 0] == 12).all()
    assert (news.embed(chapter.TEACHER)["public"][:, 0] == 64).all()


@pytest.mark.parametrize(
    "model", ["Transformer(1x4);CLS;MSE", "LSTM+2 linear+dropout;complex;α=0.5"]
)
def test_a_student_gives_the_same_bytes_whoever_made_its_teachers_rows(load, model):
    """It may be the first that needs them, and loading a teacher draws random numbers."""
    first, later = load("first"), load("later")
    later.prepare([("CNN-1;MSE", 0), ("bag;triplet", 0)])
    runs = ((first, 3), (later, 3), (later, 4))
    one, again, other = (news.embed(model, seed)["public"].tobytes() for news, seed in runs)
    assert one == again != other


def test_models_that_embed_without_training(load):
    news = load()
    table, texts = FakeSBERT(0).model.weight.numpy(), news.sides["public"].texts
    words = [min(len(text.split()), 22) for text in texts]
    means = [table[5 : 5 + count].mean(0) for count in words]  # without special tokens
    np.testing.assert_allclose(news.embed(chapter.TOKENS)["public"], means, rtol=1e-5)
    assert len(np.unique(news.embed(chapter.ONE)["public"])) == 1
    own, before = (news.embed(model) for model in (chapter.TFIDF, chapter.TFIDF_BEFORE))
    assert own["public"].shape[1] != own["private"].shape[1]  # each is fitted to its own texts
    assert before["public"].shape[1] == before["private"].shape[1]
