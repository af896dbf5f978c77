"""Student.load of damaged or hostile folders: one line that names the file, and no code of the
folder is run.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

from lib.store.owned_folder import SEAL
from lib.student import Student
from lib.teachers.sbert import SBERT
from tests.student.tiny import make_student

WEIGHT = "encoder.layer.1.attention.self.query.weight"


@pytest.fixture
def folder(tmp_path):
    """A saved student of two layers, 32 wide."""
    make_student(tmp_path).save(tmp_path / "student")
    return tmp_path / "student"


def config(**changes):
    """Change keys of config.json; a value of None removes the key."""

    def damage(folder):
        content = json.loads((folder / "config.json").read_text()) | changes
        content = {key: value for key, value in content.items() if value is not None}
        (folder / "config.json").write_text(json.dumps(content))

    return damage


def text(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def gone(name):
    return lambda folder: (folder / name).unlink()


def cut(folder):
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def tensor(value):
    """Replace a weight, or leave it out for None."""

    def damage(folder):
        tensors = load_file(folder / "model.safetensors") | {WEIGHT: value}
        present = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        save_file(present, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": Path}))


DAMAGES = [
    (text("config.json", b"{"), "configuration of .*student: .*config.json"),
    (text("config.json", b"\xff\xfe"), "configuration of .*student: .*config.json"),
    (text("config.json", b"[]"), "configuration of .*student: "),
    (text("config.json", b"{}"), "configuration of .*student: .*model_type"),
    (gone("config.json"), "configuration of .*student: .*config.json"),
    (
        config(hidden_act=None, vocab_size=None),
        "weights of .*student: .*word_embeddings.weight has shape",
    ),
    (config(hidden_size="16"), "configuration of .*student: .*expected int, got str"),
    (config(num_attention_heads=3), "student: .*not a multiple of the number of attention heads"),
    (config(num_attention_heads=0), "student: ZeroDivisionError"),
    (config(hidden_act="sigmud"), "student: KeyError: 'sigmud'"),
    (config(attention_window=[7, 7]), "student: .*even"),
    (config(attention_window=[8, 8, 8]), "student: .*attention_window"),
    (config(pad_token_id=99), "student: .*adding"),
    (config(model_type="bert"), "is a bert, expected a longformer"),
    (
        config(hidden_size=48),
        r"weights of .*student: .* has shape \(32,\), but config.json says \(48,\)",
    ),
    (cut, "weights of .*student: SafetensorError"),
    (text("model.safetensors", b""), "weights of .*student: SafetensorError"),
    (gone("model.safetensors"), "weights of .*student: .*no file named model.safetensors"),
    (pickled, "weights of .*student: UnpicklingError"),
    (tensor(None), f"weights of .*student: .*it lacks 1 weights; the first is {WEIGHT}"),
    (
        tensor(torch.zeros(3, 4)),
        rf"weights of .*student: .*{WEIGHT} has shape \(3, 4\), .* says \(32, 32\)",
    ),
    (
        text("tokenizer.json", b"{"),
        "tokenizer of .*student: JSONDecodeError: Expecting property name",
    ),
    (text("tokenizer.json", b"{}"), "tokenizer of .*student: KeyError"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_folder_is_named_in_one_line(folder, damage, message):
    """As this project wrote it, and without the seal as of others."""
    assert Student.load(folder).encode(["w1 w2"]).shape == (1, 32)
    damage(folder)
    for expected in ("cannot read .*student", message):
        with pytest.raises(ValueError, match=expected) as error:
            Student.load(folder)
        assert "\n" not in str(error.value) and len(str(error.value)) < 400
        (folder / SEAL).unlink(missing_ok=True)


def change_a_word(folder):
    file = folder / "tokenizer.json"
    file.write_text(file.read_text().replace('"w1"', '"v1"'))


@pytest.mark.parametrize(
    "damage",
    [
        tensor(torch.full((32, 32), float("nan"))),
        tensor(torch.zeros(32, 32)),
        change_a_word,
        config(attention_window=None),
        gone("tokenizer_config.json"),
        text(SEAL, b"{"),
        text(SEAL, b"[]"),
    ],
    ids=["NaN", "zeros", "vocabulary", "window", "gone", "cut seal", "no seal"],
)
@pytest.mark.parametrize("load", [Student.load, Student.from_longformer])
def test_what_reads_well_but_is_not_what_was_saved_is_named(folder, load, damage):
    """Without the seal the folder is a person's own, and is read as it is."""
    damage(folder)
    with pytest.raises(ValueError, match="cannot read .*student: damaged or changed") as error:
        load(folder)
    assert "\n" not in str(error.value)
    (folder / SEAL).unlink()
    assert load(folder).dim == 32


def test_without_its_vocabulary_a_student_reads_ids_and_refuses_texts(folder):
    """tokenizer_config.json alone would give a tokenizer that knows no word."""
    expected = Student.load(folder).encode(["w1 w2"])
    (folder / "tokenizer.json").unlink()
    (folder / SEAL).unlink()
    assert (folder / "tokenizer_config.json").exists()
    student = Student.load(folder)
    assert (student.encode([[2, 6, 7, 3]]) == expected).all()
    with pytest.raises(ValueError, match="has no tokenizer; pass token ids"):
        student.encode(["w1 w2"])


def test_nan_is_refused_with_the_document(folder):
    student = Student.load(folder)
    with torch.no_grad():
        student.embeddings.word_embeddings.weight[5] = float("nan")
    assert student.encode([[3, 4]]).shape == (1, 32)
    with pytest.raises(
        ValueError, match="document 1 holds NaN or infinity; either the student's weights do too"
    ):
        student.encode([[3, 4], [5]])


def test_a_folder_that_a_cut_off_save_left_is_named(folder):
    work = folder.parent / ".student-abcdefgh.thesis-saving"
    work.mkdir()
    folder.rename(work / "old")
    with pytest.raises(
        ValueError, match=r"no checkpoint folder .*; a save that was cut off left .*thesis-saving"
    ):
        Student.load(folder)


def plant_code(folder):
    """A module in the folder that leaves a trace when it is imported. A stranger's folder has no
    seal of ours.
    """
    (folder / SEAL).unlink()
    trace = str(folder.parent / "ran")
    code = f"open({trace!r}, 'w').close()\nclass Config: pass\nclass Model: pass\n"
    (folder / "evil.py").write_text(code)


def teacher(folder):
    return SBERT.load(folder, max_tokens=8)


@pytest.mark.parametrize("known", [True, False], ids=["stock type", "own type"])
@pytest.mark.parametrize("load", [Student.load, Student.from_longformer, teacher])
def test_code_in_a_folder_is_never_run_nor_asked_about(folder, monkeypatch, load, known):
    asked = []
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    if load is teacher:
        small = {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        }
        BertModel(BertConfig(vocab_size=12, **small)).save_pretrained(folder)
    load(folder)
    plant_code(folder)
    classes = {
        "AutoConfig": "evil.Config",
        "AutoModel": "evil.Model",
        "AutoTokenizer": ["evil.Model", "evil.Model"],
    }
    config(auto_map=classes, **({} if known else {"model_type": "evil"}))(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": ["evil.Model", "evil.Model"]}}
    settings |= {} if known else {"tokenizer_class": "E"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    try:
        load(folder)
    except ValueError as error:
        assert "\n" not in str(error) and not known
    assert not asked and not (folder.parent / "ran").exists()
