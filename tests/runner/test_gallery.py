"""The page of all figures: what was saved is on it, and its links lead to what made it."""

from __future__ import annotations

import re
import shutil

import nbformat
import pytest

from lib.config import manifest, paths, profiles
from lib.runner.gallery import find_code, gallery_page

DRAWING = "from lib import figures\nfrom lib.chapters import chapter4\n"


@pytest.fixture(scope="module")
def page():
    return gallery_page(profiles.load("mini"), paths.ROOT / "docs")


def list_targets(page):
    return re.findall(r'(?<=\]\()(?!http)[^)]+|(?<=src=")[^"]+', page)


def test_every_link_and_picture_of_the_page_is_there(page):
    targets = list_targets(page)
    assert targets and all((paths.ROOT / "docs" / target).is_file() for target in targets)


def test_what_is_saved_is_on_the_page_with_its_command_and_nothing_else(page):
    profile = profiles.load("mini")
    saved = [
        entry.label
        for entry in manifest.load().values()
        if all(file.is_file() for file in entry.paths(profile))
    ]
    assert sorted(re.findall(r"`\./run_all\.sh mini (\w+)`", page)) == sorted(saved)


def test_a_figure_comes_by_section_then_by_number(page):
    places = [page.index(f"mini {label}`") for label in ("fig4_2", "fig4_9", "fig4_10", "fig5_1")]
    assert places == sorted(places)
    assert page.index("mini figA_1`") < page.index("mini figA_5`")


def test_what_a_changed_profile_has_not_drawn_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("THESIS_ARTIFACTS", str(tmp_path))
    profile = profiles.load("mini", seeds=[1])
    folder = paths.figures(profile)
    folder.mkdir(parents=True)
    for suffix in (".svg", ".csv"):
        shutil.copy(paths.ROOT / f"figures/mini/fig4_4{suffix}", folder)
    page = gallery_page(profile, tmp_path / "pages")
    assert re.findall(r"run_all\.sh mini (\w+)", page) == ["fig4_4"] and "Chapter 5" not in page
    (tmp_path / "pages").mkdir()
    targets = list_targets(page)
    assert targets and all((tmp_path / "pages" / target).is_file() for target in targets)


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ('nb.save(figures.violins(data), "fig4_4", data)', "figures/distributions.py"),
        ('table = chapter4.draw(1)\nnb.save(figures.dots(x), "fig5_5", x)', None),
        (
            'figure = figures.dots(x)\nfigure = figures.violins(x)\nnb.save(figure, "fig4_4")',
            "figures/distributions.py",
        ),
        ('figure, rows = figures.dots(data)\nnb.save(figure, "fig4_4", rows)', "figures/scores.py"),
        (
            'table = pd.concat([figures.dots(x)])\nnb.save_table(table, "fig4_4")',
            "figures/scores.py",
        ),
        ('nb.save(plt.figure(), "fig4_4", data)', None),
        ('for label in ["fig4_4"]:\n    nb.save(figures.dots(x), label, x)', None),
    ],
)
def test_code_is_the_function_that_a_saved_value_came_from(source, module, tmp_path):
    cells = [nbformat.v4.new_markdown_cell("# 03"), nbformat.v4.new_code_cell(DRAWING + source)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "03.ipynb")
    found = find_code(tmp_path / "03.ipynb", "fig4_4")
    assert found == (paths.ROOT / "lib" / module if module else None)
