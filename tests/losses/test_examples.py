"""The examples in the losses' docstrings give what they print."""

import doctest

import pytest

from lib import losses


@pytest.mark.parametrize("name", losses.__all__)
def test_examples_of_the_docstring(name):
    text = getattr(losses, name).__doc__
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    result = doctest.DocTestRunner().run(examples)
    assert result.attempted and not result.failed
