"""`index.html` in a real browser: searched, looked at, on a desktop and a phone, without a network.

It needs Debian's Chromium and playwright (the extra `browser`); `tests/run.sh` installs both.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from lib.vectors import page
from lib.vectors.page import Entry

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
playwright = pytest.importorskip(
    "playwright.sync_api", reason='no playwright here: see "browser" in pyproject.toml'
)
SIZES = {"desktop": (1300, 900), "phone": (390, 780)}
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run"]


def make_text(n):
    return f"<b>Text</b> {n} of the {('river', 'judge')[n % 2]} " * 20


def make_page(folder, count):
    generator = np.random.default_rng(0)
    kinds = np.arange(count) % 2
    vectors = np.eye(8)[kinds] + generator.normal(scale=0.1, size=(count, 8))
    entries = [
        Entry(
            f"{('Voilier', 'Court')[kind]} {n}",
            make_text(n),
            ("water", "law")[kind],
        )
        for n, kind in enumerate(kinds)
    ]
    facts = {"documents": count, "verdict": "EQUAL", "scores": [{"measure": "m", "value": "1"}]}
    path = folder / "index.html"
    path.write_text(page.render_page("My texts", entries, vectors, facts), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(params=SIZES)
def tab(request, browser, tmp_path):
    width, height = SIZES[request.param]
    context = browser.new_context(viewport={"width": width, "height": height}, offline=True)
    tab = context.new_page()
    tab.problems = []
    tab.on("console", lambda m: tab.problems.append(m.text) if m.type == "error" else None)
    tab.on("pageerror", lambda error: tab.problems.append(str(error)))
    tab.on("requestfailed", lambda request: tab.problems.append(request.url))
    tab.goto(make_page(tmp_path, 60).as_uri())
    yield tab
    assert tab.problems == []
    context.close()


def test_search_finds_titles_and_texts_and_marks_them(tab):
    results = tab.locator("#results li")
    assert results.count() == 50 and "first 50" in tab.locator("#status").inner_text()
    tab.locator("#query").fill("judge")
    assert "30 of 60" in tab.locator("#status").inner_text()
    assert tab.locator("#results mark").first.inner_text() == "judge"
    found = results.first.locator("p").inner_text()
    assert "<b>Text</b>" in found, "a text is no HTML"
    assert {*found.split()} <= {*make_text(1).split(), "…"}, "words are whole"
    tab.locator("#query").fill("VOILIER 58 river")
    assert results.first.locator("button").inner_text() == "Voilier 58"
    tab.locator("#query").fill("zebra")
    assert "0 of 60" in tab.locator("#status").inner_text() and not results.count()


def test_a_text_shows_its_nearest(tab):
    tab.locator("#query").fill("Court 7")
    tab.locator("#results button").first.click()
    near = tab.locator("#chosen li")
    assert near.count() == 10 and "Court 7" in tab.locator("#chosen h2").inner_text()
    assert all(title.startswith("Court") for title in near.locator("button").all_inner_texts())
    close = tab.get_by_role("button", name="Close")
    assert 0 <= close.bounding_box()["y"] < tab.viewport_size["height"], "without scrolling"
    near.locator("button").first.click()
    assert "Court 7" not in tab.locator("#chosen h2").inner_text()
    close.click()
    assert not tab.locator("#chosen").is_visible()


def test_the_map_shows_titles_and_chooses(tab):
    canvas = tab.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = tab.evaluate("place(5)")
    tab.mouse.move(box["x"] + x, box["y"] + y)
    tip, title = tab.locator("#tip"), tab.locator("#tip strong").inner_text()
    assert title.split()[0] in ("Court", "Voilier") and "<b>Text</b>" in tip.inner_text()
    edge = tip.bounding_box()
    assert edge["x"] + edge["width"] <= tab.viewport_size["width"]
    canvas.click(position={"x": x, "y": y})
    assert tab.locator("#chosen h2").inner_text() == title
    assert tab.locator("#classes").inner_text().split() == ["law", "water"]


def test_nothing_is_wider_than_the_screen_and_the_dark_is_dark(tab):
    width = tab.viewport_size["width"]
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    box = tab.locator("canvas").bounding_box()
    assert box["width"] > 0.4 * width and box["x"] + box["width"] <= width
    read = "getComputedStyle(document.body).backgroundColor"
    light = tab.evaluate(read)
    tab.emulate_media(color_scheme="dark")
    assert tab.evaluate(read) != light
