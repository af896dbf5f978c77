"""Cleaning wikitext: what stays, what goes, and where links end up."""

import pytest

from lib.data.builders.mini.wikitext import parse


def texts(source, title="Title"):
    return [paragraph.text for paragraph in parse(title, source)]


def test_markup_inside_a_sentence_disappears():
    source = (
        "'''Apollo''' was a ''very'' old<ref name=a>Smith {{cite book|x}}</ref> god<ref name=b /> "
        "of [[light|bright light]]<!-- really? --> and [[music]]{{citation needed|date=May}}, "
        "12{{nbsp}}m<sup>2</sup> in H<sub>2</sub>O &ndash; see [http://x.y the page] of "
        "[[David_Hume]] and ''[[Emma (novel)|Emma]]'', {{convert|12|km|mi}} or "
        "{{cvt|5|to|7|kg|lb}}."
    )
    assert texts(source) == [
        "Apollo was a very old god of bright light and music, 12 m^2 in H2O – see the page of "
        "David Hume and Emma, 12 km or 5 to 7 kg."
    ]


@pytest.mark.parametrize(
    "block",
    [
        "{{Infobox|name=x|image=[[File:a.jpg]]|nested={{b|{{c}}}}}}",
        "{| class=wikitable\n! head\n|-\n| cell one || {{x}} is a cell that ends here."
        "\n{| \n| nested table it is indeed.\n|}\n|}",
        "== References ==\nSmith wrote a whole book about this very subject."
        "\n=== Books ===\nAnd another book is listed in here.",
        "The mean is <math>\\frac{a}{b}</math> where a and b are two numbers.",
        "It weighs about {{val|3|e=5}} in the units that are used here.",
    ],
)
def test_blocks_that_are_no_prose_leave_nothing(block):
    before = "This first sentence is plain prose and stays."
    after = "This last sentence is plain prose and stays."
    after = "" if "References" in block else after
    assert texts(f"{before}\n\n{block}\n\n{after}") == [t for t in (before, after) if t]
