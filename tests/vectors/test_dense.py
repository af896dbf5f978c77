"""Vectors are kept under all that decides them."""

import pytest

from lib.student import Student
from lib.vectors import dense
from lib.vectors.names import STUDENT
from tests.student.tiny import make_student


def test_students_of_the_same_weights_have_tables_of_their_own(tmp_path):
    make_student(tmp_path)
    keys = set()
    for window, name in ((4, "a"), (8, "b"), (8, "c")):
        Student.from_encoder(tmp_path / "bert", [0, 1], window, 40).save(tmp_path / name)
        model = dense.list_models(tmp_path / name)[STUDENT]
        keys.add(model.table.key)
        assert model.longest == 40
    assert len(keys) == 2


def test_a_student_that_cannot_read_texts_is_refused_at_once(tmp_path):
    student = make_student(tmp_path)
    with pytest.raises(ValueError, match="is a bert, expected a longformer"):
        dense.list_models(tmp_path / "bert")
    student.tokenizer = None
    student.save(tmp_path / "mute")
    with pytest.raises(ValueError, match="mute: .*tokenizer"):
        dense.list_models(tmp_path / "mute")
