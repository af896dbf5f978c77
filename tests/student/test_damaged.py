"""Folders that are no student are refused in one line; no number is made up, and no code is run."""

import json
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel

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
    """Change keys of config.json."""

    def damage(folder):
        content = json.loads((folder / "config.json").read_text()) | changes
        (folder / "config.json").write_text(json.dumps(content))

    return damage


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def lose(name):
    return lambda folder: (folder / name).unlink()


def replace_weight(value):
    """Replace a weight, or leave it out for None."""

    def damage(folder):
        tensors = load_file(folder / "model.safetensors") | {WEIGHT: value}
        present = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        save_file(present, folder / "model.safetensors", metadata={"format": "pt"})

    return damage


def pickle_weights(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weights": Path}))


DAMAGES = [
    (write("config.json", b"{"), "configuration of .*student: .*config.json"),
    (lose("config.json"), "configuration of .*student: .*config.json"),
    (config(num_attention_heads=3), "student: .*not a multiple of the number of attention heads"),
    (config(attention_window=[8, 8, 8]), "student: .*attention_window"),
    (config(model_type="bert"), "is a bert; load it with"),
    (config(hidden_size=48), r"student: .* has shape \(32,\), but config.json says \(48,\)"),
    (write("model.safetensors", b"{"), "weights of .*student: SafetensorError"),
    (lose("model.safetensors"), "weights of .*student: .*no file named model.safetensors"),
    (pickle_weights, "weights of .*student: UnpicklingError"),
    (replace_weight(None), f"weights of .*student: .*it lacks 1 weights; the first is {WEIGHT}"),
    (replace_weight(torch.zeros(3, 4)), rf"student: .*{WEIGHT} has shape \(3, 4\), .* \(32, 32\)"),
    (write("tokenizer.json", b"{}"), "tokenizer of .*student: KeyError"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_folder_is_named_in_one_line(folder, damage, message):
    assert Student.load(folder).encode(["w1 w2"]).shape == (1, 32)
    damage(folder)
    with pytest.raises(ValueError, match=message) as error:
        Student.load(folder)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_without_its_vocabulary_a_student_reads_ids_and_refuses_texts(folder):
    """tokenizer_config.json alone would give a tokenizer that knows no word."""
    expected = Student.load(folder).encode(["w1 w2"])
    (folder / "tokenizer.json").unlink()
    assert (folder / "tokenizer_config.json").exists()
    student = Student.load(folder)
    assert (student.encode([[2, 6, 7, 3]]) == expected).all()
    with pytest.raises(ValueError, match="has no tokenizer; pass token ids"):
        student.encode(["w1 w2"])


def teacher(folder):
    return SBERT.load(folder, max_tokens=8)


@pytest.mark.parametrize("known", [True, False], ids=["stock type", "own type"])
@pytest.mark.parametrize("load", [Student.load, teacher])
def test_code_in_a_folder_is_never_run_nor_asked_about(folder, monkeypatch, load, known):
    asked, trace = [], folder.parent / "ran"
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    if load is teacher:
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        BertModel(BertConfig(vocab_size=12, intermediate_size=32, **small)).save_pretrained(folder)
    load(folder)
    code = f"open({str(trace)!r}, 'w').close()\nclass Config: pass\nclass Model: pass\n"
    (folder / "evil.py").write_text(code)
    tokenizers = ["evil.Model", "evil.Model"]
    classes = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model", "AutoTokenizer": tokenizers}
    config(auto_map=classes, **({} if known else {"model_type": "evil"}))(folder)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings |= {"auto_map": {"AutoTokenizer": tokenizers}}
    settings |= {} if known else {"tokenizer_class": "E"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    try:
        load(folder)
    except ValueError as error:
        assert "\n" not in str(error) and not known
    assert not asked and not trace.exists()
