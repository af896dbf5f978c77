"""What both teachers refuse, each rule once."""

import pytest

from lib.teachers.texts import check


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["river", " \n"], "text 1 is empty"),
        (["river", None], "text 1 is of type NoneType, expected str"),
        ("river", "got a single text"),
        ([], "at least one text"),
    ],
)
def test_what_is_no_text_is_named(texts, message):
    with pytest.raises(ValueError, match=message):
        check(texts)
