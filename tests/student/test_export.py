"""Saving, loading and exporting a student, and its tokenizer."""

from __future__ import annotations

import ast
import json
import os
import re
import resource
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest
import torch
from huggingface_hub import HfApi
from ruamel.yaml import YAML
from safetensors.torch import load_file
from tokenizers import Tokenizer
from transformers import AutoTokenizer, LongformerConfig, LongformerForMaskedLM, LongformerModel

from lib.config import paths
from lib.student import Student, export
from tests.student.tiny import make_student

TEXTS = ["w1 w2 w3", "w9 " * 20, "w5 w6"]


def values(student):
    return {name: tensor.tolist() for name, tensor in student.state_dict().items()}


@pytest.fixture
def student(tmp_path):
    return make_student(tmp_path)


def test_texts_and_their_ids_have_the_same_embedding(student):
    ids = student.tokenize(TEXTS)
    assert ids[0] == [2, 6, 7, 8, 3]
    np.testing.assert_array_equal(student.encode(TEXTS), student.encode(ids))


def test_names_of_special_tokens_in_a_text_are_read_alike_everywhere(student, tmp_path):
    """Also the padding, whose place is counted differently: in place of a word, first and last."""
    from sentence_transformers import SentenceTransformer

    texts = ["w1 [PAD] w2", "[PAD] w3", "w4 [PAD]", "w5 <pad> [SEP] w6 [MASK]", "[CLS] w1", "w1"]
    vectors = student.encode(texts)
    student.export(tmp_path / "out")
    stock = SentenceTransformer(str(tmp_path / "out"), device="cpu")
    np.testing.assert_allclose(stock.encode(texts), vectors, atol=1e-5)
    for alone, row in zip(texts, vectors, strict=True):
        np.testing.assert_allclose(stock.encode([alone])[0], row, atol=1e-5)
    ids = Tokenizer.from_file(str(tmp_path / "out/tokenizer.json")).encode_batch(texts)
    assert [each.ids for each in ids] == student.tokenize(texts)


def test_long_texts_are_cut(student):
    texts = ["w1 w2", "w7 " * 41, "w7 " * 38, "w7 " * 50_000]
    ids = student.tokenize(texts)
    assert [len(row) for row in ids] == [4, 40, 40, 40]
    assert ids[3] == [2, *[12] * 38, 3]
    assert student.encode(texts).shape == (4, 32)


def test_texts_and_ids_do_not_come_together(student):
    for texts, place in (([[2, 6, 3], "w1"], 0), (["w1", [2, 6, 3]], 1)):
        with pytest.raises(ValueError, match=rf"text {place} is \[2, 6, 3\]"):
            student.encode(texts)


def test_save_and_load_give_the_same_student(student, tmp_path):
    student.save(tmp_path / "saved")
    loaded = Student.load(tmp_path / "saved")
    assert values(loaded) == values(student) and loaded.max_positions == 40
    np.testing.assert_array_equal(loaded.encode(TEXTS), student.encode(TEXTS))
    assert loaded.tokenize(["w1 " * 99]) == student.tokenize(["w1 " * 99])


@pytest.mark.parametrize("place", ["lib.student.export.save_file", "lib.store.owned_folder._seal"])
def test_a_failed_save_leaves_the_old_folder(student, tmp_path, monkeypatch, place):
    target = tmp_path / "models" / "saved"
    student.save(target)
    before = values(student)
    with torch.no_grad():
        student.embeddings.LayerNorm.bias += 1

    def full_disk(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr(place, full_disk)
    with pytest.raises(
        ValueError, match="(cannot write .*saved|saved cannot be written): .*No space left"
    ):
        student.save(target)
    monkeypatch.undo()
    assert values(Student.load(target)) == before
    assert [path.name for path in target.parent.iterdir()] == ["saved"]


def test_a_full_disk_is_one_line_though_the_weights_are_written_by_another_library(
    student, tmp_path
):
    """The system's own refusal, here of files beyond a size."""
    target = tmp_path / "models" / "saved"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    student.unused["pooler.dense.weight"] = torch.zeros(200, 200)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(ValueError, match=r"cannot write .*saved: .*os error") as error:
            student.save(target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "\n" not in str(error.value) and not [*target.parent.iterdir()]


def test_the_saved_folder_is_a_stock_longformer(student, tmp_path):
    student.save(tmp_path / "saved")
    model, info = LongformerModel.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    ids = student.tokenize(TEXTS)[1]
    expected = model.eval()(input_ids=torch.tensor([ids])).last_hidden_state.mean(1)
    np.testing.assert_allclose(student.encode([ids]), expected.detach().numpy(), atol=1e-5)


def test_the_exported_folder_is_a_stock_sentence_transformer(student, tmp_path):
    student.export(tmp_path / "exported")
    from sentence_transformers import SentenceTransformer

    texts = [*TEXTS, "w3 w4 " * 100]
    model = SentenceTransformer(str(tmp_path / "exported"), device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert model.max_seq_length == 40
    np.testing.assert_allclose(model.encode(texts), student.encode(texts), atol=1e-5)
    assert "auto_map" not in json.loads((tmp_path / "exported" / "config.json").read_text())
    modules = json.loads((tmp_path / "exported" / "modules.json").read_text())
    assert [module["type"].rsplit(".", 1)[0] for module in modules] == [  # of all versions
        "sentence_transformers.models"
    ] * 2
    assert not list((tmp_path / "exported").rglob("*.py"))
    assert values(Student.load(tmp_path / "exported")) == values(student)


def test_a_saved_tokenizer_cuts_at_the_students_length_and_does_not_pad(student, tmp_path):
    student.tokenizer.backend_tokenizer.enable_padding(length=128)
    student.tokenizer.backend_tokenizer.enable_truncation(128)
    student.tokenizer.model_max_length = 128
    student.tokenizer.init_kwargs["max_length"] = 128
    student.save(tmp_path / "saved")
    stored = json.loads((tmp_path / "saved" / "tokenizer.json").read_text())
    assert stored["padding"] is None and stored["truncation"]["max_length"] == 40
    settings = json.loads((tmp_path / "saved" / "tokenizer_config.json").read_text())
    assert settings["model_max_length"] == 40 and 128 not in settings.values()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved", trust_remote_code=False)
    assert len(tokenizer("w1 " * 99, truncation=True)["input_ids"]) == 40


@pytest.mark.parametrize(
    ("umask", "file_mode", "folder_mode"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)]
)
@pytest.mark.parametrize("name", ["export", "save"])
def test_files_have_the_modes_of_the_umask(student, tmp_path, name, umask, file_mode, folder_mode):
    before = os.umask(umask)
    try:
        getattr(student, name)(tmp_path / "above" / "student")
        getattr(student, name)(tmp_path / "above" / "student")  # in the place of the first
    finally:
        os.umask(before)
    paths = [tmp_path / "above", *(tmp_path / "above").rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_file()} == {file_mode}
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {folder_mode}


def read_card(folder):
    """The metadata and the text of a model card."""
    _, metadata, text = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    return YAML(typ="safe", pure=True).load(metadata), text


def test_the_card_of_an_export_has_the_students_numbers_and_metadata(student, tmp_path):
    student.export(tmp_path / "exported")
    metadata, text = read_card(tmp_path / "exported")
    assert metadata["library_name"] == "sentence-transformers"
    assert metadata["pipeline_tag"] == "sentence-similarity"
    assert "longformer" in metadata["tags"] and not {"license", "base_model"} & metadata.keys()
    parameters = sum(parameter.numel() for parameter in student.parameters()) / 1e6
    for number in ("up to 40 tokens", "32 numbers", "2 layers", f"{parameters:.1f} million"):
        assert number in text
    assert "None" not in text and "## Teachers" not in text
    student.save(tmp_path / "saved")
    assert not (tmp_path / "saved" / "README.md").exists()


def test_the_code_in_the_card_runs_and_both_ways_agree(student, tmp_path, monkeypatch):
    student.export(tmp_path / "exported")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", read_card(tmp_path / "exported")[1], re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        names = {"texts": TEXTS}
        exec(block, names)
        np.testing.assert_allclose(names["vectors"], student.encode(TEXTS), atol=1e-5)


def test_the_card_of_an_export_tells_what_it_is_given(student, tmp_path):
    card = {
        "title": "Mine: a student",
        "base_model": "owner/base",
        "teachers": ["SBERT", "Paragraph Vector"],
        "losses": "cosine",
        "data": {"news": "0.5 of 1,400 documents"},
        "training": {"updates": 40},
        "scores": [{"model": "a|b", "WINES": 0.61249}, {"model": "TF-IDF", "WINES": "-"}],
        "verdict": ["WINES: the student is better than the base, where it started"],
        "limits": ["English alone."],
        "license": "mit",
        "provenance": {"commit": "0dc0219", "torch": "2.13.0"},
    }
    student.export(tmp_path / "exported", card)
    metadata, text = read_card(tmp_path / "exported")
    assert metadata["license"] == "mit" and metadata["base_model"] == "owner/base"
    for told in (
        "# Mine: a student\n",
        "- SBERT\n- Paragraph Vector\n",
        "- news: 0.5 of 1,400 documents\n",
        "| model | WINES |\n|---|---|\n| a\\|b | 0.612 |\n| TF-IDF | - |\n\n",
        "- commit: 0dc0219\n- torch: 2.13.0\n",
        "\n- English alone.\n",
    ):
        assert told in text
    headings = [line.lower().replace(" ", "_") for line in re.findall("^## (.*)$", text, re.M)]
    assert headings == ["use", "speed", *export.SECTIONS[:-1], "licence"]
    assert values(Student.load(tmp_path / "exported")) == values(student)


@pytest.mark.parametrize("base", ["/home/me/base", "./base", "~/base", "base"])
def test_a_base_that_is_no_hub_id_stays_out_of_the_metadata(student, tmp_path, base):
    student.export(tmp_path / "exported", {"base_model": base})
    metadata, text = read_card(tmp_path / "exported")
    assert "base_model" not in metadata and f"## Base model\n\n{base}\n" in text


def test_push_to_hub_hands_the_library_an_export_that_loads_from_there(
    student, tmp_path, monkeypatch
):
    hub = create_autospec(HfApi)  # refuses calls that the library would refuse
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    upload = hub.return_value.upload_folder
    upload.side_effect = lambda *, folder_path, **_: shutil.copytree(folder_path, tmp_path / "hub")
    student.push_to_hub("me/mine", card={"license": "mit"}, private=True, commit_message="first")
    hub.return_value.create_repo.assert_called_once_with("me/mine", private=True, exist_ok=True)
    assert (
        upload.call_args.kwargs.items() >= {"repo_id": "me/mine", "commit_message": "first"}.items()
    )
    metadata, text = read_card(tmp_path / "hub")
    assert metadata["license"] == "mit" and text.startswith("# mine")
    (tmp_path / "hub" / ".gitattributes").write_text("*.safetensors filter=lfs\n")  # the hub's own
    np.testing.assert_array_equal(
        Student.load(tmp_path / "hub").encode(TEXTS), student.encode(TEXTS)
    )


def test_nothing_is_uploaded_if_the_export_fails(student, monkeypatch):
    hub = create_autospec(HfApi)
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    with pytest.raises(ValueError, match="no 'licence'"):
        student.push_to_hub("me/mine", card={"licence": "mit"})
    assert not hub.return_value.mock_calls


def test_an_unknown_key_of_a_card_is_refused_before_anything_is_written(student, tmp_path):
    with pytest.raises(ValueError, match="^a model card has no 'licence'; expected any of title"):
        student.export(tmp_path / "exported", {"licence": "mit"})
    assert not (tmp_path / "exported").exists()


def test_an_installed_lib_has_the_template_of_the_card(tmp_path):
    """What `pip install` copies."""
    for name in ("lib", "pyproject.toml", "README.md", "LICENSE"):
        (tmp_path / name).symlink_to(paths.ROOT / name)
    code = "from setuptools import setup; setup()"
    command = [sys.executable, "-c", code, "-q", "build", "--build-base", "built"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    templates = {path.relative_to(paths.ROOT) for path in (paths.ROOT / "lib").rglob("*.j2")}
    assert Path("lib/student/card.md.j2") in templates
    assert {
        path.relative_to(tmp_path / "built/lib") for path in tmp_path.glob("built/lib/**/*.j2")
    } == templates


@pytest.mark.parametrize(
    ("script", "absent", "extra"),
    [("to_onnx", "onnxscript", "onnx"), ("mteb_task", "mteb", "mteb")],
)
def test_a_script_without_its_extra_is_one_line(monkeypatch, script, absent, extra):
    """A name that is None in sys.modules cannot be imported."""
    monkeypatch.setitem(sys.modules, absent, None)
    monkeypatch.setattr(sys, "argv", [script, "student", "out"])
    with pytest.raises(SystemExit) as error:
        runpy.run_path(str(paths.ROOT / "docs" / f"{script}.py"), run_name="__main__")
    assert str(error.value).endswith(f"needs: pip install -e '.[{extra}]'")
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_mteb_scores_an_export_on_a_dataset_folder_offline(student, tmp_path):
    """Two classes that share no word, by the script of docs/export.md."""
    pytest.importorskip("mteb")  # the extra `mteb`
    student.export(tmp_path / "exported")
    task = tmp_path / "own" / "tasks" / "topic"
    task.mkdir(parents=True)
    for split, first in {"train": 0, "test": 20}.items():
        rows = [
            {"id": str(number), "label": "even" if number % 2 == 0 else "odd"}
            for number in range(first, first + 20)
        ]
        (task / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    texts = [
        {"id": str(number), "text": f"w{number % 2} w{number % 2} w{number}"}
        for number in range(40)
    ]
    (tmp_path / "own" / "documents.jsonl").write_text("\n".join(map(json.dumps, texts)))
    command = [sys.executable, paths.ROOT / "docs" / "mteb_task.py", tmp_path / "exported", task]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    name, accuracy = done.stdout.splitlines()[-1].split()
    assert name == "own-topic" and float(accuracy) > 0.8


def test_mteb_is_told_what_the_export_tells(student, tmp_path):
    pytest.importorskip("mteb")  # the extra `mteb`
    card = {"license": "mit", "base_model": "owner/base"}
    student.export(tmp_path / "exported", card)
    script = paths.ROOT / "docs" / "mteb_task.py"
    command = [sys.executable, script, tmp_path / "exported", "--meta", "me/mine"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    facts = ast.parse(done.stdout[done.stdout.index("ModelMeta(") :], mode="eval").body.keywords
    told = {fact.arg: getattr(fact.value, "value", None) for fact in facts}
    weights = load_file(tmp_path / "exported" / "model.safetensors").values()
    assert told.items() >= {"name": "me/mine", "embed_dim": 32, "max_tokens": 40}.items()
    assert (told["license"], told["adapted_from"]) == ("mit", "owner/base")
    assert told["n_parameters"] == sum(weight.numel() for weight in weights)


def test_export_needs_a_tokenizer(student, tmp_path):
    student.tokenizer = None
    with pytest.raises(ValueError, match="needs a tokenizer"):
        student.export(tmp_path / "exported")
    student.save(tmp_path / "saved")
    assert Student.load(tmp_path / "saved").tokenizer is None


def test_masked_language_model_checkpoints_load_and_keep_their_global_attention(tmp_path):
    torch.manual_seed(0)
    config = LongformerConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=42,
        attention_window=8,
    )
    LongformerForMaskedLM(config).save_pretrained(tmp_path / "mlm")
    stored = load_file(tmp_path / "mlm" / "model.safetensors")
    Student.from_longformer(tmp_path / "mlm").save(tmp_path / "saved")
    saved = load_file(tmp_path / "saved" / "model.safetensors")
    kept = [name for name in stored if name.startswith("longformer.")]
    assert any("query_global" in name for name in kept)
    for name in kept:
        assert torch.equal(saved[name.removeprefix("longformer.")], stored[name]), name
    # The checkpoint has no pooler; a stock model gets zeros for it instead of a warning and random
    # numbers.
    added = set(saved) - {name.removeprefix("longformer.") for name in kept}
    assert added == {"pooler.dense.weight", "pooler.dense.bias"}
