"""Cleaning wikitext: what stays, what goes, and where links end up."""

import bz2

import pytest

from lib.data.builders.mini import gensim_files, wikitext
from lib.data.builders.mini.wikitext import parse


def texts(source, title="Title"):
    return [paragraph.text for paragraph in parse(title, source)]


def test_markup_inside_a_sentence_disappears():
    source = (
        "'''Apollo''' was a ''very'' old<ref name=a>Smith {{cite book|x}}</ref> god<ref name=b /> "
        "of [[light|bright light]]<!-- really? --> and [[music]]{{citation needed|date=May}}, "
        "12{{nbsp}}m<sup>2</sup> in H<sub>2</sub>O &ndash; see [http://x.y the page]."
    )
    assert texts(source) == [
        "Apollo was a very old god of bright light and music, 12 m^2 in H2O – see the page."
    ]


@pytest.mark.parametrize(
    "block",
    [
        "{{Infobox|name=x|image=[[File:a.jpg]]|nested={{b|{{c}}}}}}",
        "{| class=wikitable\n! head\n|-\n| cell one || {{x}} is a cell that ends here."
        "\n{| \n| nested table it is indeed.\n|}\n|}",
        "[[File:a.jpg|thumb|left|A caption with [[a|some link]] that is a whole sentence here.]]",
        "<gallery>\nA.jpg|A caption that is a whole sentence as well here.\n</gallery>",
        "[[Category:Gods]]\n[[fr:Apollon]]",
        "== References ==\nSmith wrote a whole book about this very subject."
        "\n=== Books ===\nAnd another book is listed in here.",
        "* one item\n* another item",
        "* Smith, J. A history of nearly everything there is. ISBN 0-306-81329-7 (2003 reprint).",
        "The mean is <math>\\frac{a}{b}</math> where a and b are two numbers.",
        "It weighs about {{val|3|e=5}} in the units that are used here.",
    ],
)
def test_blocks_that_are_no_prose_leave_nothing(block):
    before = "This first sentence is plain prose and stays."
    after = "This last sentence is plain prose and stays."
    after = "" if "References" in block else after
    assert texts(f"{before}\n\n{block}\n\n{after}") == [t for t in (before, after) if t]


def test_links_leave_what_they_print():
    source = (
        "He read [[immanuel Kant#Life|Kant]], [[David_Hume]] and ''[[Emma (novel)|Emma]]'' all day."
    )
    assert texts(source) == ["He read Kant, David Hume and Emma all day."]


def test_units_are_written_out():
    assert texts("It is {{convert|12|km|mi}} long and weighs {{cvt|5|to|7|kg|lb}} at most.") == [
        "It is 12 km long and weighs 5 to 7 kg at most."
    ]


def test_lines_join_to_paragraphs_and_headings_name_sections():
    source = "The lead goes over\ntwo lines in the source.\n== History ==\n"
    source += (
        "It began a long time ago indeed.\n=== Early ===\nVery early on it was quite different."
    )
    paragraphs = list(parse("T", source))
    assert [p.section for p in paragraphs] == ["", "History", "History"]
    assert paragraphs[0].text == "The lead goes over two lines in the source."


def test_a_template_inside_a_sentence_drops_the_paragraph():
    dropped = "Apollo ({{IPAc-en|a}}; {{lang-el}}) is a god of the Greeks."
    kept = "He is the god of many things."
    assert texts(f"{dropped}\n\n{kept}") == [kept]


def test_dump_without_redirects_and_other_namespaces(tmp_path):
    page = "<page><title>{}</title><ns>{}</ns>{}<revision><text>{}</text></revision></page>"
    body = "A sentence with [[a link]] &amp;amp; more of the same."
    pages = [
        page.format("A", 0, "", body),
        page.format("B", 0, '<redirect title="A" />', body),
        page.format("C", 4, "", body),
    ]
    path = tmp_path / "dump.xml.bz2"
    path.write_bytes(bz2.compress(f"<mediawiki>{''.join(pages)}</mediawiki>".encode()))
    assert list(wikitext.read_dump(path)) == [
        ("A", "", "A sentence with a link & more of the same.")
    ]


def test_the_real_dump_is_clean_and_mostly_kept():
    paragraphs = list(wikitext.read_dump(gensim_files.path(gensim_files.DUMP)))
    assert len({p.article for p in paragraphs}) > 100 and len(paragraphs) > 4700
    residue = [*"{}|<>", "[[", "]]", "==", "''", "http:", "https:", "&nbsp", "\ue000"]
    for mark in [*residue, "()", "( ", " )", "  "]:
        assert not [p.text for p in paragraphs if mark in p.text], mark
    assert not [p.text for p in paragraphs if p.text[0] in "*#:;=" or p.text[-1].isalnum()]
