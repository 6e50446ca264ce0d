"""Documents in: text, Markdown, HTML, PDF, and the JATS XML of PubMed Central and StatPearls (``.nxml``).

Each file is one document, given as a :class:`~ragrounds.records.Passage` whose id is the file's path inside the folder.
Headings of HTML and NXML become Markdown headings, so that the chunker ``headings`` finds them; nothing else is
interpreted. PDF and HTML go through LlamaIndex's readers (extra ``files``).
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ragrounds.records import Passage
from ragrounds.tools.jats import paragraph, read_article

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
    for unseen in soup(["script", "style", "noscript", "template", "nav", "footer"]):
        unseen.decompose()
    blocks: list[str] = []
    for tag in (soup.body or soup).find_all(["h1", "h2", "h3", "h4", "h5", "h6", "p", "li", "td", "pre"]):
        if tag.find(["p", "li", "td"]):
            continue  # its parts come by themselves
        text = " ".join(tag.get_text(" ", strip=True).split())
        if text:
            blocks.append(f"{'#' * int(tag.name[1])} {text}" if tag.name[0] == "h" else paragraph(text))
    return title, "\n\n".join(blocks)


def _pdf(path: Path) -> tuple[str, str]:
    try:
        from llama_index.readers.file import PDFReader
    except ImportError:
        raise ValueError("reading PDF needs LlamaIndex's readers: install ragrounds[files]") from None
    try:
        pages: list[Any] = PDFReader().load_data(path)
    except Exception as problem:  # pypdf has dozens of kinds for what a broken file can do
        raise ValueError(f"it is not a PDF that can be read ({problem})") from None
    return "", "\n\n".join(page.text for page in pages)


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
