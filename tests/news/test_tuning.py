"""The tuned teacher: it learns the train topics' events, repeats itself, sees no other side."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.experiments.bench import Bench
from lib.news import bench as news_bench
from lib.news import distil, embedders, results, tuning
from lib.news.bench import NewsBench
from lib.news.students import NewsStudent
from lib.news.teacher import TeacherSource, TunedTeacher

TOPICS = {12: "fire smoke forest", 15: "court judge trial", 18: "match goal team"}
PLACES = ("Oslo harbour", "Lima airport", "Cairo bridge")


def documents(topics):
    """Documents of two events a topic that differ by their place alone, three reports of each."""
    rows = []
    for topic, event, report in itertools.product(topics, range(2), range(3)):
        words = f"{TOPICS[topic]} in {PLACES[event]}, report {report} of the day"
        label = f"{topic}_{event + 3}"
        rows.append({"id": f"{topic}_{event}{report}", "text": words, "label": label})
    return rows


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a folder of events in the format of `lab`; a function (rows) -> NewsBench."""
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))

    def write(rows, profile=(), **news):
        task = tmp_path / "own/tasks/events"
        task.mkdir(parents=True, exist_ok=True)
        texts = [{"id": row["id"], "text": row["text"]} for row in rows]
        texts += [{"id": f"text {n}", "text": f"a text number {n} of nothing"} for n in range(12)]
        labels = [{"id": row["id"], "label": row["label"]} for row in rows]
        for path, lines in (
            (tmp_path / "own/documents.jsonl", texts),
            (task / "clusters.jsonl", labels),
        ):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        changes = {"events": "own/events", "texts": ["own"], "documents": 8, "words": 6}
        changes |= {"epochs": 1} | news
        settings = {"corpus.folders": ["own"], "width": 0.1} | dict(profile)
        settings |= {f"news.{key}": value for key, value in changes.items()}
        return NewsBench(Bench.load("lab", overrides=settings))

    return write


def tuned(news, **options):
    teacher = TunedTeacher(untuned(news))
    triplets = news._tuning_triplets
    return teacher, tuning.tune(teacher, news.sides["train"].texts, triplets, **options)


def untuned(news):
    torch.manual_seed(tuning.SEED)
    return TeacherSource(news.profile.structural_teacher, news.bench.device).load(32)


def read_weights(teacher):
    return b"".join(values.numpy().tobytes() for values in teacher.model.state_dict().values())


def test_the_loss_falls_and_a_second_run_gives_the_same_bytes(own):
    news = own(documents(TOPICS))
    teacher, history = tuned(news, epochs=6)
    assert history[-1] < 0.5 * history[0]
    again, second = tuned(news, epochs=6)
    assert second == history and read_weights(again) == read_weights(teacher)


def test_a_vector_is_the_mean_of_the_layer_over_the_real_tokens(own):
    teacher = TunedTeacher(untuned(own(documents(TOPICS))))
    texts = ["One.", "A text of several more words than the other one."]
    vectors = teacher.encode(texts)
    assert vectors.shape == (2, 256) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    with torch.no_grad():  # one is padded beside a longer text
        assert np.allclose(teacher.embed(texts).numpy(), vectors, atol=1e-6)
        for text, vector in zip(texts, vectors, strict=True):
            ids = torch.tensor([teacher.tokenizer(text)["input_ids"]])
            layer = teacher.model.news_head(teacher.model(ids).last_hidden_state)[0].mean(0)
            assert np.allclose(layer / layer.norm(), vector, atol=1e-6)


def test_the_tuned_teacher_computes_where_its_encoder_does(own, monkeypatch):
    """Its layer, or a batch, left on the CPU would be an error, as it would with a GPU."""
    encoder = untuned(own(documents(TOPICS)))
    encoder.model.to("meta")
    teacher = TunedTeacher(encoder)

    def look_up(model, input_ids, **_):
        return SimpleNamespace(last_hidden_state=model.get_input_embeddings()(input_ids))

    # BERT's own looks into its mask, and meta has no values.
    monkeypatch.setattr(type(teacher.model), "forward", look_up)
    vectors = teacher.embed(["One.", "A text of several more words than the other one."])
    assert vectors.shape == (2, 256) and vectors.device.type == "meta"


def test_students_are_trained_on_the_gpu_and_timed_on_the_processor(own, monkeypatch):
    news = own(documents(TOPICS), tuned_teacher=False)
    devices, moved = [], []

    def look(student, *_, **__):
        devices.append(student.embedding.weight.device.type)
        return [0.0]

    monkeypatch.setattr(news_bench.models, "find_device", lambda: "meta")
    news.bench.__dict__["device"] = "cpu"  # of the teacher
    monkeypatch.setattr(distil, "train", look)
    monkeypatch.setattr(NewsStudent, "encode", lambda self, rows: np.zeros((len(rows), 2)))
    news.embed_model("CNN-1;MSE", 0)
    assert devices == ["meta"]
    teacher = SimpleNamespace(model=SimpleNamespace(to=moved.append), encode=lambda texts: None)
    monkeypatch.setattr(news, "load_teacher", lambda: teacher)
    news.measure_times(["bag;cosine"])
    assert moved == ["cpu"]


def test_no_tested_text_label_or_order_of_it_reaches_the_tuned_weights(own):
    rows = documents(TOPICS)
    news = own(rows)
    words = {text.split()[0] for text in news.sides["train"].texts}
    assert words == {"fire"}  # topic 12 trains, 15 is public, 18 private
    key, first = news._tuned_product.key, read_weights(tuned(news, epochs=1)[0])
    swap = {"15_3": "15_4", "15_4": "15_3", "18_3": "18_4"}
    for row in rows[6:]:
        row["text"] = f"other words {row['id']} altogether"
        if row["id"].endswith("2"):
            row["label"] = swap.get(row["label"], row["label"])
    news = own(rows)
    assert all("other words" in news.sides[name].texts[0] for name in ("public", "private"))
    assert news._tuned_product.key == key
    assert read_weights(tuned(news, epochs=1)[0]) == first
    rows[0]["text"] += " and more"
    news = own(rows)
    assert news._tuned_product.key != key
    assert read_weights(tuned(news, epochs=1)[0]) != first


def test_lab_scores_the_tuned_teacher_beside_the_untuned_one(own, monkeypatch):
    chosen = "BiGRU+1 linear;attentive;cosine"
    news = own(documents(TOPICS), {"only": chosen, "seeds": [0]})
    scores = results.make_records(news)
    assert {embedders.UNTUNED, embedders.TEACHER} <= set(scores["model"])
    for model, dim in ((embedders.TEACHER, 256), (embedders.UNTUNED, 384), (chosen, 256)):
        assert news.embed_model(model, 0)["public"].shape == (6, dim)
    assert news.token_embeddings["tokens"].shape[1] == 384
    table = results.make_table(8, results.summarize(scores)).set_index("model")
    assert table.loc[embedders.UNTUNED, "f1_public"] > 0
    head = 4 * (384 * 256 + 256) / 2**20  # the layer that tuning adds
    sizes = table["size_mb"]
    assert sizes["teacher"] - sizes[embedders.UNTUNED] == pytest.approx(head, rel=1e-6)
    monkeypatch.setattr(tuning, "tune", lambda *_: pytest.fail("tuned again"))
    again = NewsBench(news.bench)
    vectors = again.load_teacher().encode(list(again.sides["train"].texts))
    assert np.allclose(vectors, news.embed_model(embedders.TEACHER, 0)["train"], atol=1e-5)


def test_the_setting_alone_decides_whether_the_teacher_is_tuned(own):
    for wanted in (True, False):
        news = own(documents(TOPICS), tuned_teacher=wanted)
        assert isinstance(news.load_teacher(), TunedTeacher) == wanted
        assert (embedders.UNTUNED in results.list_models(news)) == wanted


def test_without_a_triplet_nothing_can_be_tuned():
    with pytest.raises(ValueError, match="no triplet"):
        tuning.tune(SimpleNamespace(model=None), ["a", "b"], np.zeros((0, 3), int))
