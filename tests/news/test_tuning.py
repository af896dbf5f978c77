"""The tuned teacher: it learns the train topics' events, repeats bit for bit, and sees no other side."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.config import profiles
from lib.experiments import models
from lib.news import distil, embedders, events, inputs, results, tuning
from lib.news.students import Student
from lib.store.records import store

TOPICS = {12: "fire smoke forest", 15: "court judge trial", 18: "match goal team"}
PLACES = ("Oslo harbour", "Lima airport", "Cairo bridge")


def documents(topics):
    """Documents of two events a topic that differ by their place alone, three reports of each."""
    rows = []
    for topic, event, report in itertools.product(topics, range(2), range(3)):
        words = f"{TOPICS[topic]} in {PLACES[event]}, report {report} of the day"
        rows.append(
            {"id": f"{topic}_{event}{report}", "text": words, "label": f"{topic}_{event + 3}"}
        )
    return rows


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Write a folder of events in the format of `lab`; returns a function (rows) -> profile."""
    monkeypatch.setenv("THESIS_DATA", str(tmp_path))
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setattr(inputs, "PIECE", 20)

    def write(rows, **news):
        task = tmp_path / "own/tasks/events"
        task.mkdir(parents=True, exist_ok=True)
        texts = [{"id": row["id"], "text": row["text"]} for row in rows]
        labels = [{"id": row["id"], "label": row["label"]} for row in rows]
        background = [
            {"id": f"text {n}", "text": f"a text number {n} about nothing"} for n in range(12)
        ]
        for path, lines in (
            (tmp_path / "own/documents.jsonl", texts + background),
            (task / "clusters.jsonl", labels),
        ):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        changes = {
            "events": "own/events",
            "texts": ["own"],
            "documents": 8,
            "words": 6,
            "epochs": 1,
        } | news
        settings = {"corpus.folders": ["own"], "width": 0.1} | {
            f"news.{key}": value for key, value in changes.items()
        }
        return profiles.load("lab", overrides=settings)

    return write


def tuned(profile, **options):
    encoder = inputs._encoder(profile, 32)
    torch.manual_seed(tuning.SEED)
    teacher = tuning.TunedTeacher(encoder)
    return teacher, tuning.tune(teacher, events.read(profile)["train"], **options)


def weights_of(teacher):
    return b"".join(values.numpy().tobytes() for values in teacher.model.state_dict().values())


def test_the_loss_falls_and_a_second_run_gives_the_same_bytes(own):
    profile = own(documents(TOPICS))
    teacher, history = tuned(profile, epochs=6)
    assert history[-1] < 0.5 * history[0]
    again, second = tuned(profile, epochs=6)
    assert second == history and weights_of(again) == weights_of(teacher)


def test_a_vector_is_the_mean_of_the_layer_over_the_real_tokens(own):
    profile = own(documents(TOPICS))
    teacher = tuning.TunedTeacher(inputs._encoder(profile, 32))
    texts = ["One.", "A text of several more words than the other one."]
    vectors = teacher.encode(texts)
    assert vectors.shape == (2, 256) and vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    with torch.no_grad():
        assert np.allclose(
            teacher.embed(texts).numpy(), vectors, atol=1e-6
        )  # padded beside a longer text
        for text, vector in zip(texts, vectors, strict=True):
            ids = torch.tensor([teacher.tokenizer(text)["input_ids"]])
            layer = teacher.model.news_head(teacher.model(ids).last_hidden_state)[0].mean(0)
            assert np.allclose(layer / layer.norm(), vector, atol=1e-6)


def test_the_tuned_teacher_computes_where_its_encoder_does(own, monkeypatch):
    """Its layer, or a batch, left on the CPU would be an error, as it would with a GPU."""
    monkeypatch.setattr(models, "device", lambda: "meta")
    teacher = tuning.TunedTeacher(inputs._encoder(own(documents(TOPICS)), 32))

    def words(model, input_ids, **_):
        return SimpleNamespace(last_hidden_state=model.get_input_embeddings()(input_ids))

    monkeypatch.setattr(
        type(teacher.model), "forward", words
    )  # BERT's own looks into its mask, and meta has no values
    vectors = teacher.embed(["One.", "A text of several more words than the other one."])
    assert vectors.shape == (2, 256) and vectors.device.type == "meta"


def test_students_are_trained_on_the_gpu_and_timed_on_the_processor(own, monkeypatch):
    profile = own(documents(TOPICS)).changed("news", tuned_teacher=False)
    devices, moved = [], []
    monkeypatch.setattr(embedders, "models", SimpleNamespace(device=lambda: "meta"))
    monkeypatch.setattr(
        distil,
        "train",
        lambda student, *_, **__: devices.append(student.embedding.weight.device.type),
    )
    monkeypatch.setattr(Student, "encode", lambda self, rows: np.zeros((len(rows), 2)))
    embedders._student("CNN-1;MSE", 0, profile)
    assert devices == ["meta"]
    teacher = SimpleNamespace(model=SimpleNamespace(to=moved.append), encode=lambda texts: None)
    inputs.inputs_of(profile)
    monkeypatch.setattr(inputs, "reader", lambda *_: teacher)
    results.times(profile.model_copy(update={"only": "bag;cosine"}))
    assert moved == ["cpu"]


def test_what_a_gpu_computed_is_not_what_a_processor_did(own, monkeypatch):
    profile = own(documents(TOPICS))
    side = events.read(profile)["train"]
    on_cpu = inputs.recipe_of("news_student", profile, []), tuning.recipe(profile, side)
    monkeypatch.setattr(models, "device", lambda: "cuda")
    on_gpu = inputs.recipe_of("news_student", profile, []), tuning.recipe(profile, side)
    assert all(one["code"] != other["code"] for one, other in zip(on_cpu, on_gpu, strict=True))


def test_no_tested_text_label_or_order_of_it_reaches_the_tuned_weights(own):
    rows = documents(TOPICS)
    profile = own(rows)
    side = events.read(profile)["train"]
    assert {text.split()[0] for text in side.texts} == {
        "fire"
    }  # topic 12 trains, 15 is public, 18 private
    key = tuning.recipe(profile, side)
    first, _ = tuned(profile, epochs=1)
    swap = {"15_3": "15_4", "15_4": "15_3", "18_3": "18_4"}
    for row in rows[6:]:
        row["text"] = f"other words {row['id']} altogether"
        row["label"] = (
            swap.get(row["label"], row["label"]) if row["id"].endswith("2") else row["label"]
        )
    profile = own(rows)
    changed = events.read(profile)
    assert tuning.recipe(profile, changed["train"]) == key
    assert (
        "other words" in changed["public"].texts[0] and "other words" in changed["private"].texts[0]
    )
    assert weights_of(tuned(profile, epochs=1)[0]) == weights_of(first)
    rows[0]["text"] += " and more"
    profile = own(rows)
    assert tuning.recipe(profile, events.read(profile)["train"]) != key
    assert weights_of(tuned(profile, epochs=1)[0]) != weights_of(first)


def test_lab_scores_the_tuned_teacher_beside_the_untuned_one(own, monkeypatch):
    monkeypatch.setattr(
        embedders.executors, "submit", lambda tasks, *_: [call(*given) for call, given in tasks]
    )
    monkeypatch.setattr(tuning, "EPOCHS", 1)
    profile = own(documents(TOPICS)).model_copy(
        update={"only": "BiGRU+1 linear;attentive;cosine", "seeds": (0,)}
    )
    scores = results.records(profile)
    assert embedders.UNTUNED in set(scores["model"]) and embedders.TEACHER in set(scores["model"])
    assert embedders.of(embedders.TEACHER, 0, profile)["public"].shape == (6, 256)
    assert embedders.of(embedders.UNTUNED, 0, profile)["public"].shape == (6, 384)
    assert (
        inputs.inputs_of(profile)["tokens"].shape[1] == 384
        and inputs.inputs_of(profile)["output"] == 256
    )
    assert embedders.of("BiGRU+1 linear;attentive;cosine", 0, profile)["public"].shape == (6, 256)
    table = results.table(8, results.summary(scores)).set_index("model")
    assert table.loc[embedders.UNTUNED, "f1_public"] > 0
    head = 4 * (384 * 256 + 256) / 2**20  # the layer that tuning adds
    assert table.loc["teacher", "size_mb"] - table.loc[
        embedders.UNTUNED, "size_mb"
    ] == pytest.approx(head, rel=1e-6)
    side = events.read(profile)["train"]
    assert store().has(tuning.recipe(profile, side))
    monkeypatch.setattr(tuning, "tune", lambda *_: pytest.fail("tuned again"))
    loaded = tuning.load(inputs._encoder(profile, 384), profile, side)
    vectors = embedders.of(embedders.TEACHER, 0, profile)["train"]
    assert np.allclose(loaded.encode(list(side.texts)), vectors, atol=1e-5)


def test_the_setting_alone_decides_whether_the_teacher_is_tuned(own):
    own(documents(TOPICS))
    chosen = {
        name: profiles.load(name).news.tuned_teacher
        for name in ("mini", "smoke", "lab", "lab_gpu", "thesis")
    }
    assert chosen == {"mini": False, "smoke": False, "lab": True, "lab_gpu": True, "thesis": False}
    for wanted in (True, False):
        profile = own(documents(TOPICS), tuned_teacher=wanted)
        assert isinstance(inputs.reader(profile, 32), tuning.TunedTeacher) == wanted
        assert (embedders.UNTUNED in results.models(profile)) == wanted


def test_a_side_without_a_triplet_is_one_line():
    side = events.Side(
        ("a", "b"), ("", ""), np.array([[0, 1]]), np.array([True]), np.zeros(2, int), True
    )
    encoder = inputs._encoder(profiles.load("mini"), 32)
    with pytest.raises(ValueError, match="there is no triplet to tune on"):
        tuning.tune(tuning.TunedTeacher(encoder), side)
