"""Reads documents: text, Markdown, HTML, PDF, and the JATS XML of PubMed Central and StatPearls (``.nxml``).

Each file is one document, given as a :class:`~ragrounds.records.Passage` whose id is the file's path inside the folder.
Headings of HTML and NXML become Markdown headings, so that the chunker ``headings`` finds them; nothing else is
interpreted. References, figures and tables of NXML are left out, as MedRAG leaves them out.

HTML is read by Beautiful Soup, PDF by LlamaIndex's reader, XML by defusedxml, for which entities that expand or fetch
are errors (extra ``files``)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ragrounds.records import Passage

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from bs4 import Tag


class JatsArticle(Struct, frozen=True, kw_only=True):
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


def read_article(data: bytes) -> JatsArticle:
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
    return JatsArticle(
        title=plain_text(root.find(".//title-group/article-title"))
        or plain_text(root.find(".//book-part-meta//title")),
        text="\n\n".join(blocks),
        pmc=_pmc(root),
        year=_year(root),
        type=(article.get("article-type") or "") if article is not None else "",
        subject=plain_text(root.find(".//article-meta/article-categories//subject")),
    )


def _pmc(root: Element) -> str:
    for identity in root.iterfind(".//article-meta/article-id"):
        if identity.get("pub-id-type") in ("pmc", "pmcid") and (number := plain_text(identity)):
            return number if number.upper().startswith("PMC") else f"PMC{number}"
    return ""


def _year(root: Element) -> int | None:
    years = [plain_text(year) for year in root.iterfind(".//article-meta/pub-date/year")]
    return min((int(year) for year in years if year.isascii() and year.isdigit()), default=None)


def _section(element: Element, level: int, blocks: list[str]) -> None:
    open_sections = [(iter(element), level)]  # no recursion: sections may stand in each other as deeply as can be
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
            for item in child.iter("list-item") if child.tag == "list" else (child,):
                if text := plain_text(item):
                    blocks.append(paragraph(text))


_SKIPPED = {"table-wrap", "fig", "xref", "disp-formula", "graphic", "media"}


def plain_text(element: Element | None) -> str:
    """All text inside, blanks collapsed."""
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


def paragraph(text: str) -> str:
    """A paragraph that begins like a heading is not one: it is marked as Markdown marks it."""
    return f"\\{text}" if text.startswith("#") else text


_LONGEST = 256 * 2**20
"""Bytes of a document that is taken into memory; larger ones are errors, a corpus of them belongs into JSON Lines."""


def is_document(path: Path) -> bool:
    """Whether a file is of a kind that is read here."""
    return _kind(path) in _READERS


def read_document(path: Path, root: Path) -> Passage:
    """Read one file.

    Raises:
        ValueError: it is not of its kind, too large, or what reads it is not installed.
        OSError: it cannot be read.
    """
    if path.stat().st_size > _LONGEST:
        raise ValueError(f"it has more than {_LONGEST // 2**20} MiB")
    title, text = _READERS[_kind(path)](path)
    name = path.relative_to(root).as_posix() if path != root else path.name
    return Passage(id=name, document=name, title=title or path.name.split(".")[0], text=text, corpus="")


def _kind(path: Path) -> str:
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def read_whole(path: Path) -> bytes:
    """A document's bytes, unpacked where its ending is ``.gz``.

    Raises:
        ValueError: it unpacks to more than is taken into memory.
        OSError: it cannot be read.
    """
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path, "rb") as file:
        content = file.read(_LONGEST + 1)
    if len(content) > _LONGEST:
        raise ValueError(f"it unpacks to more than {_LONGEST // 2**20} MiB")
    return content


def _plain(path: Path) -> tuple[str, str]:
    return "", read_whole(path).decode("utf-8-sig")


def _markdown(path: Path) -> tuple[str, str]:
    """The first heading of the first level, where the text begins with one, is the title."""
    text = read_whole(path).decode("utf-8-sig").lstrip()
    if not text.startswith("# "):
        return "", text
    title, _, rest = text.partition("\n")
    return title[2:].strip(), rest.lstrip()


def _html(path: Path) -> tuple[str, str]:
    try:
        from bs4 import BeautifulSoup  # the parser under LlamaIndex's HTMLTagReader
    except ImportError:
        raise ValueError("reading HTML needs beautifulsoup4: install ragrounds[files]") from None
    soup = BeautifulSoup(read_whole(path), "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    text = "\n\n".join(
        f"{'#' * int(name[1])} {text}" if name in _HEADINGS else paragraph(text)
        for name, text in _html_blocks(soup.body or soup)
    )
    if not (title or text):
        raise ValueError("it holds no text")
    return title, text


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_BLOCKS = frozenset(
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure form "
    "header hr html legend li main ol p pre section summary table tbody td tfoot th thead tr ul".split()
).union(_HEADINGS)
"""Tags that begin a paragraph, and end one."""
_UNSEEN = frozenset(("head", "script", "style", "noscript", "template", "nav", "footer"))


def _html_blocks(root: Tag) -> Iterator[tuple[str, str]]:
    """The paragraphs with the tags that they stand in. No text is left out, whatever it stands in, but that of
    `_UNSEEN`; no recursion, since tags may stand in each other as deeply as can be."""
    from bs4 import Tag
    from bs4.element import CData, NavigableString

    held: list[str] = []
    entered: list[tuple[Iterator[object], str, bool]] = [(iter(root.contents), root.name, True)]
    while entered:
        children, block, ends = entered[-1]
        child = next(children, None)
        begins = isinstance(child, Tag) and child.name in _BLOCKS
        if held and (begins or (child is None and ends)) and (text := " ".join(" ".join(held).split())):
            yield block, text
            held = []
        if child is None:
            entered.pop()
        elif isinstance(child, Tag):
            if child.name not in _UNSEEN:
                entered.append((iter(child.contents), child.name if begins else block, begins))
        elif type(child) in (NavigableString, CData):
            held.append(str(child).strip())


def _pdf(path: Path) -> tuple[str, str]:
    try:
        from llama_index.readers.file import PDFReader
    except ImportError:
        raise ValueError("reading PDF needs LlamaIndex's readers: install ragrounds[files]") from None
    try:
        pages: list[Any] = PDFReader().load_data(path)
    except Exception as problem:  # pypdf has dozens of kinds for what a broken file can do
        raise ValueError(f"it is not a PDF that can be read ({problem})") from None
    text = "\n\n".join(page.text for page in pages)
    if not text.strip():
        raise ValueError("it holds no text: are its pages pictures?")
    return "", text


def _jats(path: Path) -> tuple[str, str]:
    article = read_article(read_whole(path))
    return article.title, article.text


_READERS: dict[str, Callable[[Path], tuple[str, str]]] = {
    ".txt": _plain,
    ".text": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".nxml": _jats,
    ".xml": _jats,
}
