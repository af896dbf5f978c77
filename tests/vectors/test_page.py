"""`index.html`, also in a browser: Chromium and playwright, which `tests/run.sh` installs."""

import json
import re
import shutil

import numpy as np
import pytest

from lib.vectors import own

FACTS = {"documents": 60, "verdict": "EQUAL", "scores": [{"measure": "MRR", "value": 0.5}]}
CHROMIUM = shutil.which("chromium")


def render(titles, labels, vectors, text="<b>&amp; </script>"):
    texts = text if isinstance(text, list) else [text] * len(titles)
    rows = [*zip(titles, texts, labels, strict=True)]
    html = own.render_page("<i>mine</i>", rows, vectors, FACTS)
    return html, json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_texts_cannot_leave_their_place_and_no_address_is_named():
    titles = ["</script><script>alert(1)</script>"] * 3
    html, data = render(titles, ["x", "y", None], np.eye(3))
    assert html.count("<script") == 2 and "<i>mine" not in html and "alert(1)</" not in html
    assert data["titles"] == titles and not re.search(r"https?:|src=|@import|url\(", html)
    assert data["classes"] == ["x", "y"] and data["class"] == [0, 1, -1]
    _, many = render(["a"] * 9, [*"abcdefghi"], np.eye(9))
    assert many["classes"] == [] and many["class"] == [-1] * 9, "more classes than colours"


def test_neighbours_are_those_of_the_largest_cosines():
    vectors = np.random.default_rng(0).normal(size=(110, 8))
    vectors[0] = 0  # without a known word
    unit = own.scale_rows(vectors)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    _, data = render(["a"] * 110, [None] * 110, vectors)
    nearest = np.argsort(-cosines, axis=1)[:, : own.NEIGHBOURS].tolist()
    assert data["near"][1:] == nearest[1:]  # all are equally near to the first


@pytest.mark.parametrize(("count", "distinct"), [(2, 2), (30, 30), (12, 1)])
def test_any_texts_have_places_on_the_map(count, distinct):
    vectors = np.random.default_rng(0).normal(size=(distinct, 5))[np.arange(count) % distinct]
    places = np.array(render(["a"] * count, [None] * count, vectors)[1]["map"])
    assert places.shape == (count, 2) and places.min() == 0 and places.max() == 1000


needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
TEXTS = [f"<b>Text</b> {n} of the {('river', 'judge')[n % 2]} " * 20 for n in range(60)]


@pytest.fixture(params=[(1300, 900), (390, 780)], ids=["desktop", "phone"])
def tab(request, tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here")
    kinds, problems = np.arange(60) % 2, []
    vectors = np.eye(8)[kinds] + np.random.default_rng(0).normal(scale=0.1, size=(60, 8))
    titles = [f"{('Voilier', 'Court')[kind]} {n}" for n, kind in enumerate(kinds)]
    html, _ = render(titles, [("water", "law")[kind] for kind in kinds], vectors, TEXTS)
    (tmp_path / "index.html").write_text(html, encoding="utf-8")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        size = dict(zip(("width", "height"), request.param, strict=True))
        tab = browser.new_context(viewport=size, offline=True).new_page()
        tab.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
        tab.on("pageerror", lambda error: problems.append(str(error)))
        tab.goto((tmp_path / "index.html").as_uri())
        yield tab
        assert problems == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
        browser.close()


@needs_browser
def test_search_marks_what_it_finds_and_neighbours_and_map_lead_on(tab):
    results = tab.locator("#results li")
    assert results.count() == 50
    tab.locator("#query").fill("ju\u00addge")
    assert "30 of 60" in tab.locator("#status").inner_text()
    assert tab.locator("#results mark").first.inner_text() == "judge"
    assert "<b>Text</b>" in results.first.locator("p").inner_text(), "a text is no HTML"
    assert tab.evaluate("fold('Мои\\u0306 ﬁ É')") == "мой fi e"
    tab.locator("#query").fill("VOILIER 58 river")
    assert results.first.locator("button").inner_text() == "Voilier 58"
    # A text shows its nearest, and the map chooses.
    tab.locator("#query").fill("Court 7")
    tab.locator("#results button").first.click()
    near, chosen = tab.locator("#chosen li"), tab.locator("#chosen h2")
    assert near.count() == 10 and "Court 7" in chosen.inner_text()
    assert all(title.startswith("Court") for title in near.locator("button").all_inner_texts())
    near.locator("button").first.click()
    assert "Court 7" not in chosen.inner_text()
    tab.get_by_role("button", name="Close").click()
    assert not chosen.is_visible()
    canvas = tab.locator("canvas")
    canvas.scroll_into_view_if_needed()
    box, (x, y) = canvas.bounding_box(), tab.evaluate("place(5)")
    tab.mouse.move(box["x"] + x, box["y"] + y)
    title = tab.locator("#tip strong").inner_text()
    assert "<b>Text</b>" in tab.locator("#tip").inner_text()
    canvas.click(position={"x": x, "y": y})
    assert chosen.inner_text() == title
    assert tab.locator("#classes").inner_text().split() == ["law", "water"]
