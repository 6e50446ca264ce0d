"""The JATS XML of PubMed Central and StatPearls (``.nxml``), read by defusedxml, for which entities that expand or
fetch are errors.

| part | ``full`` | ``medrag`` |
|---|---|---|
| abstracts, body, their headings, paragraphs and lists | yes | yes |
| tables, with number, caption, rows of cells and notes | yes | no |
| captions of figures, with their number | yes | no |
| boxes, quotes, definitions, formulas in lines of their own | yes | no |
| ``(Table 1)``, ``(Figure 2)`` and other references inside the article | yes | no |
| appendices, glossaries, figures and tables at the end | yes | no |
| references and their numbers, thanks, conflicts, supplements, texts for pictures, translations | no | no |

``medrag`` reads the same parts of StatPearls as the MedRAG toolkit (Xiong et al. 2024), for corpora equal to theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.entities import html5
from xml.etree.ElementTree import Element, TreeBuilder  # in C: looking through them does not recurse

from msgspec import Struct

from ragrounds.tools.documents.blocks import Block, Blocks, Opened, paragraph
from ragrounds.tools.documents.encodings import decode
from ragrounds.tools.documents.found import DocumentFault, DocumentReader, DocumentText, Remark


class JatsArticle(Struct, frozen=True, kw_only=True):
    """An article. Fields that it does not state are empty, or ``None``."""

    title: str
    text: str
    """Text of abstract and body, with headings as Markdown headings."""
    pmc: str = ""
    """PMC id, such as ``PMC10641966``."""
    year: int | None = None
    """Year of its first publication."""
    type: str = ""
    """JATS's ``article-type``: ``case-report``, ``research-article``, …"""
    subject: str = ""
    """First of its subjects."""
    remarks: tuple[Remark, ...] = ()
    """Remarks for the build report."""


def read_article(data: bytes, *, published: bool = False) -> JatsArticle:
    """Read an article.

    Args:
        data: the file.
        published: True to read as MedRAG's program reads StatPearls, without tables, figures and boxes.

    Raises:
        ValueError: it is not XML that can be read, or has neither abstract nor body.
    """
    root, remarks = _parse_root(data)
    parts = [*root.iterfind(".//abstract"), *root.iterfind(".//body")]
    if published:
        texts: list[str] = []
        for part in parts:
            _section(part, 0, texts)
    else:
        parts += [*root.iterfind(".//back//app"), *root.iterfind(".//back//glossary"), *root.iter("floats-group")]
        texts = [block.markdown() for part in _outermost(parts) for block in _blocks(part)]
    if not texts:
        raise DocumentFault("it has neither an abstract nor a body: expected JATS (PMC, StatPearls)")
    article = root if root.tag == "article" else root.find(".//article")
    years = [plain_text(year) for year in root.iterfind(".//article-meta/pub-date/year")]
    return JatsArticle(
        title=plain_text(root.find(".//title-group/article-title"))
        or plain_text(root.find(".//book-part-meta//title")),
        text="\n\n".join(texts),
        pmc=_pmc(root),
        year=min((int(year) for year in years if year.isascii() and year.isdigit()), default=None),
        type=(article.get("article-type") or "") if article is not None else "",
        subject=plain_text(root.find(".//article-meta/article-categories//subject")),
        remarks=remarks,
    )


_DECLARED = re.compile(rb"""\A\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_PROLOGUE = re.compile(r"\A\s*<\?xml[^>]{0,300}\?>")


def _parse_root(content: bytes) -> tuple[Element, tuple[Remark, ...]]:
    """Parse the root. Entity names such as ``&nbsp;``, which a DTD would declare, are those of HTML."""

    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import DefusedXMLParser, ParseError

    declared = _DECLARED.match(content)
    text, remarks = decode(content, declared[1].decode() if declared else "")
    parser = DefusedXMLParser(target=TreeBuilder(), forbid_dtd=False, encoding="utf-8")
    parser.entity.update({name.rstrip(";"): value for name, value in html5.items()})
    text = _PROLOGUE.sub("", text)
    try:
        if "<!DOCTYPE" not in text[:10_000]:  # without a DTD expat accepts only its own five names
            parser.feed(b'<!DOCTYPE article SYSTEM "none">')
            text = text.lstrip()
        parser.feed(text.encode("utf-8", "replace"))
        root: Element = parser.close()
    except DefusedXmlException:
        raise DocumentFault("it declares entities, which are not expanded") from None
    except ParseError as problem:
        raise DocumentFault("it is not XML that can be read", str(problem)) from None
    return root, remarks


def _pmc(root: Element) -> str:
    for identity in root.iterfind(".//article-meta/article-id"):
        if identity.get("pub-id-type") in ("pmc", "pmcid") and (number := plain_text(identity)):
            return number if number.upper().startswith("PMC") else f"PMC{number}"
    return ""


def _outermost(parts: list[Element]) -> Iterator[Element]:
    """Yield the parts that are in no other part, in their order. An appendix in an appendix is read once."""
    seen: set[Element] = set()
    for part in parts:
        if part not in seen:
            yield part
            seen.update(part.iter())


_INLINE = frozenset(
    "abbrev bold break chem-struct email ext-link fixed-case inline-formula institution italic milestone-end "
    "milestone-start monospace named-content overline roman rb rt ruby sans-serif sc strike styled-content sub sup "
    "target tex-math underline uri xref a b em i small span strong u".split()
)
"""Tags inside a paragraph, including HTML's, as tables have them.

All others begin and end a paragraph. MathML's tags have a namespace, and are inline too.
"""
_TABLES = {"table": "table", "tgroup": "table", "tr": "row", "row": "row", "td": "cell", "th": "cell", "entry": "cell"}
_SECTIONS = frozenset(("abstract", "app", "body", "glossary", "sec"))
"""Tags in which a title is a heading, and a label is a number that is not text."""
_LABELLED = frozenset(("boxed-text", "def-item", "disp-formula", "fig", "fn", "list-item", "statement", "table-wrap"))
"""Tags that a label is part of."""
_LEFT_OUT = frozenset(
    "alt-text attrib graphic inline-graphic inline-supplementary-material long-desc media object-id permissions "
    "ref-list sec-meta supplementary-material".split()
)
_INSIDE = frozenset(("app", "boxed-text", "disp-formula", "fig", "list", "scheme", "sec", "statement", "table"))
"""Types of references to parts of the article. All others are numbers of its reference list and of its notes."""


def _blocks(part: Element) -> list[Block]:
    """Return the blocks of a part without recursion, since sections may be nested to any depth."""
    blocks = Blocks()
    entered: list[tuple[Iterator[Element], Element, str, int, Opened | None]] = [(iter(part), part, "", 0, None)]
    while entered:
        children, element, parent, level, opened = entered[-1]
        child = next(children, None)
        if child is None:
            entered.pop()
            _end(blocks, element.tag, parent, level, opened)
            if entered:
                blocks.add(element.tail or "")
        elif _is_left_out(child, element.tag):
            blocks.add(child.tail or "")
        else:
            table = None
            if child.tag in _TABLES:
                table = blocks.table(_TABLES[child.tag])
            elif child.tag == "break":
                blocks.add(" ")
            elif not _is_inline(child.tag) and child.tag not in ("alternatives", "label"):
                blocks.end()
            before = child.text or ""
            if child.tag == "tex-math":  # PMC puts a whole TeX document around a formula
                before = before.partition(r"\begin{document}")[2].partition(r"\end{document}")[0] or before
            blocks.add(before)
            inner = level + (child.tag == "sec")
            content = iter(child)
            if child.tag == "alternatives":
                # Forms of the same content: one that is read, mathematics before its TeX.
                forms = [form for form in child if form.tag not in _LEFT_OUT]
                content = iter(sorted(forms, key=lambda form: form.tag in ("tex-math", "textual-form"))[:1])
            entered.append((content, child, element.tag, inner, table))
    return blocks.done()


def _end(blocks: Blocks, tag: str, parent: str, level: int, opened: Opened | None) -> None:
    """Report the end of an element to the blocks."""
    if tag in _TABLES:
        blocks.close(opened)
    elif tag in ("label", "term"):
        blocks.label()
    elif tag == "title":
        blocks.end(min(max(level, 1), 6) if parent in _SECTIONS else 0)
    elif tag in _LABELLED:
        blocks.finish()
    elif not _is_inline(tag) and tag != "alternatives":
        blocks.end()


def _is_inline(tag: str) -> bool:
    return tag in _INLINE or tag.startswith("{")


def _is_left_out(element: Element, parent: str) -> bool:
    """Return True if an element's content is not read."""
    tag = element.tag
    if tag == "xref":
        return element.get("ref-type") not in _INSIDE
    return tag in _LEFT_OUT or (tag == "label" and parent in _SECTIONS) or tag.endswith("}annotation")


def _section(element: Element, level: int, blocks: list[str]) -> None:
    """Add the parts that MedRAG's program reads: headings, paragraphs and lists."""
    open_sections = [(iter(element), level)]
    while open_sections:
        children, level = open_sections[-1]
        child = next(children, None)
        if child is None:
            open_sections.pop()
        elif child.tag == "title":
            if heading := plain_text(child):
                blocks.append(f"{'#' * min(max(level, 1), 6)} {heading}")
        elif child.tag == "sec":
            open_sections.append((iter(child), level + 1))
        elif child.tag in ("p", "list"):
            for entry in child.iter("list-item") if child.tag == "list" else (child,):
                if text := plain_text(entry):
                    blocks.append(paragraph(text))


_SKIPPED = {"table-wrap", "fig", "xref", "disp-formula", "graphic", "media"}


def plain_text(element: Element | None) -> str:
    """Return all text except that of tables, figures, references and displayed formulas, with blanks collapsed."""
    if element is None:
        return ""
    parts = [element.text or ""]
    entered, tails = [iter(element)], [""]
    while entered:
        child = next(entered[-1], None)
        if child is None:
            entered.pop()
            parts.append(tails.pop())
        elif child.tag in _SKIPPED:
            parts.append(child.tail or "")
        else:
            parts.append(child.text or "")
            entered.append(iter(child))
            tails.append(child.tail or "")
    return " ".join("".join(parts).split())


def _read(content: bytes, reading: str, largest: int) -> DocumentText:
    article = read_article(content, published=reading == "medrag")
    return DocumentText(article.title, article.text, article.remarks)


JATS = DocumentReader("jats", (".nxml", ".xml"), _read)
