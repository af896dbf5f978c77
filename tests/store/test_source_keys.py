"""Keys of code: what an import statement reaches, what a change of a source changes."""

import pytest

from lib.store import source_keys
from lib.store.source_keys import closure, home, source_key, without_docstrings

SOURCES = {
    "lib/__init__.py": "",
    "lib/a.py": "from __future__ import annotations\nimport numpy\nfrom lib.b import f\n",
    "lib/b.py": "def f():\n    from lib.room import used\n    return used()\n",
    "lib/room/__init__.py": "from lib.room.one import used\nfrom lib.room.two import unused\nVALUE = 1\n",
    "lib/room/one.py": "import lib.c\ndef used(): return lib.c.VALUE\n",
    "lib/room/two.py": "def unused(): return 2\n",
    "lib/c.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lib.d import T\nVALUE = 3\n",
    "lib/d.py": "T = int\n",
    "lib/whole.py": "from lib import room\nfrom lib.room import VALUE\n",
    "lib/circle.py": "from lib import whole, circle\n",
    "lib/relative.py": "from . import a\n",
}


def forget():
    """Read every source anew."""
    for remembered in (source_key, source_keys.imports, home, source_keys._path):
        remembered.cache_clear()


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A small project; returns a function that writes one of its files anew."""

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
        forget()

    monkeypatch.setattr(source_keys, "ROOT", tmp_path)
    for path, text in SOURCES.items():
        write(path, text)
    yield write
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("module", "stop", "reached"),
    [
        (
            "lib.a",
            (),
            ["lib.a", "lib.b", "lib.c", "lib.room.one"],
        ),  # in a function, re-exported; not for type checkers
        ("lib.a", ("lib.room",), ["lib.a", "lib.b"]),  # a package and all in it
        ("lib.a", ("lib.roo",), ["lib.a", "lib.b", "lib.c", "lib.room.one"]),  # whole names only
        ("lib.a", ("lib.a", "lib.b"), ["lib.a"]),  # the module itself always counts
        ("lib.whole", (), ["lib.c", "lib.room", "lib.room.one", "lib.room.two", "lib.whole"]),
        ("lib.circle", ("lib.room",), ["lib.circle", "lib.whole"]),
    ],
)
def test_closure(tree, module, stop, reached):
    assert closure(module, stop=stop) == reached


@pytest.mark.parametrize(
    ("path", "text", "changes"),
    [
        ("lib/c.py", SOURCES["lib/c.py"].replace("3", "4"), True),
        ("lib/b.py", SOURCES["lib/b.py"].replace("used()", "not used()"), True),
        (
            "lib/room/__init__.py",
            "from lib.room.two import unused as used\n",
            True,
        ),  # another function behind the name
        ("lib/c.py", '"""Words."""\n' + SOURCES["lib/c.py"] + "# why\n", False),
        ("lib/room/two.py", "", False),
        (
            "lib/room/__init__.py",
            SOURCES["lib/room/__init__.py"] + "from lib.d import T\n",
            False,
        ),  # one more name
    ],
)
def test_a_key_changes_with_what_the_module_runs_and_with_nothing_else(tree, path, text, changes):
    before = source_key("lib.a")
    tree(path, text)
    assert (source_key("lib.a") != before) == changes


def test_what_cannot_be_followed_is_refused(tree):
    with pytest.raises(ValueError, match=r"lib.relative, line 1: relative import"):
        source_key("lib.relative")
    with pytest.raises(ValueError, match="no source for module 'lib.no_such_loss'"):
        source_key("lib.no_such_loss")


def test_a_name_leads_to_the_module_that_defines_it(tree):
    assert [home("lib.room", name) for name in ("used", "one", "VALUE")] == [
        "lib.room.one",
        "lib.room.one",
        "lib.room",
    ]


@pytest.mark.parametrize(
    ("package", "behind"),
    [
        ("", "lib.room.two"),  # the submodule
        ("from lib.room.one import used as two\n", "lib.room.one"),
        (
            "from lib.room.two import unused as two\nfrom lib.room.one import used as two\n",
            "lib.room",
        ),
        ("from lib.room.one import used as two\ndef two(): return 3\n", "lib.room"),
        ("from lib.room.one import used\ntwo = used\n", "lib.room"),
        ("if True:\n    from lib.room.one import used as two\n", "lib.room.one"),
        ("from lib.room import two\n", "lib.room.two"),
        ("from lib.room import one as two\n", "lib.room.one"),
        ("from lib.d import T as two\n", "lib.room"),
        ("def one():\n    two = 2\n", "lib.room.two"),  # bound inside a function only
    ],
)
def test_what_a_package_binds_itself_goes_before_its_submodule_of_that_name(tree, package, behind):
    tree("lib/room/__init__.py", package)
    assert home("lib.room", "two") == behind


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ('def f(x):\n    """Other words."""\n    return x + 1  # why', True),
        ("def f(x): return (x + 1)", True),
        ("def f(x): return x - 1", False),
        ('def f(x): return x + 1 or "text"', False),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(other, same):
    source = 'def f(x):\n    """Words."""\n    return x + 1'
    assert (without_docstrings(other) == without_docstrings(source)) == same
