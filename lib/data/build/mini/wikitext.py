"""From a MediaWiki dump to clean paragraphs.

What is prose and what is not is decided per line: templates, tables, references, galleries, files and comments are
removed; headings become borders; a bullet stays only if it is a full sentence. A paragraph from which a formula was
cut, or that still carries markup afterwards, is dropped as a whole: a sentence with a hole teaches a model nothing.
"""

from __future__ import annotations

import bz2
import html
import itertools
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_GAP = "\ue000"  # a private character, which marks a formula that was cut

# Of sections and templates only those are named whose treatment changes a paragraph of gensim's dump.
# Sections that are lists of pointers, never prose about the subject.
_SKIPPED_SECTIONS = frozenset(
    "references|external links|see also|further reading|bibliography|sources|gallery|filmography|publications|"
    "literature|books|selected bibliography|list of works".split("|")
)
# Templates inside sentences print their last (-1) or first argument behind a prefix, or a character. The others are
# dropped with their content: footnotes, infoboxes, maintenance notes.
_PRINTED = {
    **dict.fromkeys("lang|transl|quote|bquote|music".split("|"), ("", -1)),
    **dict.fromkeys("nowrap|small|smaller|big|angbr|sc|linktext|nihongo|inflation".split("|"), ("", 0)),
    **{"hms": ("HMS ", 0), "as of": ("as of ", 0), "us$": ("$", 0)},
}
_CHARACTERS = {
    **dict.fromkeys(["nbsp", "spaces"], " "),
    **dict.fromkeys(["ndash", "snd", "mdashb", "spaced ndash"], " – "),
    "'s": "'s",
}
# Templates that compute what they print, so that leaving them out leaves a hole: the paragraph goes.
_FORMULAS = frozenset(
    "eqm|us patent|pop density|val|railgauge|frac|chem|coord|age|e|currentyear|sfrac|dentalformula|vr".split("|")
)
_SUPERSCRIPTS = str.maketrans("0123456789+-−–n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻ⁿ")

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_FORMULA_TAG = re.compile(r"<(math|chem|ce|hiero|score)\b[^>]*>.*?</\1\s*>", re.S | re.I)
_DROPPED_TAG = re.compile(
    r"<(gallery|timeline|syntaxhighlight|source|pre|imagemap|graph|table|poem|references|code)\b(?:[^>]*[^>/])?>.*?</\1\s*>",
    re.S | re.I,
)
_REFERENCE = re.compile(r"<ref\b[^>]*?/\s*>|<ref\b[^>]*>.*?</ref\s*>", re.S | re.I)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_TEMPLATE = re.compile(r"\{\{((?:[^{}]|\{(?!\{)|\}(?!\}))*)\}\}", re.S)
_TABLE = re.compile(r"\{\|(?:(?!\{\|).)*?\n\s*\|\}", re.S)
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_EXTERNAL = re.compile(r"\[(?:https?:|ftp:|mailto:)?//[^\s\]]*\s*([^\]]*)\]")
_HEADING = re.compile(r"^(={2,6})\s*(.*?)\s*=+\s*$")
_NAMESPACE = re.compile(
    r"^\s*:?\s*(?:file|image|category|media|template|wikipedia|help|portal|user|special|wikt|wiktionary|[a-z]{2,3}(?:-[a-z]+)?)\s*:",
    re.I,
)
_HATNOTE = re.compile(r"^(?:For other uses|This article is about|See also:|Main article)")
_RESIDUE = re.compile(r"[{}|<>]|\[\[|\]\]|==|''|https?:|www\.|__|&#?\w+;|\bref\s*name|\bISBN\b|\bdoi:", re.I)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*$")


class Paragraph(NamedTuple):
    """Clean prose under the top-level heading `section` ("" for the lead)."""

    text: str
    section: str


class Article(NamedTuple):
    """A page: `title` and clean `paragraphs`."""

    title: str
    paragraphs: tuple[Paragraph, ...]


def read_dump(path: Path) -> Iterator[Article]:
    """Articles of the bz2-compressed MediaWiki export `path`, in file order, without redirects and other namespaces."""
    with bz2.open(path, "rb") as stream:
        for _, element in ElementTree.iterparse(stream):
            if element.tag.rpartition("}")[2] == "page":
                fields = {child.tag.rpartition("}")[2]: child.text or "" for child in element.iter()}
                if fields["ns"] == "0" and "redirect" not in fields:
                    yield parse(fields["title"], fields.get("text", ""))
                element.clear()


def parse(title: str, wikitext: str) -> Article:
    """Clean paragraphs of a page; in its source `wikitext` XML entities are resolved once, as an XML parser does."""
    top, skipped, paragraphs = "", False, []
    for line in _join_lines(_strip_blocks(wikitext)):
        if heading := _HEADING.match(line):
            name = html.unescape(_TAG.sub("", heading.group(2))).strip(" '")
            if len(heading.group(1)) == 2:
                top = name
            skipped = not _SKIPPED_SECTIONS.isdisjoint({top.lower(), name.lower()})
        elif not skipped:
            paragraphs += filter(None, [_paragraph(line, top)])
    return Article(title, tuple(paragraphs))


def _join_lines(text: str) -> Iterator[str]:
    """MediaWiki's rule: plain lines without an empty line between are one paragraph; headings and items are alone."""
    lines = map(str.strip, text.split("\n"))
    for plain, run in itertools.groupby(lines, key=lambda line: line[:1] not in ("", *"=*#:;|!{}")):
        held = [line for line in run if line]
        yield from [" ".join(held)] if plain else held


def _strip_blocks(text: str) -> str:
    """Everything that can span lines: comments, references, formulas, templates, tables, files."""
    text = _COMMENT.sub("", text.replace(_GAP, ""))
    text = re.sub(r"<sup>([0-9+−–n-]{1,4})</sup>", lambda m: m.group(1).translate(_SUPERSCRIPTS), text)
    text = re.sub(r"</?(?:nowiki|onlyinclude|noinclude)\s*/?>", "", text)
    text = _DROPPED_TAG.sub("", _REFERENCE.sub("", _FORMULA_TAG.sub(_GAP, text)))
    for pattern, replacement in ((_TEMPLATE, _template), (_TABLE, ""), (_LINK, _link)):
        replaced = 1
        while replaced:  # innermost first, until none is left; captions hold links
            text, replaced = pattern.subn(replacement, text)
    return text


def _template(match: re.Match) -> str:
    name, *arguments = (part.strip() for part in match.group(1).split("|"))
    name = name.lower().replace("_", " ")
    values = [argument for argument in arguments if not re.match(r"^[\w -]+=", argument)]
    if name in ("convert", "cvt"):
        return _convert(values)
    if name in _FORMULAS:
        return _GAP
    if name.startswith("formatnum:"):
        return name.removeprefix("formatnum:")
    if values and (name in _PRINTED or name.startswith("lang-")):
        prefix, index = _PRINTED.get(name, ("", 0))
        return prefix + values[index]
    return _CHARACTERS.get(name, "")


def _convert(values: list[str]) -> str:
    """`{{convert|12|km|mi}}` prints "12 km", a range `{{convert|5|to|7|kg}}` "5 to 7 kg"."""
    if len(values) >= 4 and values[1] in ("-", "–", "to", "and", "by", "x", "or"):
        return f"{values[0]} {values[1]} {values[2]} {values[3]}"
    return " ".join(values[:2])


def _link(match: re.Match) -> str:
    """What a link prints; nothing for files and categories."""
    target, _, anchor = match.group(1).partition("|")
    return "" if _NAMESPACE.match(target) else anchor.rpartition("|")[2] or target.replace("_", " ").lstrip(":")


def _paragraph(line: str, section: str) -> Paragraph | None:
    """The line as prose; None of what is none (list item, row of a table) or still holds a formula or markup."""
    item = line[0] in "*#:;"
    line = line.lstrip("*#:; ")
    if not line or line[0] in "|!{}" or _HATNOTE.match(line):
        return None
    line = _EXTERNAL.sub(lambda m: m.group(1), line)
    line = re.sub(r"'{2,}", "", _TAG.sub(lambda m: " " if m.group(0)[1:3].lower() == "br" else "", line))
    line = html.unescape(html.unescape(line))
    text = _tidy(line)
    if len(text.split()) < (12 if item else 6) or not _SENTENCE_END.search(text):
        return None
    if _GAP in text or _RESIDUE.search(text):
        return None
    return Paragraph(text, section)


def _tidy(text: str) -> str:
    """White space, and the brackets and commas that removed templates leave behind."""
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"[\u200b-\u200f\u2060\ufeff\u00ad]", "", text)
    previous = None
    while previous != text:  # emptying the inner brackets can empty the outer ones
        previous = text
        text = re.sub(r"([(\[])[\s,;:.–-]+", r"\1", text)
        text = re.sub(r"[\s,;:–-]+([)\]])", r"\1", text)
        text = re.sub(r"\(\s*(?:or|and|pronounced|IPA)?\s*\)|\[\s*\]", "", text)
        text = re.sub(r"\s+([,;:.!?)\]])(?=[\s,;.)]|$)", r"\1", text)
        text = re.sub(r"([,;:])(?:\s*[,;:])+", r"\1", text)
        text = re.sub(r" {2,}", " ", text).strip(" ,;:")
    return text
