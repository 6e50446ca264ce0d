"""HTML as text, by Beautiful Soup with Python's own parser, which reads tags of any depth.

All text is read, in any tag, except that of scripts, styles, templates, navigation and footers. Tables are
rows of cells, captions of figures are paragraphs, and the texts of pictures (``alt``) are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ragrounds.tools.documents.blocks import Block, Blocks
from ragrounds.tools.documents.encodings import decode
from ragrounds.tools.documents.found import DocumentFault, DocumentReader, DocumentText

if TYPE_CHECKING:
    from bs4 import Tag

    from ragrounds.tools.documents.blocks import Opened

_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure "
    "form header hr html legend li main ol option p pre section summary tbody tfoot thead ul".split()
).union(_HEADINGS)
"""Tags that begin a paragraph, and end one."""
_TABLES = {"table": "table", "tr": "row", "td": "cell", "th": "cell"}
_SPACED = frozenset("br button img input label select svg textarea".split())
"""Tags inside a paragraph that are separated from the words around them."""
_UNSEEN = frozenset(("head", "script", "style", "noscript", "template", "nav", "footer"))


def read_html(data: bytes) -> DocumentText:
    """Read a page.

    Raises:
        DocumentFault: it is not text, or holds none; or Beautiful Soup is not installed.
    """
    try:
        from bs4.dammit import EncodingDetector
    except ImportError:
        raise DocumentFault("reading HTML needs beautifulsoup4: install ragrounds[files]") from None
    declared = EncodingDetector.find_declared_encoding(data, is_html=True)
    text, remarks = decode(data, declared or "")
    title, blocks = parse_html(text)
    if not (title or blocks):
        raise DocumentFault("it holds no text", "a page that scripts fill?" if "<script" in text else "")
    return DocumentText(title, "\n\n".join(block.markdown() for block in blocks), remarks)


def parse_html(page: str) -> tuple[str, list[Block]]:
    """Return a page's title, and its paragraphs, headings and rows."""
    from bs4 import BeautifulSoup  # the parser under LlamaIndex's HTMLTagReader

    soup = BeautifulSoup(page, "html.parser")
    title = " ".join(soup.title.get_text(" ", strip=True).split()) if soup.title else ""
    return title, _blocks(soup.body or soup)


def _blocks(root: Tag) -> list[Block]:
    """Return the blocks of a page without recursion, since tags may be nested to any depth."""
    from bs4 import Tag
    from bs4.element import CData, NavigableString

    blocks = Blocks()
    entered: list[tuple[Iterator[object], str, Opened | None, int]] = [(iter(root.contents), "body", None, 0)]
    while entered:
        children, name, opened, level = entered[-1]
        child = next(children, None)
        if child is None:
            entered.pop()
            if name in _TABLES:
                blocks.close(opened)
            elif name in _BLOCKS:
                blocks.end(level)
            elif name in _SPACED:
                blocks.add(" ")
        elif isinstance(child, Tag):
            opens = None
            if child.name in _UNSEEN or child.name in _SPACED:
                blocks.add(" ")
            elif child.name in _TABLES or child.name in _BLOCKS:
                blocks.end(level)
                level = _HEADINGS.get(child.name, 0)
                if child.name in _TABLES:
                    opens = blocks.table(_TABLES[child.name])
            if child.name not in _UNSEEN:
                entered.append((iter(child.contents), child.name, opens, level))
        elif type(child) in (NavigableString, CData):
            blocks.add(str(child))
    return blocks.done()


HTML = DocumentReader("html", (".html", ".htm"), lambda content, reading, largest: read_html(content))
