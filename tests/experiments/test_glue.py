"""The glue between a profile and the functions that make numbers: what it hands over, without training anything.

`test_glue_mutations` runs these tests against broken copies of the modules named here; so they take no fixtures.
"""

import contextlib
import dataclasses
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse

from lib import losses
from lib.config import paths, profiles
from lib.distillation import training
from lib.distillation.training import History
from lib.distillation.variants import NO_WEIGHTING, parse
from lib.evaluation import baselines, heads
from lib.evaluation.heads import HeadResult
from lib.experiments import (
    accuracies,
    contextual_teacher,
    embeddings,
    keys,
    models,
    runs,
    structural_teacher,
    student_training,
    text_sets,
)
from lib.store.records import store
from lib.tasks import Task

CHANGES = {
    "training.documents": 40,
    "training.batch_size": 4,
    "training.cca_batch_size": 20,
    "training.negatives": 5,
    "training.accumulation": 2,
    "training.learning_rate": 0.03,
    "training.warmup_share": 0.4,
    "training.weight_decay": 0.07,
    "training.clip": 0.9,
    "training.length_bucket": 17,
    "training.max_structural_len": 5,
    "training.gradient_checkpointing": True,
    "training.dropout": 0.25,
    "training.attention_dropout": 0.125,
    "training.precision": "bf16",
    "contextual_teacher.documents": 30,
    "contextual_teacher.epochs": 3,
    "contextual_teacher.seed": 8,
    "contextual_teacher.window": 4,
    "structural_teacher.max_tokens": 100,
    "structural_teacher.batch_size": 7,
    "heads.repeats": 2,
    "heads.weight_decay": 0.3,
    "tasks.limit": 4,
}
PROFILE = profiles.load("smoke", overrides=CHANGES)
CONTEXTUAL = "only-contextual;100d;S:6;C:6"
MASKED = f"{NO_WEIGHTING['cosine']};384;λ=0.5"
# What `fakes` replaces, as it is.
BASE_STUDENT, CLS_STUDENT, TEXTS, TOKEN_IDS = (
    models.base_student,
    models.cls_student,
    text_sets.texts,
    text_sets.token_ids,
)
CONTEXTUAL_EMBEDDINGS, STRUCTURAL_EMBEDDINGS = (
    contextual_teacher.embeddings,
    structural_teacher.embeddings,
)


class Student(torch.nn.Linear):
    """Stands for a student: 6 wide, remembers what was done to it."""

    dim, frozen, kind = 6, False, "mean"

    def freeze_token_embeddings(self):
        self.frozen = True

    def encode(self, token_ids, precision="fp32"):
        return np.full(
            (len(token_ids), self.dim), 0.5 if precision == "fp32" else 2.0, dtype=np.float32
        )


class Zero(torch.nn.Module):
    """A contextual loss that is always 0."""

    def forward(self, student, contextual):
        return torch.zeros(len(student))


def cls(profile):
    student = Student(6, 6)
    student.kind = "cls"
    return student


@contextlib.contextmanager
def fakes():
    """No model, no corpus: documents of 3 or 9 tokens, teachers whose vectors are constants."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("THESIS_ARTIFACTS", folder)
        patch.delenv("WORLD_SIZE", raising=False)
        for name in (
            "student",
            "record",
            "embeddings",
            "tokens",
            "paragraph_vector",
            "structural_teacher",
            "text_set",
        ):
            patch.setattr(keys, name, lambda *_, name=name: {"kind": name})
        patch.setattr(embeddings, "of", lambda *_: {"validation": np.zeros((12, 6), np.float32)})
        sizes = {
            "train": PROFILE.training.documents,
            "validation": 12,
            "halves": 24,
            "tasks": 20,
            "all_tasks": 30,
        }
        patch.setattr(
            text_sets,
            "token_ids",
            lambda name, profile: [[1] * (3, 9)[i % 2] for i in range(sizes[name])],
        )
        patch.setattr(
            text_sets,
            "texts",
            lambda name, profile: [f"{name} {row}" for row in range(sizes[name])],
        )
        patch.setattr(models, "base_student", lambda profile: Student(6, 6))
        patch.setattr(models, "cls_student", cls)

        def structural(name, profile):
            lengths = np.array([(3, 9)[row % 2] for row in range(sizes[name])])
            return {"embeddings": np.full((sizes[name], 6), 1.0, np.float32), "lengths": lengths}

        random = np.random.default_rng(0)
        vectors = {
            name: random.standard_normal((size, 7), dtype=np.float32)
            for name, size in sizes.items()
        }
        patch.setattr(structural_teacher, "embeddings", structural)
        patch.setattr(contextual_teacher, "embeddings", lambda label, name, profile: vectors[name])
        yield patch


def handed_over(label, seed=3, profile=PROFILE, start=None, there=False, **options):
    """What `train_student` gives to `training.distill`, and what it returns. there: a checkpoint."""
    calls = []

    def distill(student, objective, data, **settings):
        calls.append((student, objective, data, settings))
        return History([0.5, 0.25], [(2, 0.1, 0.2)])

    with fakes() as patch:
        patch.setattr(training, "distill", distill)
        if there:
            file = store().path(keys.student(), student_training.CHECKPOINT)
            file.parent.mkdir(parents=True)
            file.touch()
        result = student_training.train_student(parse(label), seed, profile, start, **options)
    ((student, objective, data, settings),) = calls
    return student, objective, data, settings, result


def test_training_gets_what_the_profile_says():
    student, _, data, settings, _ = handed_over("cosine")
    updates = 40 // (4 * 2)
    expected = {
        "seed": 3,
        "batch_size": 4,
        "learning_rate": 0.03,
        "warmup_updates": round(0.4 * updates),
    }
    expected |= {"weight_decay": 0.07, "clip": 0.9, "accumulation": 2, "length_bucket": 17}
    expected |= {
        "checkpoint_every": PROFILE.training.checkpoint_every,
        "watch": None,
        "watch_every": 2,
    }
    assert {name: settings[name] for name in expected} == expected
    assert (
        settings["negatives"] is None and handed_over("max-margin;MSE;γ=1.0")[3]["negatives"] == 5
    )
    assert (
        settings["checkpoint"].match("store/student/*.pt")
        and student.frozen
        and student.gradient_checkpointing
    )
    assert len(data.token_ids) == len(data.lengths) == 40 and data.lengths[:2].tolist() == [3, 9]


def test_a_short_training_keeps_a_checkpoint_only_for_who_waits_for_it():
    """Of five updates, as a checkpoint takes longer than one of them; and goes on from one that is there. Two updates
    of plain CCA read as many documents."""
    every = {count: PROFILE.changed("training", checkpoint_every=count) for count in (4, 5)}
    for label in ("cosine", "only-contextual;100d;S:6;C:6;cca"):
        kept = [
            handed_over(label, profile=profile)[3]["checkpoint"] is not None
            for profile in every.values()
        ]
        assert kept == [True, False]
    assert handed_over("cosine", profile=every[5], on_update=print)[3]["checkpoint"] is not None
    assert handed_over("cosine", profile=every[5], there=True)[3]["checkpoint"] is not None


def test_controls_are_watched_at_the_end_alone():
    assert [handed_over(CONTEXTUAL, parts=parts)[3]["watch_every"] for parts in (4, 1)] == [2, 5]
    parts = []
    with fakes() as patch:
        patch.setattr(
            student_training, "train_student", lambda *_, **options: parts.append(options) or 1 / 0
        )
        patch.setattr(embeddings, "of", lambda *_: {"validation": None})
        for split in ("validation", None):
            with pytest.raises(ZeroDivisionError):
                embeddings._compute(parse(CONTEXTUAL), 0, PROFILE, split)
    assert parts == [{"parts": student_training.WATCHED_PARTS}, {"parts": 1}]


def test_paragraph_vectors_embed_documents_for_longer_trainings_of_the_same_corpus():
    """Or they would be trained again for each number of documents."""
    counts = [PROFILE.training.documents, 60, PROFILE.corpus.train_documents]
    longer = [PROFILE.changed("training", documents=count) for count in counts]
    assert [contextual_teacher.embedded_documents(profile) for profile in longer] == [
        PROFILE.corpus.train_documents
    ] * 3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contextual_teacher, "EMBEDDED", 50)
        assert [contextual_teacher.embedded_documents(profile) for profile in longer] == [
            50,
            *counts[1:],
        ]


def test_a_student_gets_its_own_teachers_batches_and_pooling():
    assert [handed_over(label)[2].structural is None for label in ("MSE", CONTEXTUAL)] == [
        False,
        True,
    ]
    assert [handed_over(label)[2].contextual is None for label in ("MSE", CONTEXTUAL)] == [
        True,
        False,
    ]
    assert handed_over("only-contextual;100d;S:6;C:6;cca")[3]["batch_size"] == 20
    assert [handed_over(label)[0].kind for label in ("cosine", "cosine;[CLS]")] == ["mean", "cls"]


def test_the_seed_sets_the_projections():
    weights = [
        next(handed_over(MASKED, seed)[1].student_projection.parameters()) for seed in (3, 3, 4)
    ]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_a_masked_student_learns_nothing_structural_from_a_long_document():
    for name, weight in (("cosine", 1.0), (MASKED, 0.5)):
        objective = handed_over(name)[1]
        objective.contextual_loss = Zero() if name == MASKED else None
        student = torch.tensor([[1.0, 0, 0, 0, 0, 0]] * 2)
        teacher = torch.tensor([[0.0, 1, 0, 0, 0, 0]] * 2)
        lengths = torch.tensor(
            [PROFILE.training.max_structural_len, PROFILE.training.max_structural_len + 1]
        )
        values = objective(student, teacher, torch.zeros(2, 7), lengths).tolist()
        assert values == [weight, 0.0 if name == MASKED else weight]


def test_softcca_gets_what_the_profile_says():
    objective = handed_over(CONTEXTUAL)[1]
    settings = PROFILE.soft_cca
    assert isinstance(objective.contextual_loss, losses.SoftCCA)
    assert (objective.contextual_loss.beta, objective.contextual_loss.delta) == (
        settings.beta,
        settings.delta,
    )


def contextual_rows(model=CONTEXTUAL, **changes):
    """What a student is trained on and watched with, and the teacher's own rows of these documents."""
    profile = PROFILE.changed("training", **changes)
    with fakes():
        own = [
            contextual_teacher.embeddings("DM;100d", name, profile)
            for name in ("train", "validation")
        ]
        rows = handed_over(model, profile=profile)[2].contextual[np.arange(40)]
        return rows, student_training.held_out_watch(parse(model), profile).contextual, *own


def test_contextual_embeddings_are_standardized_by_the_training_documents_or_as_they_are():
    rows, watched, train, validation = contextual_rows()
    np.testing.assert_allclose(rows, (train - train.mean(0)) / train.std(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        watched, (validation - train.mean(0)) / train.std(0), rtol=1e-4, atol=1e-6
    )
    assert rows.dtype == watched.dtype == np.float32
    rows, watched, train, validation = contextual_rows(contextual_features="raw")
    assert np.array_equal(rows, train) and np.array_equal(watched, validation)


def test_in_a_control_training_documents_have_each_other_s_contextual_embeddings():
    rows, watched, train, validation = contextual_rows(
        contextual_features="raw", contextual_rows="dealt"
    )
    places = [int(np.flatnonzero((train == row).all(axis=1))[0]) for row in rows]
    assert (
        sorted(places) == [*range(40)] and sum(place == row for row, place in enumerate(places)) < 5
    )
    assert np.array_equal(watched, validation)
    again, other = (
        contextual_rows(model, contextual_rows="dealt")[0]
        for model in (CONTEXTUAL, "only-contextual;100d;S:5;C:5")
    )
    assert (again == contextual_rows(contextual_rows="dealt")[0]).all()
    assert (again == other).all(axis=1).mean() < 0.2, (
        "each student's documents are dealt in an order of its own"
    )


def test_embeddings_for_no_split_are_of_held_out_documents_alone():
    with fakes() as patch:
        patch.setattr(training, "distill", lambda *_, **__: History([0.5, 0.25], []))
        arrays = {
            split: embeddings._compute(parse("cosine"), 0, PROFILE, split)
            for split in (None, "validation")
        }
    assert (
        arrays[None].keys()
        == {"validation", "loss"}
        == arrays["validation"].keys() - {"tasks", "halves"}
    )


def test_a_share_of_a_task_s_examples_is_one_of_what_its_heads_train_on():
    arrays = {"labels_train": np.zeros(200), "labels_test": np.zeros(9), "folds": np.array(5)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sets, "task", lambda *_: arrays)
        assert [runs._examples("OC", PROFILE, "test", limit) for limit in (None, 30, 0.25)] == [
            None,
            30,
            50,
        ]
        for cut, share in {1000: 40, 100: 20}.items():  # four of five folds train
            profile = PROFILE.changed("tasks", limit=cut)
            assert [
                runs._examples("OC", profile, split, 0.25) for split in ("validation", "test")
            ] == [share, 50]


def test_held_out_documents_are_embedded_in_the_precision_of_all_others():
    for has_bfloat16, precision in ((True, "bf16"), (False, "fp32")):
        with fakes() as patch:
            patch.setattr(models, "has_bfloat16", lambda has_bfloat16=has_bfloat16: has_bfloat16)
            assert (
                student_training.held_out_watch(parse(CONTEXTUAL), PROFILE).precision == precision
            )


def test_held_out_cca_is_measured_before_half_way_and_at_the_end():
    with fakes() as patch:
        patch.setattr(
            training, "distill", lambda *_, **__: History([0.5, 0.25], [(1, 0.1, 0.2, 0.3)])
        )
        history = embeddings._compute(parse(CONTEXTUAL), 0, PROFILE, "validation")
    assert history["watched"][:, 0].tolist() == [0, 1, 2] and history["loss"].tolist() == [
        0.5,
        0.25,
    ]
    assert history["tasks"].shape == (20, 6) and history["validation"].shape == (12, 6)


# ---------------------------------------------------------------- heads


def head_jobs(split, limit, seed=3, folds=0, profile=PROFILE, groups=None, recorded=()):
    """The jobs and settings that `evaluate` gives to `train_heads`, and the record that it leaves. recorded: models of
    which the store has a record already, asked for beside cosine."""
    labels = {"train": np.arange(10) % 2, "validation": np.arange(8) % 2, "test": np.arange(6) % 2}
    arrays = {"classes": np.array(["no", "yes"]), "folds": np.int64(folds)}
    for place, (name, values) in enumerate(labels.items()):
        if not folds or name == "train":
            arrays |= {
                f"labels_{name}": values,
                f"inputs_{name}": 10 * place + np.arange(len(values))[:, None],
            }
    if groups is not None:
        arrays["groups_train"] = groups
    calls, kept = [], []

    def train_heads(jobs, **settings):
        calls.append((jobs, settings))
        return [HeadResult(0.0, job.labels[job.test] ^ (row % 2)) for row, job in enumerate(jobs)]

    class Store:
        def has(self, recipe):
            return recipe in recorded

        def record(self, recipe, make, **note):
            kept.append(make())

    with fakes() as patch:
        patch.setattr(heads, "train_heads", train_heads)
        patch.setattr(accuracies, "store", Store)
        patch.setattr(keys, "record", lambda variant, *_: variant.identity)
        patch.setattr(text_sets, "task", lambda name, profile: arrays)
        patch.setattr(embeddings, "of", lambda *_: {"tasks": np.zeros((30, 6), np.float32)})
        models = [(parse(model), seed) for model in (*recorded, "cosine")]
        accuracies.evaluate(models, "OC", profile, split, limit)
    return *(calls[0] if calls else ()), *kept


def cut(job):
    """The inputs that a head trains and is tested on."""
    return job.inputs[job.train].ravel().tolist(), job.inputs[job.test].ravel().tolist()


def test_every_head_has_its_own_seed_and_their_mean_is_recorded():
    jobs, settings, record = head_jobs("validation", None)
    assert [job.seed for job in jobs] == [3000, 3001]
    assert record == {"accuracy": 0.5, "heads": [1.0, 0.0], "scores": [0.5] * 4}
    assert settings == PROFILE.heads.model_dump(exclude={"repeats", "classifier"}) | {"classes": 2}


def test_what_another_process_has_recorded_meanwhile_is_not_trained_again():
    jobs, _, *records = head_jobs("validation", None, recorded=["MSE"])
    assert [job.name for job in jobs] == ["cosine, seed 3, OC"] * 2
    assert [record["heads"] for record in records] == [[1.0, 0.0]]
    assert head_jobs("validation", None, recorded=["MSE", "cosine"]) == ()


def test_the_score_of_an_example_is_its_own_whichever_fold_tests_it():
    jobs, _, record = head_jobs(
        "test", None, folds=2, groups=np.arange(10) // 2 % 2
    )  # right and wrong in turns, so each head errs in its second fold
    places = np.concatenate([job.test for job in jobs[:2]])
    assert places.tolist() != sorted(places)
    expected = np.concatenate([np.ones(len(jobs[0].test)), np.zeros(len(jobs[1].test))])[
        np.argsort(places)
    ]
    assert record["heads"] == [1.0, 0.0] * 2 and record["scores"] == expected.tolist()


def test_other_classifiers_need_one_run():
    calls = []
    changed = PROFILE.model_copy(
        update={"heads": PROFILE.heads.model_copy(update={"classifier": "similarity"})}
    )
    assert accuracies.classifier(parse("cosine"), PROFILE) == "head"
    assert accuracies.classifier(parse("cosine"), changed) == "similarity"
    assert accuracies.classifier(parse("TF-IDF"), changed) == "logistic regression"
    with fakes() as patch:
        patch.setattr(
            "lib.evaluation.classifiers.by_similarity",
            lambda job: calls.append(job) or job.labels[job.test],
        )
        record = head_jobs("validation", None, profile=changed)[-1]
    assert len(calls) == 1 and record == {"accuracy": 1.0, "heads": [1.0], "scores": [1.0] * 4}


def test_chapter_4_cuts_both_splits_and_chapter_5_the_training_examples_alone():
    assert cut(head_jobs("validation", None)[0][0]) == ([0, 1, 2, 3], [10, 11, 12, 13])
    assert cut(head_jobs("test", None)[0][0]) == (list(range(10)), [20, 21, 22, 23, 24, 25])
    assert cut(head_jobs("test", 2)[0][0]) == ([0, 1], [20, 21, 22, 23, 24, 25])


def test_folds_are_stratified_and_in_file_order():
    jobs = head_jobs("test", None, folds=5)[0]
    assert [cut(job)[1] for job in jobs] == [[i, i + 1] for i in range(0, 10, 2)] * 2
    assert [job.seed for job in jobs] == [3000] * 5 + [3001] * 5
    assert [len(cut(job)[0]) for job in head_jobs("test", 4, folds=5)[0]] == [4] * 10
    assert (
        len(head_jobs("validation", None, folds=2)[0][0].labels) == 4
    )  # cut to the limit, then into folds


def test_texts_beyond_the_limit_are_not_embedded_in_chapter_4():
    texts = {f"t{row}": f"text {row}" for row in range(30)}
    inputs = {
        "train": [(f"t{row}",) for row in range(10)],
        "validation": [(f"t{row}",) for row in range(10, 20)],
    }
    task = Task(
        "classification", texts, inputs, {name: np.arange(10) % 2 for name in inputs}, ["no", "yes"]
    )
    stored = text_sets._collect({"OC": task}, 4)
    places = [0, 1, 2, 3, 10, 11, 12, 13]
    assert stored["texts"][: stored["validation"]] == [f"text {place}" for place in places]


def test_the_groups_of_examples_are_those_of_their_texts():
    texts = {"a": "one", "b": "two", "c": "three"}
    task = Task(
        "classification",
        texts,
        {"train": [("a", "c"), ("b", "a")]},
        {"train": np.array([0, 1])},
        ["no", "yes"],
    )
    task = dataclasses.replace(task, groups={"a": "article", "c": "other"})  # b shares nothing
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sets, "_of_tasks", lambda profile: text_sets._collect({"OC": task}, 9))
        inputs = text_sets.task("OC", PROFILE)["inputs_train"]
        assert text_sets.groups(inputs, PROFILE).tolist() == [
            ["article", "other"],
            ["2: b", "article"],
        ]


def test_an_id_that_two_folders_have_is_two_texts_with_groups_of_their_own():
    inputs, labels = {"train": [("1",), ("2",)]}, {"train": np.array([0, 1])}
    grouped = Task("classification", {"1": "one", "2": "two"}, inputs, labels, ["no", "yes"])
    grouped = dataclasses.replace(grouped, groups={"1": "article", "2": "article"})
    alone = Task("classification", {"1": "eins", "2": "zwei"}, inputs, labels, ["no", "yes"])
    for tasks in ({"A": grouped, "B": alone}, {"B": alone, "A": grouped}):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                text_sets, "_of_tasks", lambda profile, tasks=tasks: text_sets._collect(tasks, 9)
            )
            names = {name: text_sets.task(name, PROFILE)["inputs_train"].ravel() for name in tasks}
            found = {name: text_sets.groups(rows, PROFILE).tolist() for name, rows in names.items()}
        assert found["A"] == ["article", "article"] and len({*found["B"], "article"}) == 3


def examples(labels, groups, folds=0):
    """What `accuracies.examples` says of a task of single texts, their rows in the order of train and validation."""
    arrays = {"classes": np.array(["no", "yes"]), "folds": np.int64(folds)}
    rows = np.split(
        np.arange(sum(map(len, labels.values()))),
        np.cumsum([len(part) for part in labels.values()])[:-1],
    )
    for (split, values), places in zip(labels.items(), rows, strict=True):
        arrays |= {f"labels_{split}": np.array(values), f"inputs_{split}": places[:, None]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_sets, "task", lambda name, profile: arrays)
        patch.setattr(text_sets, "groups", lambda inputs, profile: np.array(groups)[inputs])
        return accuracies.examples("OC", PROFILE, "validation")


def test_groups_and_chance_are_those_of_the_examples_that_are_tested():
    groups, chance = examples({"train": [0, 0, 0, 0], "validation": [0, 1, 1, 1]}, list("abcdefgh"))
    assert groups.ravel().tolist() == ["e", "f", "g", "h"] and chance == 0.75
    folded, _ = examples({"train": [0, 0, 1, 1]}, list("abcd"), folds=2)
    assert folded.ravel().tolist() == [
        "a",
        "b",
        "c",
        "d",
    ]  # in file order, as the scores of a record


def test_every_encoder_embeds_texts_documents_and_halves():
    for label in ("Longformer", "SBERT", "cosine"):
        with fakes() as patch:
            patch.setattr(training, "distill", lambda *_, **__: History([0.5], []))
            arrays = embeddings._compute(parse(label), 0, PROFILE, "validation")
        assert {name: len(arrays[name]) for name in ("tasks", "validation", "halves")} == {
            "tasks": 20, "validation": 12, "halves": 24
        }  # fmt: skip


def test_what_is_watched_has_the_documents_lengths_and_the_training_s_batches():
    with fakes():
        watch = student_training.held_out_watch(parse(MASKED), PROFILE)
    assert watch.lengths.tolist() == [3, 9] * 6 and watch.batch_size == PROFILE.training.batch_size


def test_groups_of_folds_are_cut_to_the_limit_with_their_examples():
    jobs = head_jobs("validation", None, folds=2, groups=np.array([0, 0, 1, 1] * 2 + [2, 2]))[0]
    assert [len(job.labels) for job in jobs] == [4] * 4


def test_tfidf_counts_every_word_but_stop_words():
    vectors = baselines.tfidf(["the cat sat on a mat", "dogs"], ["the on", "cat dogs"]).toarray()
    assert vectors.shape == (2, 4) and (vectors > 0).sum(1).tolist() == [0, 2]


def test_tfidf_knows_the_students_documents():
    calls = []

    def tfidf(corpus, texts):
        calls.append((corpus, texts))
        return sparse.csr_array(np.eye(len(texts), 2))

    with fakes() as patch:
        patch.setattr(embeddings.baselines, "tfidf", tfidf)
        arrays = embeddings._compute(parse("TF-IDF"), 0, PROFILE, "validation")
    ((corpus, texts),) = calls
    assert (len(corpus), corpus[0], len(texts), texts[0]) == (40, "train 0", 20, "tasks 0")
    assert arrays["shape"].tolist() == [20, 2] and arrays["data"].tolist() == [1.0, 1.0]


# ---------------------------------------------------------------- teachers, students, texts


class Memory:
    """A store that keeps nothing."""

    def arrays(self, recipe, make, **note):
        return make()

    def mapped(self, recipe, items, make, **piece):
        return make(items())

    def path(self, recipe, suffix):
        return paths.artifacts() / f"entry{suffix}"


def documents(name, number):
    return [SimpleNamespace(text=f"{name} {row}") for row in range(number)]


def corpus(profile):
    return SimpleNamespace(train=documents("train", 60), validation=documents("validation", 12))


def test_a_paragraph_vector_learns_the_training_documents_as_the_profile_says():
    calls = []

    class ParagraphVector:
        vocabulary_size, seconds, truncated, documents = 5, 1.5, 2, 30

        @classmethod
        def parse(cls, label, width):
            calls.append((label, width))
            return cls()

        def train(self, texts, **settings):
            assert list(texts) == list(texts)  # read once per epoch
            calls.append((list(texts), settings))
            return self

        def encode(self, texts):
            return np.full((len(texts), 3), len(texts[0]), np.float32)

        def __reduce__(self):  # what is kept for who is killed
            return dict, ()

    with fakes() as patch:
        module = SimpleNamespace(ParagraphVector=ParagraphVector)
        patch.setitem(sys.modules, "lib.teachers.paragraph_vector", module)
        patch.setattr(text_sets, "corpus", corpus)
        patch.setattr(contextual_teacher, "store", Memory)
        teacher = contextual_teacher.paragraph_vector("DM;100;lowercase;2", PROFILE)
        other, every = (
            contextual_teacher.paragraph_vector("DM;768;stem;10%", PROFILE, flag)
            for flag in (False, True)
        )
    (parsed, (learnt, settings)), width = calls[:2], PROFILE.width
    assert parsed == ("DM;100;lowercase;2", width) and learnt == [
        f"train {row}" for row in range(30)
    ]
    assert settings == PROFILE.contextual_teacher.model_dump(exclude={"documents"})
    counted = {"vocabulary_size": 5, "seconds": 1.5, "truncated": 2, "documents": 30}
    assert {name: teacher[name].item() for name in counted} == counted
    assert {name: teacher[name].shape for name in ("train", "validation", "tasks", "all_tasks")} == {
        "train": (40, 3), "validation": (12, 3), "tasks": (20, 3), "all_tasks": (30, 3)
    }  # fmt: skip
    assert teacher["train"][0, 0] == len("train 0") and teacher["validation"][0, 0] == len(
        "validation 0"
    )
    assert {*other} - {*counted} == {"tasks"} and {*every} - {*counted} == {"tasks", "all_tasks"}


def test_the_parts_of_a_compound_stand_in_the_label_s_order():
    with fakes() as patch:
        parts = {
            "DM;1;None;2": {"tasks": np.zeros((2, 1))},
            "DBOW;2;None;2": {"tasks": np.ones((2, 2))},
        }
        patch.setattr(contextual_teacher, "paragraph_vector", lambda label, *_: parts[label])
        assert (
            CONTEXTUAL_EMBEDDINGS("DM;1;None;2+DBOW;2;None;2", "tasks", PROFILE).tolist()
            == [[0, 1, 1]] * 2
        )


def test_the_structural_teacher_is_checked_and_reads_as_the_profile_says():
    calls = []

    class SBERT:
        @classmethod
        def load(cls, source, **settings):
            calls.append((source, settings))
            return cls()

        def tokenize(self, texts):
            return texts, np.arange(len(texts))

        def embed(self, texts, batch_size=None):
            calls.append((texts, batch_size))
            return np.ones((len(texts), 2), np.float32)

    with fakes() as patch:
        patch.setitem(sys.modules, "lib.teachers.sbert", SimpleNamespace(SBERT=SBERT))
        patch.setattr(structural_teacher, "store", Memory)
        arrays = STRUCTURAL_EMBEDDINGS("train", PROFILE)
    section = PROFILE.structural_teacher
    checked = section.model_dump(include={"max_tokens", "sha256", "revision"})
    assert section.sha256 and calls[0] == (section.model, checked | {"device": models.device()})
    assert calls[1] == ([f"train {row}" for row in range(40)], 7)
    assert arrays["lengths"].tolist() == list(range(40)) and arrays["embeddings"].shape == (40, 2)


def test_a_student_is_cut_as_the_profile_says():
    def loader(name):
        return classmethod(lambda cls, source, **settings: (name, source, settings))

    student = type(
        "Student", (), {name: loader(name) for name in ("from_longformer", "from_encoder")}
    )
    section = PROFILE.student
    longformer = section.model_copy(
        update={"base": "longformer", "model": "a/b", "revision": "0" * 40}
    )
    with fakes() as patch:
        patch.setitem(sys.modules, "lib.student.encoder", SimpleNamespace(Student=student))
        patch.setitem(
            sys.modules, "lib.student.cls", SimpleNamespace(ClsStudent=lambda base: ["cls", base])
        )
        patch.setattr(models, "base_student", BASE_STUDENT)
        encoder, cls = BASE_STUDENT(PROFILE), CLS_STUDENT(PROFILE)
        published = BASE_STUDENT(PROFILE.model_copy(update={"student": longformer}))
    dropout = {"dropout": 0.25, "attention_dropout": 0.125}
    settings = (
        section.model_dump(include={"layers", "window", "max_positions", "revision"}) | dropout
    )
    assert section.layers is not None and section.window == 32
    assert encoder == ("from_encoder", models.model_path(section.model), settings) and cls == [
        "cls",
        encoder,
    ]
    assert published == ("from_longformer", "a/b", {"revision": "0" * 40} | dropout)


def test_a_model_trains_and_encodes_in_the_profile_s_precision():
    """bfloat16 only where the device has it."""
    fp32, bf16 = (
        PROFILE.changed("training", precision=precision) for precision in ("fp32", "bf16")
    )
    for there, expected in ((True, ["fp32", "bf16"]), (False, ["fp32", "fp32"])):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(models, "has_bfloat16", lambda there=there: there)
            assert [
                handed_over("cosine", profile=each)[3]["precision"] for each in (fp32, bf16)
            ] == expected
    for label in ("Longformer", "cosine"):
        with fakes() as patch:
            patch.setattr(models, "has_bfloat16", lambda: True)
            patch.setattr(training, "distill", lambda *_, **__: History([0.5], []))
            arrays = [
                embeddings._compute(parse(label), 0, profile, "validation")
                for profile in (fp32, bf16)
            ]
        assert [(each["tasks"][0, 0], each["validation"][0, 0]) for each in arrays] == [
            (0.5, 0.5),
            (2.0, 2.0),
        ]


def test_a_label_s_distance_and_gamma_reach_the_loss():
    for distance, function in (("MSE", losses.mse), ("cosine", losses.cosine)):
        loss = handed_over(f"max-margin;{distance};γ=0.3")[1].structural_loss
        assert loss.func is losses.max_margin and loss.keywords == {
            "distance": function,
            "gamma": 0.3,
        }


def test_sets_of_texts_are_cut_as_the_profile_says():
    every = [f"task {row}" for row in range(9)]
    with fakes() as patch:
        patch.setattr(text_sets, "corpus", corpus)
        patch.setattr(text_sets, "_of_tasks", lambda profile: {"texts": every, "validation": 4})
        sets = [TEXTS(name, PROFILE) for name in text_sets.NAMES]
    halves = ["validation"] * 12 + [f"{row}" for row in range(12)]
    validation = [f"validation {row}" for row in range(12)]
    assert [[*texts] for texts in sets] == [
        [f"train {row}" for row in range(40)],
        validation,
        halves,
        every[:4],
        every,
    ]
    assert text_sets._halves("one two three") == ("one", "two three") and text_sets._halves(
        "one"
    ) == ("one", "one")


def test_test_texts_are_embedded_once_more_up_to_the_structural_teacher_s_limit():
    """Texts have 3 or 9 tokens, the limit is 4: of the long ones the first three stay, and the last, a special one."""
    for label in ("Longformer", "cosine"):
        check_cut(label)


def check_cut(label):
    changes = CHANGES | {"structural_teacher.max_tokens": 4}
    profile, asked = profiles.load("smoke", overrides=changes), []

    def encode(self, token_ids, precision="fp32"):
        asked.append(token_ids)
        assert precision == "bf16"
        return np.array([[len(row)] * 6 for row in token_ids], np.float32)

    with fakes() as patch:
        patch.setattr(Student, "encode", encode)
        patch.setattr(
            text_sets, "token_ids", lambda name, profile: [[0, *range(7, 7 + n), 1] for n in (1, 7)]
        )
        trained = Student(6, 6), None, History([0.5], [])
        patch.setattr(student_training, "train_student", lambda *_, **options: trained)
        arrays = embeddings._compute(parse(label), 0, profile, "test")
        assert asked[-1] == [[0, 7, 8, 1]]
        assert "cut" not in embeddings._compute(parse(label), 0, profile, "validation")
    assert arrays["tasks"][:, 0].tolist() == [3, 9] and arrays["cut"][:, 0].tolist() == [3, 4]


def test_a_cut_model_has_the_cut_embeddings_of_the_model_itself():
    real = embeddings.of
    with fakes() as patch:
        patch.setattr(embeddings, "store", Memory)
        patch.setattr(embeddings, "_compute", lambda *_: {"tasks": np.zeros(2), "cut": np.ones(2)})
        assert real("Longformer;cut", 0, PROFILE, "test")["tasks"].tolist() == [1, 1]
        assert real("Longformer", 0, PROFILE, "test")["tasks"].tolist() == [0, 0]
        patch.setattr(embeddings, "_compute", lambda *_: {"tasks": np.zeros(2)})
        with pytest.raises(ValueError, match="cut for the split 'test' alone, got 'validation'"):
            real("cosine;cut", 0, PROFILE)


def test_a_paragraph_vector_of_another_seed_is_trained_anew():
    asked = []
    with fakes() as patch:
        patch.setattr(
            contextual_teacher, "embeddings", lambda label, name, profile: asked.append(profile)
        )
        for seed in (0, 2):
            embeddings._compute(parse("DM;100d"), seed, PROFILE, "validation")
    assert [profile.contextual_teacher.seed for profile in asked] == [8, 10]


def test_token_ids_are_the_students_of_the_set_s_texts():
    with fakes() as patch:
        student = SimpleNamespace(
            tokenize=lambda texts: [[row] * (row % 3 + 1) for row in range(len(texts))]
        )
        patch.setattr(models, "base_student", lambda profile: student)
        patch.setattr(text_sets, "store", Memory)
        ids = TOKEN_IDS("validation", PROFILE)
        assert [row.tolist() for row in ids] == student.tokenize(range(12))


def test_retrieval_ranks_the_task_s_candidates_up_to_the_top():
    """From text 2 the candidates are 3, 4 and 6 by distance; 6 is relevant. Texts 0, 1 and 5 are another task's."""
    degrees = np.deg2rad([10.0, 50.0, 0.0, 10.0, 20.0, 0.5, 30.0])
    vectors = np.stack([np.cos(degrees), np.sin(degrees)], axis=1)
    arrays = {
        "candidates": np.array([2, 3, 4, 6]),
        "sources": np.array([2]),
        "targets_0": np.array([6]),
    }
    asked = []
    with fakes() as patch:
        patch.setattr(runs, "embed", lambda *arguments: asked.append(arguments[-1]))
        patch.setattr(
            embeddings, "of", lambda *arguments: asked.append(arguments[-1]) or {"tasks": vectors}
        )
        patch.setattr(text_sets, "task", lambda name, profile: arrays)
        options = {"profile": PROFILE, "seeds": [0], "tasks": ["GAMES"]}
        values = [
            runs.retrieve(["SBERT"], top=top, **options)["value"].tolist() for top in (None, 2)
        ]
    assert values == [pytest.approx([1 / 3, 1 / 3]), [0.0, 0.0]] and {*asked} == {"test"}


def test_a_model_has_its_own_seeds_and_otherwise_the_profile_s():
    pairs = runs.models_and_seeds(["cosine", "MSE"], {"cosine": [4, 5]}, PROFILE)
    assert [(variant.identity, seed) for variant, seed in pairs] == [
        ("cosine", 4),
        ("cosine", 5),
        ("MSE", 0),
    ]
    assert [seed for _, seed in runs.models_and_seeds(["cosine", "cosine"], [7], PROFILE)] == [7]
