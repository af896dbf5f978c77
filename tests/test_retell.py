"""Sentences are found and written anew wherever lines break in them."""

import json
import shutil

import pytest

from lib.config import paths
from tests import retell, test_told_numbers
from tests.test_notebooks_style import NUMBERED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ahead by .077\n[.026, .128].", "ahead by .08\n[.03, .13]."),
        (
            "ahead by 1.077 [.026, .128]",
            "ahead by 1.077 [.026, .128]",
        ),  # another number ends like it
        ("by .077 [.026, .128], .077 [.026, .128]", "by .08 [.03, .13], .08 [.03, .13]"),
    ],
)
def test_a_sentence_is_replaced_as_it_stands(text, expected):
    assert retell.replaced(text, ".077 [.026, .128]", ".08 [.03, .13]") == (
        expected,
        text.count("[") * (text != expected),
    )


def test_a_sentence_of_other_length_is_written_on_one_line():
    assert retell.replaced("of eleven\nmodels", "eleven models", "thirteen other models") == (
        "of thirteen other models",
        1,
    )


def test_every_told_sentence_is_found_and_nothing_else_changes(tmp_path, monkeypatch):
    files = {
        name: f"notebooks/{name}.ipynb" if name in NUMBERED else name
        for name in test_told_numbers.TOLD
    }
    for file in files.values():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(paths.ROOT / file, tmp_path / file)
    told = {name: sentences() for name, sentences in test_told_numbers.TOLD.items()}
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    before = {name: (tmp_path / file).read_text(encoding="utf-8") for name, file in files.items()}
    for name, sentences in told.items():
        assert (
            retell.retell(name, {old: f"told {number}" for number, old in enumerate(sentences)})
            == []
        )
    for name, sentences in told.items():
        after = (tmp_path / files[name]).read_text(encoding="utf-8")
        assert after != before[name] and retell.retell(name, {sentences[0]: "absent"}) == [
            f"{name}: {sentences[0]}"
        ]
        if name in NUMBERED:
            cells, others = (json.loads(text)["cells"] for text in (before[name], after))
            assert [c for c in cells if c["cell_type"] == "code"] == [
                c for c in others if c["cell_type"] == "code"
            ]
