"""What is written is read by others as it was: at every length, from every base, in every file."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertModel,
    LongformerConfig,
    LongformerModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from lib.store.owned_folder import SEAL, check_target
from lib.student import Student, export

SPECIAL = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>"}
SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "initializer_range": 0.3,
}


def save_tokenizer(folder, padding, **settings):
    """Words w0 to w99; the padding has an id of the base's kind."""
    first, second = (0, 1) if padding == 0 else (1, 0)
    words = {"<pad>": first, "<unk>": second, "<s>": 2, "</s>": 3}
    words |= {f"w{number}": number + 4 for number in range(100)}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.BertProcessing(("</s>", 3), ("<s>", 2))
    names = {f"{name}_token": token for name, token in SPECIAL.items()}
    options = {"model_max_length": 16} | names | settings
    PreTrainedTokenizerFast(tokenizer_object=backend, **options).save_pretrained(folder)
    return len(words)


@pytest.fixture
def make(tmp_path):
    """A student of a base of any kind."""

    def make_student(kind="bert", window=8, limit=24, dtype=torch.float32, **settings):
        torch.manual_seed(0)
        base = tmp_path / "base"
        padding = 0 if kind == "bert" else 1
        sizes = SIZES | {"vocab_size": save_tokenizer(base, padding, **settings)}
        sizes["pad_token_id"] = padding
        if kind == "longformer":
            sizes |= {"attention_window": window, "max_position_embeddings": limit + 2}
            LongformerModel(LongformerConfig(**sizes)).to(dtype).save_pretrained(base)
            return Student.from_longformer(base)
        config, model = {"bert": (BertConfig, BertModel), "roberta": (RobertaConfig, RobertaModel)}[
            kind
        ]
        model(config(max_position_embeddings=18, **sizes)).to(dtype).save_pretrained(base)
        return Student.from_encoder(base, [0], window, limit)

    return make_student


def read_all(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def list_texts(limit):
    """Of 1, limit - 1, limit, limit + 1 and twice limit tokens, two special ones among them."""
    counts = (1, limit - 3, limit - 2, limit - 1, 2 * limit - 2)
    texts = [" ".join(f"w{(7 * n) % 100}" for n in range(count)) for count in counts]
    return [*texts, "w1 <pad> w2", "strange w3"]


@pytest.mark.parametrize("kind", ["bert", "roberta", "longformer"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("window, limit", [(8, 24), (6, 25), (64, 20), (4, 9)])
def test_an_export_gives_the_same_vectors_at_every_length(
    make, tmp_path, kind, side, window, limit
):
    from sentence_transformers import SentenceTransformer

    student = make(kind, window, limit, truncation_side=side, padding_side=side)
    student.export(tmp_path / "out")
    texts, ids = list_texts(limit), student.tokenize(list_texts(limit))
    assert [len(row) for row in ids[:5]] == [3, limit - 1, limit, limit, limit]
    stored = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
    assert [stored.encode(text).ids for text in texts] == ids
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    expected = student.encode(texts)
    for size in (1, len(texts)):
        vectors = model.encode(texts, batch_size=size)
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_array_equal(Student.load(tmp_path / "out").encode(texts), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["bert", "longformer"])
def test_a_base_in_half_precision_is_read_and_written_in_float32(make, tmp_path, kind, dtype):
    student = make(kind, dtype=dtype)
    assert {parameter.dtype for parameter in student.parameters()} == {torch.float32}
    student.export(tmp_path / "out")
    stored = load_file(tmp_path / "out/model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    assert json.loads((tmp_path / "out/config.json").read_text())["dtype"] == "float32"


def lose_a_weight(folder):
    tensors = load_file(folder / "model.safetensors")
    tensors["embeddings.LayerNorm.bias"] += 1
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def change(name, **values):
    def damage(folder):
        content = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(content | values))

    return damage


def lose_the_vocabulary(folder):
    text = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(text.replace('"w7"', '"v7"'))


BOTH = {
    "weights": lose_a_weight,
    "window": change("config.json", attention_window=[4]),
    "padding": change("config.json", pad_token_id=3),
    "vocabulary": lose_the_vocabulary,
    "cut": change("tokenizer.json", truncation=None),
}
EXPORTED = {
    "length": change("sentence_bert_config.json", max_seq_length=9),
    "pooling": change("1_Pooling/config.json", pooling_mode="cls", pooling_mode_mean_tokens=False),
    "case": change("sentence_bert_config.json", do_lower_case=True),
}


@pytest.mark.parametrize("name", [*BOTH, *EXPORTED])
@pytest.mark.parametrize("way", ["save", "export"])
def test_what_is_read_otherwise_is_not_written(make, tmp_path, monkeypatch, way, name):
    """As if another version of a library wrote or read something else."""
    if way == "save" and name in EXPORTED:
        pytest.skip("no such file")
    student = make(unk_token="<unk>")
    getattr(student, way)(tmp_path / "out")
    before = {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }
    last = "_write_longformer" if name in BOTH else "_write_modules"
    write = getattr(export, last)

    def write_and_damage(checkpoint, folder):
        write(checkpoint, folder)
        (BOTH | EXPORTED)[name](folder)

    monkeypatch.setattr(export, last, write_and_damage)
    for target in ("out", "new"):
        with pytest.raises(ValueError, match=rf"cannot write .*{target}: ") as error:
            getattr(student, way)(tmp_path / target)
        assert "\n" not in str(error.value)
    after = {
        path.name: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }
    assert before == after and not (tmp_path / "new").exists()


def test_a_window_that_others_cannot_read_is_refused_before_any_work(make):
    """Hugging Face's Longformer fails at a window of one token on each side."""
    for kind in ("bert", "longformer"):
        with pytest.raises(ValueError, match="attention_window must be an even .* at least 4"):
            make(kind, window=2)


def test_an_export_that_others_cannot_batch_is_refused(make, tmp_path):
    """Without a padding token sentence-transformers fails at the second text."""
    student = make()
    student.tokenizer.pad_token = None
    with pytest.raises(ValueError, match=r"cannot write .*out: .*pad"):
        student.export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def edit_card(folder):
    with (folder / "README.md").open("a") as stream:
        stream.write("\nlicence: mine\n")


def lower_the_length(folder):
    change("sentence_bert_config.json", max_seq_length=9)(folder)


def add_notes(folder):
    (folder / "notes.txt").write_text("mine")


@pytest.mark.parametrize("edit", [edit_card, lower_the_length], ids=["card", "length"])
def test_an_edited_card_is_a_warning_and_not_overwritten(make, tmp_path, edit):
    student = make()
    student.export(tmp_path / "out")
    edit(tmp_path / "out")
    with pytest.warns(UserWarning, match="out/.* was changed since this project wrote it"):
        loaded = Student.load(tmp_path / "out")
    np.testing.assert_array_equal(loaded.encode(["w1 w2"]), student.encode(["w1 w2"]))
    with pytest.raises(ValueError, match="did not write, or that were changed since"):
        student.export(tmp_path / "out")


def reformat(folder):
    for path in folder.rglob("*.json"):
        if path.name != SEAL:
            path.write_text(json.dumps(json.loads(path.read_text()), indent=1))


def end_lines_as_windows(folder):
    for path in [*folder.rglob("*.json"), *folder.glob("*.md")]:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize(
    "edit", [reformat, end_lines_as_windows, add_notes], ids=lambda f: f.__name__
)
def test_other_spaces_in_its_files_and_files_beside_them_do_no_harm(make, tmp_path, edit):
    student = make()
    student.save(tmp_path / "out")
    edit(tmp_path / "out")
    with warnings.catch_warnings(action="error"):
        loaded = Student.load(tmp_path / "out")
    np.testing.assert_array_equal(loaded.encode(["w1 w2"]), student.encode(["w1 w2"]))
    if edit is add_notes:
        with pytest.raises(ValueError, match="did not write"):
            student.save(tmp_path / "out")


@pytest.mark.parametrize("name", [".DS_Store", "._config.json", "Thumbs.db", "1_Pooling/.DS_Store"])
def test_what_systems_leave_in_a_folder_is_no_work_of_a_person(make, tmp_path, name):
    student = make()
    student.export(tmp_path / "out")
    (tmp_path / "out" / name).write_bytes(b"\0")
    assert check_target(tmp_path / "out")
    student.export(tmp_path / "out")
    assert not (tmp_path / "out" / name).exists()


def test_a_copy_that_lost_its_weights_is_refused_however_its_card_is(make, tmp_path):
    make().export(tmp_path / "out")
    edit_card(tmp_path / "out")
    lose_a_weight(tmp_path / "out")
    shutil.copytree(tmp_path / "out", tmp_path / "copy")
    with pytest.raises(ValueError, match="cannot read .*copy: .*model.safetensors"):
        Student.load(tmp_path / "copy")


def test_a_folder_that_others_cut_elsewhere_is_a_warning(make, tmp_path):
    """As sentence-transformers saves an export, and no seal of ours beside it."""
    from sentence_transformers import SentenceTransformer

    student = make()
    student.export(tmp_path / "out")
    model = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    model.save_pretrained(str(tmp_path / "same"))
    with warnings.catch_warnings(action="error"):
        loaded = Student.load(tmp_path / "same")
    np.testing.assert_array_equal(loaded.encode(list_texts(24)), student.encode(list_texts(24)))
    model.max_seq_length = 9
    model.save_pretrained(str(tmp_path / "shorter"))
    with pytest.warns(
        UserWarning, match="reads 24 tokens; sentence-transformers would cut texts at 9"
    ):
        Student.load(tmp_path / "shorter")


@pytest.mark.parametrize("way", ["save", "export"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_a_student_in_half_precision_is_written_in_float32(make, tmp_path, way, dtype):
    student = make().to(dtype)
    getattr(student, way)(tmp_path / "out")
    stored = load_file(tmp_path / "out/model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {torch.float32}
    expected = make().encode(["w1 w2 w3"])
    assert 0 < np.abs(Student.load(tmp_path / "out").encode(["w1 w2 w3"]) - expected).max() < 0.05


def test_a_token_without_weights_is_a_warning(make, tmp_path):
    student = make()
    student.tokenizer.add_tokens(["<added>"])
    with pytest.warns(UserWarning, match="'<added>' has no embedding"):
        student.export(tmp_path / "out")
    with pytest.warns(UserWarning, match="'<added>' has no embedding"):
        Student.load(tmp_path / "out")


def test_the_current_folder_is_no_target(make, tmp_path, monkeypatch):
    """A shell would go on showing the empty folder that was replaced."""
    student = make()
    (tmp_path / "here/below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here/below")
    for target in (".", "..", tmp_path / "here/below"):
        with pytest.raises(ValueError, match="is or contains the current folder; name another"):
            student.export(target)
