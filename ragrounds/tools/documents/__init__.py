"""Reads documents: text, Markdown, HTML, PDF, Word, and the JATS XML of PubMed Central and StatPearls (``.nxml``).

Each file is one document, given as a :class:`~ragrounds.base.records.Passage` whose id is the file's path inside the
folder. Headings of HTML, Word and NXML become Markdown headings, so that the chunker ``headings`` finds them, and rows
of their tables lines such as ``| cell | cell |``; nothing else is interpreted.

An unreadable document is a fault with a reason. A part left out of a document that was read is a remark.
:mod:`ragrounds.tools.index.build_report` shows both. All kinds may be packed as ``.gz``."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ragrounds.base import hooks
from ragrounds.base.plugins import discover
from ragrounds.base.records import Passage
from ragrounds.tools.documents.encodings import decode
from ragrounds.tools.documents.found import (
    NORMALISED,
    DocumentFault,
    DocumentReader,
    DocumentText,
    Remark,
    normal_text,
)
from ragrounds.tools.index.build_report import storable

_LONGEST = 256 * 2**20
"""Bytes of a document that are read into memory at most. Longer text is cut, and larger files of other kinds are
errors. A corpus of such documents belongs into JSON Lines."""
_MOST_PACKED = 4
"""Number of times that a file may be packed in itself."""
_BY_LINES = (".pdf", ".txt", ".text")
"""Kinds whose text has the lines of a page, so that words may be cut at their ends."""
READINGS = ("full", "medrag")
"""Parts of a document that are read: all, or the parts of NXML that MedRAG's program reads."""


def is_document(path: Path) -> bool:
    """Return True if a file is of a kind that is read here."""
    return _kind(path) in _readers()


def kind_of(path: Path) -> str:
    """Return a file's ending in words, for messages about kinds that are not read."""
    kind = _kind(path)
    return f"{kind} files" if kind else "files without an ending"


def kinds() -> tuple[str, ...]:
    """Return the endings of files that are read."""
    return tuple(_readers())


def read_document(path: Path, root: Path, reading: str = "full") -> tuple[Passage, tuple[Remark, ...]]:
    """Read one file.

    Args:
        path: the file.
        root: the folder that its id is relative to, or the file itself.
        reading: one of :data:`READINGS`.

    Returns:
        The document, and remarks on it.

    Raises:
        DocumentFault: it is empty, not of its kind, too large, or the library that reads it is not installed.
        OSError: it cannot be opened.
    """
    kind = _kind(path)
    reader = _readers().get(kind)
    if reader is None:
        raise DocumentFault(f"{kind_of(path)} are not read", outcome="unsupported")
    content, remarks = _content(path, may_be_cut=reader.may_be_cut)
    if not content.strip():
        raise DocumentFault("nothing but white space" if content else "it has no byte", outcome="empty")
    parsed = reader.read(content, reading, _LONGEST)
    text, n_replaced = normal_text(parsed.text, joins_lines=kind in _BY_LINES)
    if n_replaced:
        remarks += (Remark("read", NORMALISED, f"{n_replaced:,} of them"),)
    if not (parsed.title or text.strip()):
        raise DocumentFault("nothing but white space", outcome="empty")
    name = path.relative_to(root).as_posix() if path != root else path.name
    id = storable(name)
    if id != name:
        remarks += (Remark("read", "its name is no UTF-8: other bytes are written as \\x… in its id"),)
    title = normal_text(parsed.title, joins_lines=False)[0] or storable(path.name.split(".")[0])
    return Passage(id=id, document=id, title=title, text=text, corpus=""), (*remarks, *parsed.remarks)


def read_whole(path: Path) -> bytes:
    """Read a document's bytes, unpacked if it is packed.

    Raises:
        DocumentFault: it has, or unpacks to, more bytes than the limit.
        OSError: it cannot be read.
    """
    return _content(path, may_be_cut=False)[0]


def read_pdf(data: bytes) -> str:
    """Read a PDF as text.

    Raises:
        DocumentFault: it is broken, encrypted, or has no text; or the library that reads it is not installed.
    """
    return normal_text(_readers()[".pdf"].read(data, READINGS[0], _LONGEST).text, joins_lines=True)[0]


def _kind(path: Path) -> str:
    """Return the ending of a file's name, without ``.gz``."""
    name = path.name.lower()
    while name.endswith(".gz"):
        name = name[:-3]
    return Path(name).suffix


def _content(path: Path, *, may_be_cut: bool) -> tuple[bytes, tuple[Remark, ...]]:
    """Read a file's bytes, unpacked. Bytes above the limit are cut off, or are a fault."""
    with path.open("rb") as file:
        content = file.read(_LONGEST + 1)
    if path.suffix.lower() == ".gz":
        for depth in range(_MOST_PACKED + 1):
            if not content.startswith(b"\x1f\x8b"):
                break
            if depth == _MOST_PACKED:
                raise DocumentFault(f"it is packed in itself more than {_MOST_PACKED} times")
            try:
                with gzip.open(io.BytesIO(content), "rb") as packed:
                    content = packed.read(_LONGEST + 1)
            except (EOFError, zlib.error, gzip.BadGzipFile) as problem:
                raise DocumentFault("it cannot be unpacked", str(problem)) from None
    if len(content) <= _LONGEST:
        return content, ()
    if not may_be_cut:
        raise DocumentFault(f"it has more than {_LONGEST >> 20} MiB")
    end = content.rfind(b"\n", _LONGEST // 2, _LONGEST) + 1 or _LONGEST
    return content[:end], (Remark("cut", f"it has more than {_LONGEST >> 20} MiB: the rest is left out"),)


def _markdown(content: bytes, reading: str, largest: int) -> DocumentText:
    """Read Markdown. The first heading of the first level, if the text begins with one, is the title."""
    text, remarks = decode(content)
    text = text.lstrip()
    if not text.startswith("# "):
        return DocumentText("", text, remarks)
    title, _, rest = text.partition("\n")
    return DocumentText(title[2:].strip(), rest.lstrip(), remarks)


_TEXTS = (
    DocumentReader("text", (".txt", ".text"), lambda content, *_: DocumentText("", *decode(content)), may_be_cut=True),
    DocumentReader("markdown", (".md", ".markdown"), _markdown, may_be_cut=True),
)


@cache
def _readers() -> Mapping[str, DocumentReader]:
    """Return the reader of each ending."""
    readers = (*_TEXTS, *discover(hooks.DOCUMENT, DocumentReader).values())
    return {ending: reader for reader in readers for ending in reader.endings}
