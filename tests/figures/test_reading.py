"""Texts of a search, pale from where the reader stopped."""

from lib import figures


def test_texts_are_shown_as_they_are_and_pale_where_they_were_not_read():
    html = figures.show_reading("a < b?", [("0.5 x", "read, <b>not</b>", 6), ("0.4 y", "all", 3)])
    assert "a &lt; b?" in html.data and "<b>not</b>" not in html.data
    read, rest = html.data.split("opacity")
    assert "read, " in read and "&lt;b&gt;not" in rest
    assert html.data.count("opacity") == 1, "what was read to its end is not pale anywhere"
