"""What a run holds in memory as the corpus grows, and what it keeps when it is killed."""

import json
import os
import signal
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.config import paths, profiles
from lib.data import dataset_folder
from lib.distillation import training
from lib.distillation.objective import Objective
from lib.distillation.variants import parse
from lib.experiments import contextual_teacher, models, structural_teacher, text_sets
from lib.store import records
from lib.teachers.paragraph_vector import ParagraphVector
from lib.teachers.sbert import SBERT

WORDS = 100  # of a document, some 600 bytes
SMALL, LARGE = 300, 1500
BYTES = (
    100  # a document may keep in memory: numbers about it, not its text, token ids or embeddings
)


def write_documents(folder, count):
    """A corpus of `count` documents that no other shares, in one dataset folder."""
    vocabulary = np.array([f"{a}{b}" for a in "bdfgklmn" for b in ("ad", "en", "ig", "on", "up")])
    generator = np.random.default_rng(0)
    (folder / "letters").mkdir(parents=True)
    with open(folder / "letters" / "documents.jsonl", "w", encoding="utf-8") as file:
        for number in range(count):
            text = " ".join(vocabulary[generator.integers(len(vocabulary), size=WORDS)])
            file.write(json.dumps({"id": str(number), "text": text}) + "\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A checkpoint of one layer, 16 wide, that is teacher and student: letters and pairs of them are its tokens."""
    from tokenizers import Tokenizer, pre_tokenizers, processors
    from tokenizers.models import WordPiece
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    letters = [chr(number) for number in range(97, 123)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(
        WordPiece({token: number for number, token in enumerate(tokens)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    folder = tmp_path_factory.mktemp("model")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    BertModel(BertConfig(vocab_size=len(tokens), **sizes)).save_pretrained(folder)
    return folder


def profile_of(root, model, count):
    """A profile that trains on all of `count` documents but ten, and has no tasks."""
    changes = {
        "build": None,
        "data_root": str(root),
        "corpus.folders": ["letters"],
        "tasks.folders": {},
    }
    changes |= {
        "corpus.validation_documents": 10,
        "student.model": str(model),
        "student.max_positions": 128,
    }
    changes |= {f"{name}.documents": count - 10 for name in ("training", "final")}
    changes |= {
        "structural_teacher.model": str(model),
        "structural_teacher.sha256": None,
        "training.batch_size": 10,
    }
    changes |= {
        "structural_teacher.max_tokens": 32,
        "corpus.train_documents": count - 10,
        "contextual_teacher.epochs": 1,
    }
    return profiles.load("smoke", overrides=changes)


def pieces_of(size, monkeypatch):
    monkeypatch.setattr(records.Store.mapped, "__kwdefaults__", {"piece": size})


def train(profile):
    """A training whose student gives one vector for all: what it needs is what it is handed."""
    structural = structural_teacher.embeddings("train", profile)
    contextual = contextual_teacher.SideBySide([structural["embeddings"], structural["embeddings"]])
    ids = text_sets.token_ids("train", profile)
    data = training.DistillationData(
        ids, structural["lengths"], structural["embeddings"], contextual
    )
    variant = parse("MSE")
    student = models.base_student(profile)
    student.forward = lambda ids: student.embeddings.LayerNorm.weight.expand(len(ids), -1)
    settings = {"batch_size": 50, "learning_rate": 0.1, "seed": 0, "warmup_updates": 0}
    training.distill(
        student,
        Objective(variant, student.dim, width=1.0, max_structural_len=None),
        data,
        **settings,
    )


STAGES = {
    "corpus": text_sets.corpus,
    "tokens": lambda profile: text_sets.token_ids("train", profile),
    "teacher": lambda profile: structural_teacher.embeddings("train", profile),
    "training": train,
}


def test_no_stage_holds_the_corpus(tmp_path, model, monkeypatch):
    """NumPy and Python tell tracemalloc what they hold; a text has 400 bytes, its token ids have 800, its vector 64."""
    pieces_of(100, monkeypatch)
    monkeypatch.setattr(text_sets, "_PIECE", 100)
    monkeypatch.setattr(dataset_folder, "_BATCH", 100)
    monkeypatch.setattr(
        SBERT, "embed", lambda self, ids, batch: np.ones((len(ids), self.dim), np.float32)
    )
    peaks = {}
    for count in (150, SMALL, LARGE):  # the first pays for what is loaded once
        root = tmp_path / str(count)
        write_documents(root, count)
        monkeypatch.setenv("THESIS_ARTIFACTS", str(root / "artifacts"))
        monkeypatch.setattr(records, "_held", {})
        profile = profile_of(root, model, count)
        for name, stage in STAGES.items():
            tracemalloc.start()
            stage(profile)
            peaks[name, count] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    growth = {name: (peaks[name, LARGE] - peaks[name, SMALL]) / (LARGE - SMALL) for name in STAGES}
    assert all(value < BYTES for value in growth.values()), f"bytes per document more: {growth}"


@pytest.fixture
def thousand(tmp_path, model, monkeypatch):
    """A profile of 1,000 documents, in pieces of 300, and a function that gives it another, empty artifact root."""
    write_documents(tmp_path / "data", 1000)
    pieces_of(300, monkeypatch)

    def empty(name):
        monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path / name))
        monkeypatch.setattr(records, "_held", {})

    empty("artifacts")
    return profile_of(tmp_path / "data", model, 1000), empty


def killed(make, syncs):
    """Run `make` in a process that is killed, kill -9, when it brings something to the disk for the `syncs`-th time."""
    if (process := os.fork()) == 0:
        calls, sync = [], os.fsync
        os.fsync = lambda file: (
            sync(file)
            if calls.append(1) or len(calls) < syncs
            else os.kill(os.getpid(), signal.SIGKILL)
        )
        try:
            make()
        finally:
            os._exit(0)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL


def test_the_teacher_pass_goes_on_behind_the_last_finished_piece(thousand, monkeypatch):
    """Three syncs a piece: embeddings, lengths, note. The third piece has written its embeddings when it is killed."""
    profile, empty = thousand
    text_sets.corpus(profile)
    killed(lambda: structural_teacher.embeddings("train", profile), 8)
    (note,) = (paths.artifacts() / "store" / "structural").glob("*.note")
    assert (
        json.loads(note.read_bytes())["items"] == 600
        and not json.loads(note.read_bytes())["complete"]
    )
    assert note.with_suffix(".embeddings").stat().st_size == 900 * 16 * 4, (
        "a piece that is not in the note"
    )
    embed, rows = SBERT.embed, []
    monkeypatch.setattr(
        SBERT, "embed", lambda self, ids, size: rows.append(len(ids)) or embed(self, ids, size)
    )
    after = structural_teacher.embeddings("train", profile)
    assert rows == [records.SAMPLE, 300, 90] and len(after["embeddings"]) == 990
    files = {
        suffix: note.with_suffix(suffix).read_bytes() for suffix in (".embeddings", ".lengths")
    }
    empty("undisturbed")
    structural_teacher.embeddings("train", profile)
    (note,) = (paths.artifacts() / "store" / "structural").glob("*.note")
    assert files == {suffix: note.with_suffix(suffix).read_bytes() for suffix in files}


def test_a_paragraph_vector_is_not_trained_again_when_it_was_killed_embedding(
    thousand, monkeypatch
):
    """Syncs: its model, its numbers and their note, then two a piece."""
    profile, empty = thousand
    text_sets.corpus(profile)
    label = "DM;100;lowercase;2"
    killed(lambda: contextual_teacher.paragraph_vector(label, profile), 6)
    train = ParagraphVector.train
    monkeypatch.setattr(ParagraphVector, "train", None)
    after = contextual_teacher.paragraph_vector(label, profile)
    assert not [*(paths.artifacts() / "store" / "paragraph_vector").glob("*.model")], (
        "needed no more"
    )
    monkeypatch.setattr(ParagraphVector, "train", train)
    empty("undisturbed")
    before = contextual_teacher.paragraph_vector(label, profile)
    assert after["documents"] == 990 and after["train"].shape == before["train"].shape
    assert all(
        np.array_equal(after[name], before[name]) for name in ("train", "validation", "all_tasks")
    )


def test_a_paragraph_vector_is_not_trained_again_for_more_documents(thousand, monkeypatch):
    profile, empty = thousand
    short, long = (profile.changed("training", documents=count) for count in (200, 400))
    before = contextual_teacher.embeddings("DM;100;lowercase;2", "train", short)[:]
    train = ParagraphVector.train
    monkeypatch.setattr(ParagraphVector, "train", None)
    after = contextual_teacher.embeddings("DM;100;lowercase;2", "train", long)[:]
    monkeypatch.setattr(ParagraphVector, "train", train)
    monkeypatch.setattr(contextual_teacher, "EMBEDDED", 0)
    empty("alone")
    for profile, rows in ((short, before), (long, after)):
        assert np.array_equal(
            contextual_teacher.embeddings("DM;100;lowercase;2", "train", profile)[:], rows
        )


def test_what_is_damaged_is_made_again(thousand):
    profile, _ = thousand
    before = structural_teacher.embeddings("train", profile)["embeddings"].copy()
    (file,) = (paths.artifacts() / "store" / "structural").glob("*.embeddings")
    content = bytearray(file.read_bytes())
    content[1000] ^= 1
    file.write_bytes(content)
    with pytest.warns(UserWarning, match="structural/[0-9a-f]+ was damaged: computing it again"):
        after = structural_teacher.embeddings("train", profile)["embeddings"]
    assert np.array_equal(before, after)


def test_a_full_disk_is_told_before_the_work(thousand, monkeypatch):
    profile, _ = thousand
    text_sets.corpus(profile)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(OSError, match=r"^\S+/store: \d+ MB are needed, 0 MB are free$"):
        structural_teacher.embeddings("train", profile)
    assert not [*(paths.artifacts() / "store" / "structural").glob("*.embeddings")]
    monkeypatch.setattr(records, "_held", {})
    with pytest.raises(OSError, match="MB are needed, 0 MB are free"):
        dataset_folder._write_arrow(
            [paths.data_root(profile) / "letters" / "documents.jsonl"], paths.artifacts()
        )


def test_a_training_on_mapped_arrays_is_that_on_arrays_in_memory(thousand):
    profile, _ = thousand
    structural, ids = (
        structural_teacher.embeddings("train", profile),
        text_sets.token_ids("train", profile),
    )
    held = {name: np.array(values) for name, values in structural.items()}
    weights = []
    for token_ids, taught in ((ids, structural), ([row.tolist() for row in ids], held)):
        data = training.DistillationData(token_ids, taught["lengths"], taught["embeddings"])
        student = models.base_student(profile)
        objective = Objective(parse("MSE"), student.dim, width=1.0, max_structural_len=None)
        training.distill(
            student, objective, data, batch_size=100, learning_rate=0.1, seed=0, warmup_updates=0
        )
        weights.append(student.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
