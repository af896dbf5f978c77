"""What is saved and exported is read by others as it was; folders that are no student are refused,
no number is made up, and no code is run.
"""

import json
import os
import re

import numpy as np
import pytest
import torch
import transformers
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import LongformerForMaskedLM, LongformerModel

from lib.student import Student
from lib.teachers.sbert import SBERT
from tests.student.tiny import WORDS, make_student, save_tokenizer

TEXTS = ["w1 w2 w3", "w9 " * 20, "w5 w6"]
KINDS = {"bert": "Bert", "roberta": "Roberta", "longformer": "Longformer"}


@pytest.fixture
def student(tmp_path):
    return make_student(tmp_path)


@pytest.fixture
def make(tmp_path):
    """A student of a base of any kind, in half precision, whose tokenizer cuts elsewhere."""

    def make_any(kind, window, limit, side):
        torch.manual_seed(0)
        padding = 0 if kind == "bert" else 1
        save_tokenizer(tmp_path / "base", padding, truncation_side=side, padding_side=side)
        sizes = {"vocab_size": len(WORDS), "pad_token_id": padding, "max_position_embeddings": 18}
        sizes |= {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
        sizes |= {"intermediate_size": 64, "initializer_range": 0.3}
        if kind == "longformer":
            sizes |= {"attention_window": window, "max_position_embeddings": limit + 2}
        config, model = (getattr(transformers, KINDS[kind] + part) for part in ("Config", "Model"))
        model(config(**sizes)).half().save_pretrained(tmp_path / "base")
        if kind == "longformer":
            return Student.from_longformer(tmp_path / "base")
        return Student.from_encoder(tmp_path / "base", [0], window, limit)

    return make_any


def values(student):
    return {name: tensor.tolist() for name, tensor in student.state_dict().items()}


def list_texts(limit):
    """Of 1, limit - 1, limit, limit + 1 and twice limit tokens, two special ones among them.

    Then texts with names of special tokens, first, last and in place of a word, since positions are
    counted differently behind a padding; and an unknown word.
    """
    counts = (1, limit - 3, limit - 2, limit - 1, 2 * limit - 2)
    texts = [" ".join(f"w{(7 * n) % 60}" for n in range(count)) for count in counts]
    texts += ["w1 [PAD] w2", "[PAD] w3", "w4 [PAD]", "[CLS] w1 [SEP]", "strange w3"]
    return [*texts, "w\u00ad1 w3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("window", "limit", "side"),
    [(8, 24, "left"), (6, 25, "right"), (64, 20, "left"), (4, 9, "left")],
)
def test_an_export_gives_the_same_vectors_at_every_length(
    make, tmp_path, kind, side, window, limit
):
    student = make(kind, window, limit, side)
    student.export(tmp_path / "out")
    texts, ids = list_texts(limit), student.tokenize(list_texts(limit))
    assert [len(row) for row in ids[:5]] == [3, limit - 1, limit, limit, limit]
    stored = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert [stored.encode(text).ids for text in texts] == ids
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    expected = student.encode(texts)
    for size in (1, len(texts)):
        np.testing.assert_allclose(model.encode(texts, batch_size=size), expected, atol=1e-5)
    np.testing.assert_array_equal(Student.load(tmp_path / "out").encode(texts), expected)
    np.testing.assert_array_equal(student.encode(ids), expected)
    assert not list((tmp_path / "out").rglob("*.py"))
    modules = json.loads((tmp_path / "out/modules.json").read_text())
    types = [module["type"].rpartition(".")[0] for module in modules]
    assert types == ["sentence_transformers.models"] * 2, "of all versions"


def test_the_saved_folder_is_a_stock_longformer_in_float32(student, tmp_path):
    student.bfloat16().save(tmp_path / "saved")
    student.float()
    model, info = LongformerModel.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and model.dtype == torch.float32
    ids = student.tokenize(TEXTS)[1]
    expected = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state.mean(1)
    np.testing.assert_allclose(student.encode([ids]), expected.detach().numpy(), atol=1e-5)
    loaded = Student.load(tmp_path / "saved")
    assert values(loaded) == values(student) and loaded.max_positions == 40
    np.testing.assert_array_equal(loaded.encode(TEXTS), student.encode(TEXTS))


def change(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_persons_files_stay_and_ours_have_the_modes_of_the_umask(student, tmp_path):
    folder, before = tmp_path / "above" / "out", os.umask(0o027)
    try:
        student.export(folder)
        student.save(folder)
    finally:
        os.umask(before)
    for path in (tmp_path / "above").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640)
    (folder / "notes.txt").write_text("mine")
    for write in (student.save, student.export):
        with pytest.raises(ValueError, match="notes.txt was not written by"):
            write(folder)
    assert (folder / "notes.txt").read_text() == "mine"
    assert values(Student.load(folder)) == values(student)


def test_a_card_tells_numbers_what_it_is_given_and_code_that_runs(student, tmp_path, monkeypatch):
    card = {"limits": "about limits", "base_model": "a/b", "losses": "about losses"}
    card["scores"] = [{"model": "a|b", "WINES": 0.61249}, {"model": "TF-IDF", "WINES": "-"}]
    student.export(tmp_path / "plain")
    student.export(tmp_path / "out", card | {"own section": "more", "license": "mit"})
    plain, told = ((tmp_path / name / "README.md").read_text() for name in ("plain", "out"))
    _, metadata, text = told.split("---\n", 2)
    metadata = YAML(typ="safe", pure=True).load(metadata)
    assert metadata["library_name"] == "sentence-transformers" and metadata["license"] == "mit"
    assert "license:" not in plain and "None" not in plain and "## Losses" not in plain
    parameters = sum(parameter.numel() for parameter in student.parameters()) / 1e6
    for number in ("up to 40 tokens", "32 numbers", "2 layers", f"{parameters:.1f} million"):
        assert number in text and number in plain
    assert "| model | WINES |\n|---|---|\n| a\\|b | 0.612 |\n| TF-IDF | - |\n\n" in text
    assert all(part in text for part in ("about limits", "about losses", "## Own section\n\nmore"))
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        names = {"texts": TEXTS}
        exec(block, names)
        np.testing.assert_allclose(names["vectors"], student.encode(TEXTS), atol=1e-5)


def test_masked_language_model_checkpoints_load_and_keep_their_global_attention(tmp_path):
    sizes = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 64, "max_position_embeddings": 42, "attention_window": 8}
    LongformerForMaskedLM(transformers.LongformerConfig(**sizes)).save_pretrained(tmp_path / "mlm")
    Student.from_longformer(tmp_path / "mlm").save(tmp_path / "saved")
    stored, saved = (load_file(tmp_path / n / "model.safetensors") for n in ("mlm", "saved"))
    names = [name for name in stored if "lm_head" not in name]
    kept = {name.removeprefix("longformer."): stored[name] for name in names}
    assert any("query_global" in name for name in kept)
    assert all(torch.equal(saved[name], tensor) for name, tensor in kept.items())
    # The checkpoint has no pooler; a stock model gets zeros instead of random numbers.
    assert {*saved} - {*kept} == {"pooler.dense.weight", "pooler.dense.bias"}
    assert not saved["pooler.dense.weight"].any()


@pytest.fixture
def folder(student, tmp_path):
    """A saved student of two layers, 32 wide."""
    student.save(tmp_path / "student")
    return tmp_path / "student"


def test_a_weight_that_is_missing_is_named_in_one_line(folder):
    name = "encoder.layer.1.attention.self.query.weight"
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=f"cannot read .*student: .*it lacks {name}"):
        Student.load(folder)


def test_without_its_vocabulary_a_student_reads_ids_and_refuses_texts(folder):
    """tokenizer_config.json alone would give a tokenizer that knows no word."""
    expected = Student.load(folder).encode(["w1 w2"])
    (folder / "tokenizer.json").unlink()
    student = Student.load(folder)
    assert (student.encode([[2, 6, 7, 3]]) == expected).all()
    with pytest.raises(ValueError, match="has no tokenizer"):
        student.encode(["w1 w2"])


@pytest.mark.parametrize("known", [True, False], ids=["stock type", "own type"])
@pytest.mark.parametrize("load", [Student.load, lambda folder: SBERT.load(folder, max_tokens=8)])
def test_code_in_a_folder_is_never_run_nor_asked_about(folder, monkeypatch, load, known):
    asked, trace = [], folder.parent / "ran"
    monkeypatch.setattr("builtins.input", lambda prompt="": asked.append(prompt) or "y")
    load(folder)
    code = f"open({str(trace)!r}, 'w').close()\nclass Config: pass\nclass Model: pass\n"
    (folder / "evil.py").write_text(code)
    tokenizers = {"AutoTokenizer": ["evil.Model", "evil.Model"]}
    classes = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"} | tokenizers
    own = {} if known else {"model_type": "evil"}, {} if known else {"tokenizer_class": "E"}
    change(folder / "config.json", auto_map=classes, **own[0])
    change(folder / "tokenizer_config.json", auto_map=tokenizers, **own[1])
    try:
        load(folder)
    except ValueError as error:
        assert "\n" not in str(error) and not known
    assert not asked and not trace.exists()
