"""Extracts paragraphs from a MediaWiki dump, but none that formulas or templates left a gap in."""

import bz2
import html
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

_GAP = "\ue000"  # a private-use character that marks where something was cut
_SKIPPED = {"references", "external links", "see also", "further reading", "bibliography"}
_SKIPPED |= {"sources", "gallery", "filmography", "publications", "literature", "books"}
_SKIPPED |= {"selected bibliography", "list of works"}
# Templates that print nothing, and others with what they print; only those that the dump has.
_NOTES = {*"citation needed|page needed|rp|sfn|sfnp|refn|efn|clarify|who|when".split("|")}
_SPACES = {"nbsp": " ", "spaces": " ", "ndash": " – ", "snd": " – ", "spaced ndash": " – "}
_BLOCKS = (  # comments, exponents, formulas and references, with what replaces them
    (re.compile(r"(?si)<!--.*?(?:-->|\Z)"), ""),
    (re.compile(r"<sup>(?=[0-9+−–n-]{1,4}</sup>)"), "^"),
    (re.compile(r"(?si)<math\b[^>]*>.*?</math\s*>"), _GAP),
    (re.compile(r"(?si)<(ref|source|code)\b(?:[^>]*/\s*>|(?:[^>]*[^>/])?>.*?</\1\s*>)"), ""),
)
_TEMPLATE = re.compile(r"\{\{((?:[^{}]|\{(?!\{)|\}(?!\}))*)\}\}", re.S)
_TABLE = re.compile(r"\{\|(?:(?!\{\|).)*?\n\s*\|\}", re.S)
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_MARKUP = (  # links to other sites, line breaks, other tags, bold and italic text
    (re.compile(r"\[(?:https?:|ftp:|mailto:)?//[^\s\]]*\s*([^\]]*)\]"), r"\1"),
    (re.compile(r"<br[^<>]*>", re.I), " "),
    (re.compile(r"</?[a-zA-Z][^<>]*>"), ""),
    (re.compile(r"'{2,}"), ""),
)
_HEADING = re.compile(r"^(={2,6})\s*(.*?)\s*=+\s*$")
# Links to what prints nothing: files, categories, dictionaries, articles in other languages.
_SILENT = re.compile(r"\s*:?\s*(file|image|category|wikt(ionary)?|[a-z]{2,3}(-[a-z]+)?)\s*:", re.I)
_RESIDUE = re.compile(_GAP + r"|[{}|<>]|\([\s)]|www\.|\bISBN\b", re.I)
_SENTENCE_END = re.compile(r"[.!?][\"'”’)\]]*$")


def read_dump(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (article, top-level heading or "", clean prose) of paragraphs of an export (bz2)."""
    from gensim.corpora.wikicorpus import extract_pages  # slow to import

    with bz2.open(path, "rb") as stream:
        pages = list(extract_pages(stream, filter_namespaces=["0"]))
    for title, wikitext, _ in pages:
        section, skipped = "", False
        for line in _join_lines(wikitext):
            if heading := _HEADING.match(line):
                level, name = heading.groups()
                section = name if len(level) == 2 else section
                skipped = not {section.lower(), name.lower()}.isdisjoint(_SKIPPED)
            elif not skipped and (text := _prose(line)):
                yield title, section, text


def _join_lines(text: str) -> Iterator[str]:
    """Join plain lines, but not headings and list items, as MediaWiki does, without what can span
    lines: comments, references, formulas, templates, tables, files.
    """
    for pattern, replacement in _BLOCKS:
        text = pattern.sub(replacement, text)
    for pattern, replacement in ((_TEMPLATE, _template), (_TABLE, ""), (_LINK, _link)):
        while pattern.search(text):  # innermost first, because captions contain links
            text = pattern.sub(replacement, text)
    # A line that contains only a template counts as empty.
    lines = (line.strip() if line.strip(f"{_GAP} ") else "" for line in text.split("\n"))
    for plain, run in itertools.groupby(lines, key=lambda line: line[:1] not in ("", *"=*#:;|!{}")):
        held = [line for line in run if line]
        yield from [" ".join(held)] if plain else held


def _template(match: re.Match) -> str:
    name, *arguments = (part.strip() for part in match.group(1).split("|"))
    name = name.lower()
    if name in ("convert", "cvt"):  # {{convert|12|km|mi}} prints "12 km"
        ranged = {*arguments[1:2]} & {"-", "–", "to", "and", "by"}  # {{cvt|5|to|7|kg}} "5 to 7 kg"
        return " ".join(arguments[:4] if ranged else arguments[:2])
    return "" if name in _NOTES else _SPACES.get(name, _GAP)


def _link(match: re.Match) -> str:
    """Return the text that a link prints; empty for files and categories."""
    target, _, anchor = match.group(1).partition("|")
    return "" if _SILENT.match(target) else anchor.rpartition("|")[2] or target.replace("_", " ")


def _prose(line: str) -> str:
    """Clean a line; empty if it is not a full sentence or still contains a formula or markup."""
    words = 12 if line[0] in "*#:;" else 6  # smallest number of words
    text = line.lstrip("*#:; ")
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\s+", " ", html.unescape(text))
    text = re.sub(r"\s+([,;:.!?)\]])", r"\1", text)
    complete = len(text.split()) >= words and _SENTENCE_END.search(text)
    return text if complete and not _RESIDUE.search(text) else ""
