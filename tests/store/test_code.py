"""What counts as code, and what does not."""

import pytest

from lib.store import code

SOURCE = '''
"""A module."""
import warnings

LIMIT = 3


def scale(values: list[float], factor: float = 2.0) -> list[float]:
    """Multiply."""
    if factor < 0:
        told = f"factor is {factor}"
        raise ValueError(f"expected a factor above 0; {told}")
    if factor > LIMIT:
        warnings.warn("large factor", stacklevel=2)
    name = "scaled"
    return [factor * value for value in values], name  # the product
'''


def fingerprint(source: str) -> str:
    return code._fingerprint_source(source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("expected a factor above 0;", "expected a factor above 0,"),
        ("factor is {factor}", "the factor is {factor}"),
        ("large factor", "a large factor"),
        ("Multiply.", "Multiply each value."),
        ("A module.", "Another description."),
        ("values: list[float]", "values: tuple[float, ...]"),
        (" -> list[float]", ""),
        ("# the product", "# another comment"),
        ("    name =", "\n    name ="),
    ],
)
def test_what_changes_no_value_changes_no_fingerprint(old, new):
    assert old in SOURCE
    assert fingerprint(SOURCE.replace(old, new)) == fingerprint(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("factor < 0", "factor <= 0"),
        ("factor: float = 2.0", "factor: float = 3.0"),
        ("factor * value", "factor + value"),
        ('name = "scaled"', 'name = "other"'),
        ("raise ValueError", "raise TypeError"),
        ("return [", "return [0.0] + ["),
    ],
)
def test_what_may_change_a_value_changes_the_fingerprint(old, new):
    assert old in SOURCE
    assert fingerprint(SOURCE.replace(old, new)) != fingerprint(SOURCE)


def test_imports_count_where_they_are_entered():
    modules = code.list_imported(("lib.distillation.objective",), ("lib.losses",))
    assert "lib.distillation.projection" in modules
    assert not [name for name in modules if name.startswith("lib.losses")]
    assert "lib.losses.cosine" in code.list_imported(("lib.losses.cosine",), ("lib.losses",))


def test_a_module_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match=r"lib\.nothing"):
        code.fingerprint_code(("lib.nothing",))
    assert code.fingerprint_module("lib.nothing") is None
