"""The page holds texts as data alone, and what is near is near."""

import json
import re

import numpy as np
import pytest

from lib.vectors import page
from lib.vectors.page import Entry

FACTS = {"documents": 3, "verdict": "EQUAL", "scores": [{"measure": "MRR", "value": 0.5}]}


def read_data(html):
    return json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_texts_cannot_leave_their_place_and_no_address_is_named():
    entries = [Entry("</script><script>alert(1)</script>", "<b>&amp; </script>")] * 3
    html = page.render_page("<i>mine</i>", entries, np.eye(3), FACTS)
    assert html.count("<script") == 2 and "<i>mine" not in html and "alert(1)</" not in html
    assert read_data(html)["titles"][0] == entries[0].title
    assert not re.search(r"https?:|src=|@import|url\(", html)


def test_neighbours_are_those_of_the_largest_cosines():
    vectors = np.random.default_rng(0).normal(size=(110, 8))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -2)
    expected = np.argsort(-cosines, axis=1)[:, : page.NEIGHBOURS]
    assert (page.find_neighbours(vectors) == expected).all()


@pytest.mark.parametrize("count", [1, 2, 4, 30])
def test_any_number_of_texts_has_places(count):
    places = page.place_on_map(np.random.default_rng(0).normal(size=(count, 5)))
    assert places.shape == (count, 2) and places.min() >= 0 and places.max() <= 1
    assert page.find_neighbours(np.eye(count)).shape == (count, min(10, count - 1))


@pytest.mark.parametrize("distinct", [1, 2, 5])
def test_texts_of_one_vector_have_one_place(distinct):
    places = page.place_on_map(np.eye(8, dtype="f4")[np.arange(12) % distinct] + 1)
    assert np.isfinite(places).all() and len(places) == 12
    assert distinct == 5 or len(np.unique(places.round(3), axis=0)) == distinct


def test_classes_have_colours_where_they_are_few():
    entries = [Entry("a", "b", label) for label in ("x", "y", "")]
    data = read_data(page.render_page("mine", entries, np.eye(3), FACTS))
    assert data["classes"] == ["x", "y"] and data["class"] == [0, 1, -1]
    many = [Entry("a", "b", str(n)) for n in range(9)]
    assert read_data(page.render_page("mine", many, np.eye(9), FACTS))["classes"] == []
