"""JATS XML, as PubMed Central and StatPearls give it (``.nxml``): an article's text, and what it says of itself.

References, figures and tables are left out of the text, as MedRAG leaves them out. Parsed by defusedxml (extra
``files``): entities that expand or fetch are errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


class Article(Struct, frozen=True, kw_only=True):
    """An article. What it does not say is empty, or ``None``."""

    title: str
    text: str
    """Abstract and body; headings as Markdown headings."""
    pmc: str = ""
    """Its PMC id, as ``PMC10641966``."""
    year: int | None = None
    """Of its first publication."""
    type: str = ""
    """JATS's ``article-type``: ``case-report``, ``research-article``, …"""
    subject: str = ""
    """The first of its subjects."""


def read_article(data: bytes) -> Article:
    """Read an article.

    Raises:
        ValueError: it is not XML that can be read, or has neither abstract nor body.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, fromstring

    try:
        root: Element = fromstring(data, forbid_dtd=False)
    except (ParseError, DefusedXmlException) as problem:
        raise ValueError(f"it is not XML that can be read ({problem})") from None
    blocks: list[str] = []
    for part in (*root.iterfind(".//abstract"), *root.iterfind(".//body")):
        _section(part, 0, blocks)
    if not blocks:
        raise ValueError("it has neither an abstract nor a body: expected JATS (PMC, StatPearls)")
    article = root if root.tag == "article" else root.find(".//article")
    return Article(
        title=plain(root.find(".//title-group/article-title")) or plain(root.find(".//book-part-meta//title")),
        text="\n\n".join(blocks),
        pmc=_pmc(root),
        year=_year(root),
        type=(article.get("article-type") or "") if article is not None else "",
        subject=plain(root.find(".//article-meta/article-categories//subject")),
    )


def _pmc(root: Element) -> str:
    for identity in root.iterfind(".//article-meta/article-id"):
        if identity.get("pub-id-type") in ("pmc", "pmcid") and (number := plain(identity)):
            return number if number.upper().startswith("PMC") else f"PMC{number}"
    return ""


def _year(root: Element) -> int | None:
    years = [plain(year) for year in root.iterfind(".//article-meta/pub-date/year")]
    return min((int(year) for year in years if year.isascii() and year.isdigit()), default=None)


def _section(element: Element, level: int, blocks: list[str]) -> None:
    for child in element:
        if child.tag == "title":
            if heading := plain(child):
                blocks.append(f"{'#' * min(max(level, 1), 6)} {heading}")
        elif child.tag == "sec":
            _section(child, level + 1, blocks)
        elif child.tag in ("p", "list"):
            for item in child.iter("list-item") if child.tag == "list" else (child,):
                if text := plain(item):
                    blocks.append(paragraph(text))


_SKIPPED = {"table-wrap", "fig", "xref", "disp-formula", "graphic", "media"}


def plain(element: Element | None) -> str:
    """All text inside, blanks collapsed."""
    if element is None:
        return ""
    parts: list[str] = []

    def walk(node: Element) -> None:
        parts.append(node.text or "")
        for child in node:
            if child.tag not in _SKIPPED:
                walk(child)
            parts.append(child.tail or "")

    walk(element)
    return " ".join("".join(parts).split())


def paragraph(text: str) -> str:
    """A paragraph that begins like a heading is not one: it is marked as Markdown marks it."""
    return f"\\{text}" if text.startswith("#") else text
