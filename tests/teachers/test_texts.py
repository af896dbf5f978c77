"""What both teachers refuse, each rule once."""

import pytest

from lib.teachers.texts import check


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["river", " \n"], r"text 1 is ' \\n'"),
        (["river", None], "expected texts with words, text 1 is None"),
        ("river", "got a single text"),
        ([], "at least one text"),
    ],
)
def test_what_is_no_text_is_named(texts, message):
    with pytest.raises(ValueError, match=message):
        check(texts)
