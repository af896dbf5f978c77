"""From a label to a record: what is computed, once, and what survives a kill."""

import os
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import torch
from joblib.externals import loky
from numpy.testing import assert_array_equal

from lib.config import paths, profiles
from lib.data.files import write_lines
from lib.distillation.variants import CONTEXTUAL_TEACHERS, LSA
from lib.experiments.bench import Bench
from lib.experiments.models import hash_model
from lib.experiments.students import Base, TrainedStudent, share_layers
from lib.store import Store
from lib.student import masked_words
from tests.student.tiny import make_student

CONTEXTUAL = "cosine;100d;S:768x100;C:-"
MODELS = ("Longformer", "cosine", "MSE")


def test_a_student_in_the_same_folder_is_another_model(tmp_path):
    student, folder = make_student(tmp_path), tmp_path / "out"
    section, seen = profiles.load("smoke").student, []
    changes = {"base": "longformer", "model": str(folder), "max_positions": 4, "layers": None}
    changes["window"] = student.config.attention_window[0]
    section = section.model_copy(update=changes)
    for _ in range(2):
        student.save(folder)
        vectors = share_layers(section).encode(["w1 w2"])
        np.testing.assert_array_equal(vectors, student.encode(["w1 w2"]))
        seen.append((hash_model(str(folder)), vectors.tolist()))
        with torch.no_grad():
            student.embeddings.LayerNorm.weight *= torch.arange(1, 33)
    assert seen[0][0] != seen[1][0] and seen[0][1] != seen[1][1]
    base = Base(Store(tmp_path / "store"), section, "fp32", [], [], None)
    assert len(base.tokens(["w1 w2 w3 w4"])["ids"][0]) == 4  # as when it embeds


def test_a_student_is_the_one_that_the_profile_describes(tmp_path):
    make_student(tmp_path).save(tmp_path / "out")
    changes = {"base": "longformer", "model": str(tmp_path / "out"), "layers": None}
    section = profiles.load("smoke").student.model_copy(update=changes)
    for wrong in ({"window": 64}, {"layers": (0,)}):
        with pytest.raises(ValueError, match="needs layers null, window"):
            share_layers(section.model_copy(update=wrong))
    for revision in (None, "main"):
        moving = {"model": "owner/name", "revision": revision}
        with pytest.raises(ValueError, match=f"needs a revision of 40 digits, not {revision}"):
            share_layers(section.model_copy(update=moving))


def fail(*_, **__):
    raise AssertionError("computed again")


@pytest.mark.parametrize("section", ["corpus", "tasks"])
def test_what_decides_texts_is_not_changed_behind_what_was_read(make_bench, section):
    with pytest.raises(ValueError, match=f"{section} is read already"):
        make_bench().changed(section)


def test_a_document_in_another_folder_draws_another_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(Bench, "tasks", {})
    monkeypatch.setattr(Bench, "roots", [tmp_path])
    folders = [{"folder": name, "share": 0.5} for name in "ab"]
    overrides = {"corpus.folders": folders, "corpus.validation_documents": 1}
    overrides |= {"corpus.train_documents": 3, "training.documents": 3, "final.documents": 3}
    drawn, rows = [], [{"id": f"{n}", "text": f"text {n}"} for n in range(8)]
    for first in (4, 6):
        for name, part in (("a", rows[:first]), ("b", rows[first:])):
            write_lines(tmp_path / name / "documents.jsonl", part)
        bench = Bench(profiles.load("smoke", overrides=overrides), Store(tmp_path / "store"))
        drawn.append([document.id for document in bench.corpus.train])
    assert drawn == [["4", "1", "5"], ["6", "1", "7"]]


def test_a_second_run_reads(make_bench):
    bench = make_bench()
    first = bench.run(MODELS, seeds=[0])
    second = make_bench().reading().run(MODELS, seeds=[0])
    pd.testing.assert_frame_equal(first, second)
    assert len(first) == 3 * len(bench.classifications)
    groups = first.set_index("task").loc["OC", "groups"].iloc[0]
    assert {*groups.ravel()} <= {*bench.tasks["OC"].groups.values()} and groups.shape[1] == 2


def test_a_record_is_of_its_model_its_seed_and_so_many_labels(make_bench, monkeypatch):
    def judge(models, examples, *_):
        scores, given = np.zeros(len(examples.tested)), len(examples.parts[0][0])
        return [{"accuracy": n + rows[0][0] + given, "scores": scores} for _, n, rows in models]

    monkeypatch.setattr("lib.evaluation.readouts.judge_models", judge)
    bench = make_bench()
    table = bench.run(MODELS, seeds={"Longformer": [1, 2]}, limit=10).query("task == 'IMDB'")
    text = bench.examples("IMDB", "validation").texts[:1]
    first = [bench.model(name).embed(text)[0][0] for name in table["model"]]
    assert table["value"].tolist() == pytest.approx([*table["seed"] + first + 10], abs=1e-4)


def test_retrieval_ranks_as_far_as_asked(make_bench):
    tops = {"none": None, "two": 2, "all": 10**6, "a share": 0.05}
    rows = make_bench().retrieve(["TF-IDF"], seeds=[0], tops=tops).set_index("readout")
    none, two, whole, share = (rows.loc[name, ["value", "chance"]].to_numpy() for name in tops)
    np.testing.assert_allclose(whole, none)
    assert (two != none).all() and (share != none).all() and (share != two).all()


def test_another_readout_and_another_task_train_nothing(make_bench, monkeypatch):
    monkeypatch.setattr(TrainedStudent, "train", fail)
    bench = make_bench()
    assert {*bench.with_readout("none").run(MODELS, seeds=[0])["readout"]} == {"none"}
    more = bench.profile.tasks.model_dump(mode="json")["folders"]
    ninth = {"folder": "sentences/sentiment", "folds": 3}
    extended = make_bench(tasks__folders={**more, "NINTH": ninth})
    assert "NINTH" in {*extended.run(MODELS, seeds=[0])["task"]}


@pytest.mark.parametrize("label", ["Longformer", "cosine", "SBERT"])
def test_one_text_more_computes_that_text(make_bench, monkeypatch, label):
    bench, asked = make_bench(), []
    model = bench.model(label)
    known = [*bench.held_out][:3]
    before = model.embed(known)[:]
    encode = type(model).encode

    def remember(self, texts):
        asked.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(type(model), "encode", remember)
    after = model.embed([*known, "a text more"])[:]
    assert asked == ["a text more"]
    assert_array_equal(after[:3], before)


@pytest.mark.parametrize("label", ["Longformer", "SBERT", "SBERT, mean of chunks", "TF-IDF"])
def test_what_is_no_list_of_texts_is_refused(make_bench, label):
    model, texts = make_bench().model(label), ["one river", "two rivers"]
    for wrong in (pd.DataFrame({"id": [1, 2], "text": texts}), dict.fromkeys(texts), texts[0]):
        for call in (model.encode, model.embed):
            with pytest.raises(ValueError, match="expected a list of texts"):
                call(wrong)


def test_one_failing_model_does_not_stop_the_others(make_bench, monkeypatch):
    train = TrainedStudent.train

    def fail_for_one(self, *rest):
        if self.variant.structural == "contrastive":
            raise ValueError("broken on purpose")
        return train(self, *rest)

    monkeypatch.setattr(TrainedStudent, "train", fail_for_one)
    bench = make_bench()
    with pytest.warns(UserWarning, match="contrastive, seed 0 failed"), pytest.raises(ValueError):
        bench.run(["contrastive", "max-margin;MSE;γ=1.0"], seeds=[0])
    assert bench.store.has(bench.model("max-margin;MSE;γ=1.0").weights)


def test_what_takes_longest_begins_first(make_bench, monkeypatch):
    queued = []
    monkeypatch.setattr("lib.experiments.bench.run_jobs", lambda jobs, _: queued.extend(jobs))
    bench, labels = make_bench(), ["cosine", "DM;1024;stem;2", "DM;100;stem;2+DBOW;100;stem;2"]
    bench.prepare([bench.model(label) for label in labels], ["a text"])
    assert [job[0][:7] for job in queued] == ["DBOW;10", "DM;1024", "DM;100;", "cosine,"]


def test_a_student_has_weights_of_its_own_and_the_dropout_of_its_training(make_bench):
    bench = make_bench(student__language_model=None, training__dropout=0.3)
    shared = share_layers(bench.profile.student)
    student = bench.model("cosine", 0)._build()
    drops = [part.p for part in student.modules() if isinstance(part, torch.nn.Dropout)]
    assert {*drops} == {0.3} and shared.embeddings.dropout.p == 0.1
    before = shared.embeddings.LayerNorm.weight.clone()
    torch.nn.init.zeros_(student.embeddings.LayerNorm.weight)
    assert torch.equal(shared.embeddings.LayerNorm.weight, before)


def test_the_base_is_what_guessing_words_left(make_bench, monkeypatch):
    monkeypatch.setattr(masked_words, "train_masked_words", fail)
    bench = make_bench()
    layers = share_layers(bench.profile.student).state_dict()
    started = bench.base.load().state_dict()
    moved = {name for name in layers if not np.array_equal(started[name], layers[name])}
    assert {*layers} - moved == {"embeddings.word_embeddings.weight"}
    assert len(bench.base.outcome()["loss"]) == 13  # batches of 8
    plain = make_bench(student__language_model=None)
    assert plain.base.outcome() is None
    for name, value in plain.base.load().state_dict().items():
        assert_array_equal(value, layers[name])


def test_lsa_teaches_in_the_width_of_a_paragraph_vector(make_bench):
    texts = [*make_bench().held_out]
    rows = make_bench().contextual(LSA).embed(texts)[:]
    assert rows.shape == (len(texts), round(1024 * make_bench().profile.width))
    few = make_bench(contextual_teacher__documents=20).contextual(LSA).embed(texts)[:]
    assert few.shape == rows.shape and not few[:, 20:].any() and few[:, :20].any()


def test_a_compound_is_its_parts_side_by_side(make_bench):
    bench, label = make_bench(), CONTEXTUAL_TEACHERS["PV;2048d"]
    texts = [*bench.held_out]
    parts = [bench.contextual(part).embed(texts)[:] for part in (*label.split("+"), LSA)]
    assert_array_equal(bench.contextual(f"{label}+{LSA}").embed(texts)[:], np.hstack(parts))


def test_chunks_and_lsa_count_the_same(make_bench):
    bench = make_bench()
    texts = [*bench.held_out]
    names = ("chunks + LSA", "SBERT, mean of chunks", "LSA")
    joined, *parts = (np.asarray(bench.model(name).embed(texts)) for name in names)
    cosines = [p @ p.T for p in (p / np.linalg.norm(p, axis=1, keepdims=True) for p in parts)]
    assert joined @ joined.T == pytest.approx(sum(cosines) / 2, abs=1e-5)


@pytest.mark.parametrize("label", ["Longformer;cut", "LSA;cut", "cosine;cut"])
def test_a_cut_model_reads_no_further_than_the_teacher(make_bench, label):
    bench = make_bench()
    long = max(bench.held_out, key=len)
    (short,) = bench.teacher.cut([long])
    assert len(short) < len(long)
    cut, whole = (bench.model(each) for each in (label, label.removesuffix(";cut")))
    vectors = [np.asarray(each.encode([text]))[0] for each, text in ((cut, long), (whole, short))]
    assert vectors[0] == pytest.approx(vectors[1], abs=2e-2)
    assert not np.allclose(vectors[0], np.asarray(whole.encode([long]))[0], atol=2e-2)


def test_controls_get_each_others_rows_and_are_measured_on_their_own(make_bench, monkeypatch):
    read = []

    def measure(objective, rows, data, batch_size):
        read.append(data.contextual[:])
        return 0.0, 0.0, 0.0

    def train(student, objective, data, *_, **__):
        read.append(data.contextual[:])
        raise InterruptedError

    monkeypatch.setattr("lib.distillation.measures.measure", measure)
    monkeypatch.setattr("lib.distillation.training.distill", train)
    for kind in ("own", "dealt"):
        with pytest.raises(InterruptedError):
            make_bench(training__contextual_rows=kind).model(CONTEXTUAL).train()
    held_out, own, held_out_of_controls, dealt = read
    assert (own != dealt).any(axis=1).all(), "no text has its own row"
    assert_array_equal(np.sort(own, axis=0), np.sort(dealt, axis=0))
    assert own.mean(axis=0) == pytest.approx(0, abs=1e-5)
    assert abs(held_out.mean(axis=0)).max() > 1e-3, "standardised as the training documents are"
    assert_array_equal(held_out, held_out_of_controls)
    bench, labels = make_bench(), (CONTEXTUAL, f"{CONTEXTUAL};mse")
    orders = [bench.model(each).prepare_rows(bench.documents, dealt=True) for each in labels]
    assert not np.array_equal(*orders), "each variant has an order of its own"


def test_a_contextual_student_is_measured_before_and_after(make_bench):
    history = make_bench().model(CONTEXTUAL).outcome()
    assert history["watched"][0, 0] == 0 and history["watched"][-1, 0] == len(history["loss"])
    assert history["watched"].shape[1] == 4


def test_models_travel_without_what_they_loaded(make_bench):
    base: Base = make_bench().base
    vectors = base.encode(["one text", "another"])
    sent = pickle.dumps(base)
    assert_array_equal(pickle.loads(sent).encode(["one text", "another"]), vectors)
    assert len(sent) < 200_000
    fresh = make_bench().base
    assert_array_equal(fresh.embed_and_unload(["one text", "another"])[:], vectors)
    assert not {*vars(fresh)} & {"_loaded", "layers"}


RUN = """
import sys
from lib.config import environment
environment.set_process_environment(offline=True)
from lib.config import profiles
from lib.experiments.bench import Bench
bench = Bench(profiles.load("smoke", overrides={"tasks.limit": 60}))
bench.run(sys.argv[1:], seeds=[0])
"""


@pytest.mark.slow
def test_a_run_that_is_killed_twice_ends_with_the_same_records(make_bench, tmp_path, monkeypatch):
    """We kill two workers, and then one process, each after it adds a file. Two workers finish."""
    root, models = tmp_path / "artifacts", ("Longformer", "cosine", CONTEXTUAL)
    monkeypatch.setenv("PYTHONPATH", str(paths.ROOT))

    def count():
        while True:
            try:
                return sum(1 for path in root.rglob("*") if path.suffix in (".npz", ".arrow"))
            except FileNotFoundError:  # a folder went while it was read
                continue

    kept, command = [0], [sys.executable, "-W", "ignore", "-c", RUN, *models]
    for processes in ("2", "1"):
        own = {"THESIS_JOBS": processes, "THESIS_ARTIFACTS": str(root)}
        run = subprocess.Popen(command, env=os.environ | own, start_new_session=True)
        while count() <= kept[-1] and run.poll() is None:
            time.sleep(0.05)
        os.killpg(run.pid, signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
        kept.append(count())
    assert kept == sorted({*kept})
    undisturbed = make_bench()
    expected = undisturbed.run(models, seeds=[0])
    monkeypatch.setenv("THESIS_JOBS", "2")
    monkeypatch.setenv("THESIS_ARTIFACTS", str(root))
    given = Bench(undisturbed.profile).run(models, seeds=[0])
    loky.get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)
    pd.testing.assert_frame_equal(given, expected)
    assert [path.name for path in (root / "store").rglob(".*")] == []
